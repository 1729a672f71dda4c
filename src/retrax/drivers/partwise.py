"""Means over batches that are too large to hold: the host hands over one part after the other."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from retrax._tree import pytree
from retrax.problems.base import Objective, add_trees, sample_count, scale_tree
from retrax.sources import LargeBatch
from retrax.typing import Array, Batch, Point, Tangent


class PartwiseMean:
    """F(x) and grad F(x) over a `LargeBatch`, as `SampleMean` computes them over data in memory."""

    def __init__(self, objective: Objective, batch: LargeBatch, put: Callable[[Batch], Batch]) -> None:
        self.objective, self.batch, self.put = objective, batch, put

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        return self._mean(x, with_loss=True)

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        return self._mean(x, with_loss=False)

    def _mean(self, x: Point, with_loss: bool) -> Any:
        total = None
        with contextlib.closing(self.batch.parts()) as parts:  # type: ignore[type-var]
            for part in map(self.put, parts):
                share = sample_count(part) / self.batch.size
                total = _add_part(self.objective, with_loss, total, x, part, share)
        return total


@functools.partial(jax.jit, static_argnums=(0, 1))
def _add_part(objective: Objective, with_loss: bool, total: Any, x: Point, part: Batch, share: Any) -> Any:
    gradient = objective.gradient(x, part)
    value = (objective.loss(x, part), gradient) if with_loss else gradient
    if total is None:
        total = jax.tree.map(jnp.zeros_like, value)
    dtype = jnp.result_type(*jax.tree.leaves(x))
    return add_trees(total, scale_tree(share.astype(dtype), value))


@pytree
class Known:
    """A mean that has been computed: called, it gives loss and gradient; `.gradient` may be of another point."""

    both: Any
    value: Any

    def __call__(self, x: Point) -> Any:
        """(F(x), grad F(x))."""
        return self.both

    def gradient(self, x: Point) -> Any:
        """grad F(x)."""
        return self.value
