"""What a source is, and what passes between a source and a driver."""

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import numpy as np

from retrax.typing import Batch

PART_BYTES = 2**25
"""Large batches and full gradients are worked on in parts of about this size, so that memory stays bounded."""

EVALUATION_SAMPLES = 10_000
EVALUATION_BYTES = 2**28
"""Records of what is not in memory are measured on so many samples, or on fewer if these would take more bytes."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Consecutive steps of one kind: `count` steps from step `first` on, or one restart."""

    first: int
    count: int
    batch_size: int
    restart: bool
    samples_before: int
    """Mini-batch samples drawn in the run before this stretch."""


class Samples(NamedTuple):
    """What a driver needs for a stretch: samples, and the numbers of those that make up its batches."""

    data: Batch | None
    """Samples read on the host; None: those that the device holds."""
    indices: np.ndarray | None
    """(steps, batch size) for steps, (size,) for a restart; None: all the samples are one batch."""


@dataclasses.dataclass(frozen=True)
class LargeBatch:
    """A batch too large to hold: `parts()` reads it from the start, piece by piece."""

    size: int
    parts: Callable[[], Iterator[Batch]]


Payload = Samples | LargeBatch
"""What a feed hands to a driver; a `LargeBatch` for restarts and measuring only."""


class Feed(Protocol):
    """One run's reading of a source, in the order of its stretches."""

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Payload]:
        """(how many of the stretch's steps the samples suffice for, what the driver needs for them).

        The first axis of the indices has `length` rows, of which those steps use the first.
        """
        ...

    def blank(self, stretch: Stretch, length: int) -> Payload:
        """A payload of the same shapes, to compile with; nothing is read for it."""
        ...

    def place(self) -> Any:
        """Where the feed is after its last payload, as JSON; None for a source that cannot be wound forward."""
        ...

    def evaluation(self) -> tuple[Payload, bool]:
        """What records are measured on, as for a restart, and whether that is all the data."""
        ...


class Source(abc.ABC):
    """Where samples come from. `template` is a batch of no samples: it shows structure, shapes and dtypes."""

    resident: ClassVar[bool]
    """Whether the device holds the data, so that indices are all that a step needs."""
    size: int | None
    """The number of samples, where there is one."""
    template: Batch

    @abc.abstractmethod
    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> Feed:
        """Start reading for one run; `place` is where an earlier run was."""

    unchecked: str | None = None
    """What `digest` does not cover, in words."""

    @abc.abstractmethod
    def digest(self) -> str:
        """A checksum of the samples, to tell data sets of one shape apart; "" where none can be had."""

    def example(self, dtype: str) -> Batch:
        """The shapes and dtypes of a batch of two, as JAX would see them."""
        return jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((2, *a.shape[1:]), device_dtype(a.dtype, dtype)), self.template
        )

    def empty(self, count: int, dtype: str) -> Batch:
        """Room for `count` samples, in the device's dtypes."""
        return jax.tree.map(
            lambda a: np.zeros((count, *a.shape[1:]), dtype=device_dtype(a.dtype, dtype)), self.template
        )

    def sample_bytes(self, dtype: str) -> int:
        """The size of one sample on the device."""
        return max(1, sum(leaf.nbytes for leaf in jax.tree.leaves(self.empty(1, dtype))))

    def evaluation_samples(self, asked: int | None, dtype: str) -> int:
        """How many samples to measure records on, where all of them would be too many."""
        if asked is not None:
            return asked
        return max(1, min(EVALUATION_SAMPLES, EVALUATION_BYTES // self.sample_bytes(dtype)))


def in_order(source: Source, stretch: Stretch, length: int, dtype: str) -> Samples:
    """Room for the samples of a stretch, of which each step takes the next ones."""
    size = stretch.batch_size
    if stretch.restart:
        return Samples(source.empty(size, dtype), None)
    indices = np.arange(length * size, dtype=np.int32).reshape(length, size)
    return Samples(source.empty(length * size, dtype), indices)


def device_dtype(given: Any, dtype: str) -> Any:
    """The dtype that data have on the device: the run's for floating-point numbers, their own for others."""
    return np.dtype(dtype) if np.dtype(given).kind == "f" else jax.dtypes.canonicalize_dtype(given)


def template_of(data: Batch) -> Batch:
    """A batch of no samples, like `data`."""
    return jax.tree.map(lambda a: np.empty((0, *a.shape[1:]), dtype=a.dtype), data)


def first_not_finite(array: np.ndarray) -> int | None:
    """The number of the first sample with a NaN or infinite entry."""
    if array.dtype.kind not in "fc" or len(array) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(array)):
            return None
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return None if finite.all() else int(np.argmin(finite))


def check_numbers(given: Any) -> np.ndarray:
    """`given` as a NumPy array in the machine's byte order; ValueError for numbers that a run would have to change."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ValueError(
            "a masked array has entries that are to be left out, which a run cannot do; "
            "use .filled(value), or keep only the samples without masked entries"
        )
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a {type(given).__name__} cannot be made into one array ({error})") from None
    if array.dtype.kind in "fc" and array.dtype.itemsize > (8 if array.dtype.kind == "f" else 16):
        raise ValueError(f"numbers of dtype {array.dtype} have more digits than a run has; use .astype(numpy.float64)")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_range(array: np.ndarray, dtype: Any, name: str = "data") -> None:
    """ValueError for integers that do not fit into the dtype which they will have on the device."""
    dtype = np.dtype(dtype)
    if array.dtype.kind not in "iu" or dtype.kind not in "iu" or array.size == 0 or np.can_cast(array.dtype, dtype):
        return
    least, most = int(array.min()), int(array.max())
    bounds = np.iinfo(dtype)
    if least < bounds.min or most > bounds.max:
        raise ValueError(
            f"{name} has integers from {least} to {most}, and a run in single precision holds them as {dtype}; "
            "use dtype='float64', or give them as floating-point numbers"
        )
