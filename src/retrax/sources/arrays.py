"""Arrays in memory."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from retrax import sampling
from retrax.sources.base import Samples, Source, Stretch, first_not_finite, template_of
from retrax.sources.digest import digest_rows, digest_text
from retrax.sources.layout import layout_of, sum_over_processes
from retrax.typing import Batch


class ArraySource(Source):
    """Arrays in memory: the device holds them, and the compiled loop gathers each batch by its indices."""

    resident: ClassVar[bool] = True

    def __init__(self, data: Batch) -> None:
        self.data = data
        self.size: int = check_arrays(data)
        self.template = template_of(data)
        self.layout = layout_of(data)

    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> "_ArrayFeed":
        """Start reading; there is no place to go to, since samples are drawn by their number in the run."""
        return _ArrayFeed(self, seed, evaluation_samples)

    def digest(self) -> str:
        """A checksum of all samples; of arrays that several processes hold, these add theirs up."""
        leaves = jax.tree.leaves(self.data)
        # A part of the features counts by where it begins, as rows do by their numbers.
        here = [
            sum(digest_rows(part, row + column * self.size) for row, column, part in _parts_here(leaf)) % 2**64
            for leaf in leaves
        ]
        if self.layout is not None and self.layout.spans_processes:
            here = sum_over_processes(here)
        return digest_text(here)


@dataclasses.dataclass(frozen=True)
class _ArrayFeed:
    source: ArraySource
    seed: int
    evaluation_samples: int | None

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Samples]:
        return stretch.count, self.blank(stretch, length)

    def blank(self, stretch: Stretch, length: int) -> Samples:
        size = self.source.size
        if not stretch.restart:
            return Samples(None, drawn_indices(self.seed, stretch, length, size))
        if stretch.batch_size == size:
            return Samples(None, None)
        return Samples(None, sampling.large_batch_indices(self.seed, stretch.first, stretch.batch_size, size))

    def place(self) -> Any:
        return {}

    def evaluation(self) -> tuple[Samples, bool]:
        samples, size = self.evaluation_samples, self.source.size
        if samples is None or samples >= size:
            return Samples(None, None), True
        return Samples(None, sampling.evaluation_indices(self.seed, samples, size)), False


def drawn_indices(seed: int, stretch: Stretch, length: int, size: int) -> np.ndarray:
    """The indices of a stretch's mini-batches, in the first `count` of `length` rows."""
    indices = np.zeros((length, stretch.batch_size), dtype=np.int32 if size < 2**31 else np.int64)
    drawn = sampling.batch_indices(seed, stretch.samples_before, stretch.count * stretch.batch_size, size)
    indices[: stretch.count] = drawn.reshape(stretch.count, stretch.batch_size)
    return indices


def check_arrays(data: Batch) -> int:
    """The number of samples of an array or a pytree of arrays; ValueError for what cannot be sampled."""
    n = count_samples(data)
    for leaf in jax.tree.leaves(data):
        for start, _, part in _parts_here(leaf):
            bad = first_not_finite(part)
            if bad is not None:
                raise ValueError(f"data contains NaN or infinite values, first in sample {start + bad}")
    return n


def _parts_here(leaf: Any) -> Iterator[tuple[int, int, np.ndarray]]:
    """(number of its first sample, of its first feature, array) for the parts of an array that this process holds."""
    if not isinstance(leaf, jax.Array):
        yield 0, 0, np.asarray(leaf)
        return
    for shard in leaf.addressable_shards:
        if shard.replica_id:
            continue
        row, column = (*(place.start or 0 for place in shard.index), 0)[:2]
        yield row, column, np.asarray(shard.data)


def count_samples(data: Batch) -> int:
    """The common length of the leading axes."""
    leaves = jax.tree.leaves(data)
    if not leaves:
        raise ValueError("data holds no arrays")
    if any(getattr(leaf, "ndim", 0) < 1 for leaf in leaves):
        raise ValueError("data must be arrays whose leading axis counts samples; found one without axes")
    lengths = {int(leaf.shape[0]) for leaf in leaves}
    if len(lengths) > 1:
        raise ValueError(f"the arrays in data have different numbers of samples: {sorted(lengths)}")
    n = lengths.pop()
    if n == 0:
        raise ValueError("data holds no samples")
    return n
