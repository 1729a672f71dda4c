"""Samples that a caller hands over as they come, for runs that advance by given batches (`partial_fit`)."""

from typing import Any, ClassVar

import jax
import numpy as np

from retrax.sources.base import Payload, Samples, Source, Stretch, check_range, in_order, template_of
from retrax.sources.stream import check_batch, to_arrays
from retrax.typing import Batch


class Pushed:
    """Data that arrive by `Run.advance(batches=...)`. `like` is a batch, or an empty one, that shows shapes and dtypes.

    `Pushed(numpy.empty((0, 784)))` announces rows of 784 numbers.
    """

    def __init__(self, like: Any) -> None:
        self.template = template_of(to_arrays(like, "the example of what will be pushed"))


class PushedSource(Source):
    """The samples of a `Pushed`. There is no n, and nothing to wait for."""

    resident: ClassVar[bool] = False
    size: ClassVar[None] = None  # type: ignore[misc]

    def __init__(self, pushed: Pushed) -> None:
        self.template = pushed.template

    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> "PushedFeed":
        """Start with what an earlier run had left over."""
        feed = PushedFeed(self, dtype)
        if place is not None:
            structure: Any = jax.tree.structure(self.template)
            leaves = [
                np.asarray(values, dtype=leaf.dtype).reshape(-1, *leaf.shape[1:])
                for values, leaf in zip(place["held"], jax.tree.leaves(self.template), strict=True)
            ]
            feed.push(jax.tree.unflatten(structure, leaves))
        return feed

    def digest(self) -> str:
        """None: there is nothing yet."""
        return ""


class PushedFeed:
    """Hands out whole batches, and keeps what is too little for one until more comes."""

    def __init__(self, source: PushedSource, dtype: str) -> None:
        self.source, self.dtype = source, dtype
        self._held: Batch = source.template

    def push(self, batch: Any) -> None:
        """Take over samples; ValueError for those of another kind."""
        leaves = check_batch(batch, self.source.template, "the batch handed over")
        held = jax.tree.leaves(self._held)
        structure: Any = jax.tree.structure(self.source.template)
        self._held = jax.tree.unflatten(structure, [np.concatenate(pair) for pair in zip(held, leaves, strict=True)])

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Payload]:
        size = stretch.batch_size
        count = min(stretch.count, len(jax.tree.leaves(self._held)[0]) // size)
        payload = self.blank(stretch, length)

        def fill(target: np.ndarray, held: np.ndarray) -> np.ndarray:
            check_range(held, target.dtype, "the batch handed over")
            target[: count * size] = held[: count * size]
            return held[count * size :]

        self._held = jax.tree.map(fill, payload.data, self._held)
        return count, payload

    def blank(self, stretch: Stretch, length: int) -> Samples:
        return in_order(self.source, stretch, length, self.dtype)

    def place(self) -> Any:
        return {"held": [leaf.reshape(-1).tolist() for leaf in jax.tree.leaves(self._held)]}

    def evaluation(self) -> tuple[Payload, bool]:
        raise ValueError("samples that are pushed cannot be measured on: give Run(..., record=None)")
