"""Means over batches that are too large to hold: the host hands over one part after the other."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax._programs import call
from retrax._tree import pytree, static
from retrax.problems.base import Objective, add_trees, sample_count, scale_tree
from retrax.sources import LargeBatch
from retrax.typing import Array, Batch, Point, Tangent


@pytree
class AtOnePoint:
    """A mean that has been computed at the one point it will be asked for."""

    size: int = static()
    loss: Array
    value: Tangent
    halves: Any = None
    """The same over the first ⌊size/2⌋ samples and over the rest."""

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        return self.loss, self.value

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        return self.value

    def parts(self, first: int) -> Any:
        """The halves, if it is these that are asked for."""
        return self.halves if first == self.size // 2 else None


class PartwiseMean:
    """F(x) and grad F(x) over a `LargeBatch`, as `SampleMean` computes them over data in memory."""

    def __init__(self, objective: Objective, batch: LargeBatch, put: Callable[[Batch], Batch]) -> None:
        self.objective, self.batch, self.put = objective, batch, put

    def at(self, x: Point) -> AtOnePoint:
        """The mean at x, from one reading of the samples; each half is summed by itself."""
        half = self.batch.size // 2
        sums, seen = [None, None], 0
        with contextlib.closing(self.batch.parts()) as parts:  # type: ignore[type-var]
            for part in map(self.put, parts):
                count = sample_count(part)
                first = min(count, max(0, half - seen))
                for which, piece in ((0, _rows(part, 0, first)), (1, _rows(part, first, count))):
                    if sample_count(piece):
                        sums[which] = call(_add_part, (self.objective,), sums[which], x, piece)
                seen += count
        return _from_sums(self.batch.size, half, sums)


def _rows(batch: Batch, start: int, stop: int) -> Batch:
    return jax.tree.map(lambda a: a[start:stop], batch)


def _from_sums(size: int, half: int, sums: list[Any]) -> AtOnePoint:
    if sums[0] is None:
        return AtOnePoint(size, *_divided(sums[1], size))
    halves = tuple(
        AtOnePoint(count, *_divided(total, count)) for total, count in zip(sums, (half, size - half), strict=True)
    )
    loss, gradient = _divided(add_trees(*sums), size)
    return AtOnePoint(size, loss, gradient, halves)


def _divided(total: Any, count: int) -> Any:
    return call(_scaled, (), np.asarray(1 / count, dtype=jax.tree.leaves(total)[0].dtype), total)


def _scaled(factor: Array, total: Any) -> Any:
    return scale_tree(factor, total)


def _add_part(objective: Objective, total: Any, x: Point, part: Batch) -> Any:
    """The sums of loss and gradient, with the samples of one more part."""
    value = scale_tree(sample_count(part), (objective.loss(x, part), objective.gradient(x, part)))
    return value if total is None else add_trees(total, jax.tree.map(lambda a, b: a.astype(b.dtype), value, total))


def stacked(means: list[AtOnePoint]) -> AtOnePoint:
    """The means of several runs, with a leading axis that counts them."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *means)
