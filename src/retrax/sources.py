"""Where samples come from: an array in memory, a memory-mapped file, or any iterable of batches.

A source hands the driver what one stretch of steps needs: indices into arrays that live on the device, or the batches
themselves. It draws nothing at random itself (see `sampling`).
"""

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from retrax import sampling
from retrax.typing import Batch


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Consecutive steps of one kind: `count` steps from step `first` on, or one restart."""

    first: int
    count: int
    batch_size: int
    restart: bool
    samples_before: int
    """Mini-batch samples drawn in the run before this stretch."""


class ArraySource:
    """Arrays in memory: the device holds them, and the compiled loop gathers each batch by its indices."""

    resident: ClassVar[bool] = True
    seekable: ClassVar[bool] = True

    def __init__(self, data: Batch) -> None:
        self.data = data
        self.size: int = check_arrays(data)

    def payload(self, seed: int, stretch: Stretch, length: int) -> np.ndarray | None:
        """Indices: (length, batch_size) for steps, the rest of the rows unused; (size,) for a restart, None for all."""
        if stretch.restart:
            if stretch.batch_size == self.size:
                return None
            return sampling.large_batch_indices(seed, stretch.first, stretch.batch_size, self.size)
        indices = np.zeros((length, stretch.batch_size), dtype=np.int32 if self.size < 2**31 else np.int64)
        count = stretch.count * stretch.batch_size
        drawn = sampling.batch_indices(seed, stretch.samples_before, count, self.size)
        indices[: stretch.count] = drawn.reshape(stretch.count, stretch.batch_size)
        return indices

    def example(self, dtype: str) -> Batch:
        """The shapes and dtypes of a batch of two, as JAX would see them."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct((2, *a.shape[1:]), _device_dtype(a, dtype)), self.data)


def _device_dtype(array: Any, dtype: str) -> Any:
    kind = np.dtype(array.dtype).kind
    return dtype if kind == "f" else jax.dtypes.canonicalize_dtype(array.dtype)


def check_arrays(data: Batch) -> int:
    """The number of samples of an array or a pytree of arrays; ValueError for what cannot be sampled."""
    leaves = jax.tree.leaves(data)
    if not leaves:
        raise ValueError("data holds no arrays")
    lengths = set()
    for leaf in leaves:
        if getattr(leaf, "ndim", 0) < 1:
            raise ValueError("data must be arrays whose leading axis counts samples; found one without axes")
        lengths.add(leaf.shape[0])
    if len(lengths) > 1:
        raise ValueError(f"the arrays in data have different numbers of samples: {sorted(lengths)}")
    n = int(lengths.pop())
    if n == 0:
        raise ValueError("data holds no samples")
    for leaf in leaves:
        array = np.asarray(leaf) if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable else None
        if array is None or array.dtype.kind != "f":
            continue
        if not np.isfinite(np.sum(array, dtype=np.float64)):
            finite = np.isfinite(array).reshape(n, -1).all(axis=1)
            if not finite.all():
                bad = int(np.argmin(finite))
                raise ValueError(f"data contains NaN or infinite values, first in sample {bad}")
    return n


def as_source(data: Any) -> Any:
    """The source for what a user gave as data."""
    return ArraySource(data)
