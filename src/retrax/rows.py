"""Steps on a few rows of a point: what a batch does not name is neither read nor written.

For sparse problems (`Problem(..., sparse=)`), whose point is a table of rows and whose batches name rows by number, as
in embeddings. A step then costs the same however many rows there are.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrax._tree import pytree
from retrax.estimators.base import zeros
from retrax.manifolds.base import Manifold
from retrax.manifolds.power import Power
from retrax.methods import Around
from retrax.problems.base import BatchOracle, Objective
from retrax.typing import Array, Batch, Point, Step


class RowState(NamedTuple):
    """What each row carries; every array has a leading axis of rows."""

    rows: Any
    """The method's state."""
    touched: Array
    """How many batches have named the row, as a floating number: its own clock."""

    @property
    def last(self) -> Step:
        """The last step of each row."""
        return self.rows.last


@pytree
class RowByRow(Around):
    """A method in its lazy form: every row is a run of its own, whose clock ticks when a batch names it.

    Row i keeps what the method remembers (for RSRM its point before its last step and its last direction), and its
    step number t is how often it was named; with the first, the method starts there. The two gradients of a pair are
    of one batch: at the rows as they are, and at the rows as each of them was before its own last step. If every
    batch names every row, this is the method itself. Else RSRM's direction of row i estimates the gradient by row i
    of the samples *that name it*, E[grad_i f_S | i ∈ S] = grad_i F / P(i ∈ S), and what its neighbours did while it
    was not named enters with its next gradient, with weight ρ, instead of with the difference of the pair. Step sizes
    and scalings that measure something measure it row by row.
    """

    method: Any

    @property
    def step_is_given(self) -> bool:
        """Rows are at different times of a schedule: there is no one step size to judge."""
        return False

    @property
    def first_batch_size(self) -> int | str | None:
        """As the other batches: a larger one would start its own rows only."""
        return None

    def init(self, manifold: Power, x: Point) -> RowState:
        """The method's empty state for each row."""
        return RowState(self.method.init(manifold.manifold, x), zeros(manifold.manifold, x))

    def restart(self, manifold: Power, oracle: Any, x: Point, state: RowState, t: Any) -> tuple[Point, RowState]:
        """A step like all others; each row is started by the first batch that names it."""
        return self.step(manifold, BatchOracle(oracle.mean.objective, oracle.mean.samples()), x, state, t)

    def step(self, manifold: Power, oracle: Any, x: Point, state: RowState, t: Any) -> tuple[Point, RowState]:
        """A step on the rows that the batch names."""
        numbers, batch = numbered_anew(oracle.batch, oracle.objective.sparse, manifold.shape[0])
        rows, before = jax.tree.map(lambda a: a.at[numbers].get(mode="clip"), (x, state))
        after = self._moved(manifold.manifold, oracle.objective, batch, rows, before)
        # What is written depends on what was there, though by a condition that always holds: else XLA may write to a
        # table before it has read from it, and copies all of it for that.
        written = jax.tree.map(functools.partial(_where, after[1].touched > 0), after, (rows, before))
        put = lambda a, new: a.at[numbers].set(new, mode="drop", unique_indices=True)  # noqa: E731
        return jax.tree.map(put, (x, state), written)

    def _moved(
        self, manifold: Manifold, objective: Objective, batch: Batch, rows: Array, before: RowState
    ) -> tuple[Array, RowState]:
        """The step of a table that consists of the named rows, and all of their states."""
        oracle = BatchOracle(dataclasses.replace(objective, manifold=manifold), batch)
        clock = before.touched + 1
        arguments = (manifold, oracle, rows, before.rows, clock)
        after = _spread((rows, before.rows), self.method.step(*arguments))
        if self.estimator.keeps_last:
            started = _spread((rows, before.rows), self.method.restart(*arguments))
            after = jax.tree.map(functools.partial(_where, before.touched == 0), started, after)
        return after[0], RowState(after[1], clock)

    def info(self, state: RowState, t: Any) -> dict[str, Any]:
        """The means over the rows that have been named."""
        seen = state.touched > 0
        figures = self.method.info(state.rows, jnp.maximum(state.touched, 1))
        return {name: jnp.sum(seen * value) / jnp.maximum(jnp.sum(seen), 1) for name, value in figures.items()}

    def average(self, state: RowState) -> Point | None:
        """Of each row, where the method keeps one."""
        return self.method.average(state.rows)


def numbered_anew(batch: dict[str, Array], names: tuple[str, ...], count: int) -> tuple[Array, dict[str, Array]]:
    """The numbers of the rows that a batch names, each once, and the batch with places among these in their stead.

    There are as many numbers as the batch could name; those left over are `count`, which is no row.
    """
    every = jnp.concatenate([batch[name].reshape(-1) for name in names])
    numbers, places = jnp.unique(every, size=every.size, fill_value=count, return_inverse=True)
    parts = jnp.split(places.reshape(-1), np.cumsum([batch[name].size for name in names])[:-1])
    placed = {name: part.reshape(batch[name].shape) for name, part in zip(names, parts, strict=True)}
    return numbers, batch | placed


def _spread(like: Any, trees: Any) -> Any:
    """One number for each row, also where a method has one for all, such as a constant step size."""
    return jax.tree.map(lambda a, new: jnp.broadcast_to(new, a.shape), like, trees)


def _where(rows: Array, a: Array, b: Array) -> Array:
    """a in the rows for which the condition holds, else b."""
    return jnp.where(rows.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
