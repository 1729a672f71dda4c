"""Files larger than memory. Rows are read by number, not by touching mapped pages, so resident memory stays flat."""

import contextlib
import mmap
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from retrax import sampling
from retrax.sources.arrays import count_samples, drawn_indices
from retrax.sources.base import (
    EVALUATION_BYTES,
    PART_BYTES,
    LargeBatch,
    Payload,
    Samples,
    Source,
    Stretch,
    check_range,
    first_not_finite,
    template_of,
)
from retrax.sources.digest import digest_rows, digest_text
from retrax.sources.prefetch import Prefetch
from retrax.typing import Batch

DIGEST_BYTES, _FEW = 2**32, 65_536
"""Files of at most so many bytes are read as a whole for their checksum (0.7 to 5 GB/s); of others, so many rows."""


def is_mapped(data: Any) -> bool:
    """Whether data is a path, an array that lives in a memory-mapped file, or a list of these."""
    if isinstance(data, list):
        return bool(data) and all(is_mapped(part) for part in data)
    return isinstance(data, str | os.PathLike) or (isinstance(data, np.ndarray) and _root(data) is not None)


class MappedSource(Source):
    """Memory-mapped arrays: the host reads the rows that a stretch draws, by the indices an array would get."""

    resident: ClassVar[bool] = False

    def __init__(self, data: Any) -> None:
        self.data = jax.tree.map(_open, data, is_leaf=is_mapped)
        self.size: int = count_samples(self.data)
        self.template = template_of(self.data)

    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> "_MappedFeed":
        """Start reading; there is no place to go to, since samples are drawn by their number in the run."""
        return _MappedFeed(self, seed, dtype, evaluation_samples)

    @property
    def _rows_in_digest(self) -> int:
        """All rows, unless reading them would take minutes."""
        row_bytes = sum(leaf.row_bytes for leaf in jax.tree.leaves(self.data))
        return self.size if self.size * row_bytes <= DIGEST_BYTES else _FEW

    @property
    def unchecked(self) -> str | None:  # type: ignore[override]
        """Large files are compared by some of their rows."""
        rows = self._rows_in_digest
        return None if rows == self.size else f"all rows of the files but {rows}"

    def digest(self) -> str:
        """A checksum of all samples; of files above `DIGEST_BYTES`, of some that are spread over them."""
        chosen = np.unique(np.linspace(0, self.size - 1, self._rows_in_digest).astype(np.int64))
        return digest_text([_digest(leaf, chosen) for leaf in jax.tree.leaves(self.data)])

    def read(self, rows: np.ndarray, dtype: str, room: int) -> Batch:
        """The samples with these numbers, which must rise; in arrays with `room` rows."""
        batch = self.empty(room, dtype)

        def fill(file: "_Rows", target: np.ndarray) -> None:
            read = file.rows(rows)
            bad = first_not_finite(read)
            if bad is not None:
                raise ValueError(f"data contains NaN or infinite values, in sample {rows[bad]}")
            check_range(read, target.dtype)
            target[: len(rows)] = read

        jax.tree.map(fill, self.data, batch)
        return batch


def _digest(leaf: "_Rows", chosen: np.ndarray) -> int:
    step = max(1, PART_BYTES // max(1, leaf.row_bytes))
    cuts = range(0, len(chosen), step)
    return sum(digest_rows(leaf.rows(chosen[start : start + step]), start) for start in cuts) % 2**64


class _MappedFeed:
    def __init__(self, source: MappedSource, seed: int, dtype: str, evaluation_samples: int | None) -> None:
        self.source, self.seed, self.dtype = source, seed, dtype
        self.evaluation_samples = source.evaluation_samples(evaluation_samples, dtype)

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Payload]:
        if not stretch.restart:
            return stretch.count, self._mini_batches(stretch, length)
        return 1, self._large_batch(self._rows_of(stretch))

    def blank(self, stretch: Stretch, length: int) -> Payload:
        size = stretch.batch_size
        if not stretch.restart:
            return Samples(self.source.empty(length * size, self.dtype), np.zeros((length, size), dtype=np.int32))
        return self._large_batch(self._rows_of(stretch), blank=True)

    def place(self) -> Any:
        return {}

    def evaluation(self) -> tuple[Payload, bool]:
        samples, size = self.evaluation_samples, self.source.size
        if samples >= size:
            return self._large_batch(None, EVALUATION_BYTES), True
        return self._large_batch(sampling.evaluation_indices(self.seed, samples, size), EVALUATION_BYTES), False

    def _rows_of(self, stretch: Stretch) -> np.ndarray | None:
        """The rows of a restart's batch; None for all."""
        if stretch.batch_size == self.source.size:
            return None
        return sampling.large_batch_indices(self.seed, stretch.first, stretch.batch_size, self.source.size)

    def _mini_batches(self, stretch: Stretch, length: int) -> Samples:
        """Each row is read once, in the order of the file."""
        drawn = drawn_indices(self.seed, stretch, stretch.count, self.source.size)
        rows, inverse = np.unique(drawn, return_inverse=True)
        indices = np.zeros((length, stretch.batch_size), dtype=np.int32)
        indices[: stretch.count] = inverse.reshape(drawn.shape)
        return Samples(self.source.read(rows, self.dtype, indices.size), indices)

    def _large_batch(self, rows: np.ndarray | None, hold: int = PART_BYTES, blank: bool = False) -> Payload:
        """Samples `rows` (None: all), held in memory if they take no more than `hold` bytes."""
        size = self.source.size if rows is None else len(rows)
        step = max(1, PART_BYTES // self.source.sample_bytes(self.dtype))

        def part(start: int, stop: int) -> Batch:
            if blank:
                return self.source.empty(stop - start, self.dtype)
            chosen = np.arange(start, stop) if rows is None else rows[start:stop]
            return self.source.read(chosen, self.dtype, stop - start)

        def parts() -> Iterator[Batch]:
            starts = range(0, size, step)
            yield from (part(start, min(start + step, size)) for start in ((0, starts[-1]) if blank else starts))

        if size * self.source.sample_bytes(self.dtype) <= hold:
            return Samples(part(0, size), None if rows is None else np.arange(size, dtype=np.int32))
        return LargeBatch(size, lambda: Prefetch(parts()))


class _Rows:
    """Arrays of equal samples, end to end, of which rows can be read by number."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        kinds = {(part.shape[1:], part.dtype) for part in parts}
        if len(kinds) > 1 or parts[0].ndim < 1:
            raise ValueError(
                "a list of files is read end to end, so all must hold samples of one shape and dtype, not "
                f"{', '.join(f'{shape} {dtype}' for shape, dtype in kinds)}; for samples of several parts use a tuple"
            )
        ((sample_shape, self.dtype),) = kinds
        if self.dtype.kind == "f" and self.dtype.itemsize > 8:
            raise ValueError(f"numbers of dtype {self.dtype} have more digits than a run has; save them as float64")
        if self.dtype.kind not in "fiub":
            raise TypeError(f"data must hold real numbers, not {self.dtype}")
        self.starts = np.cumsum([0, *(len(part) for part in parts)])
        self.shape = (int(self.starts[-1]), *sample_shape)
        self.ndim = len(self.shape)
        self.row_bytes = int(np.prod(sample_shape, dtype=np.int64)) * self.dtype.itemsize
        self._readers = [_reader(part) for part in parts]

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """The rows with these numbers, which must rise."""
        target = np.empty((len(numbers), *self.shape[1:]), dtype=self.dtype)
        cuts = np.searchsorted(numbers, self.starts)
        for reader, start, low, high in zip(self._readers, self.starts, cuts, cuts[1:], strict=False):
            if high > low:
                reader(numbers[low:high] - start, target[low:high])
        return target


def _open(data: Any) -> _Rows:
    parts = data if isinstance(data, list) else [data]
    if not all(is_mapped(part) for part in parts):
        raise ValueError("data mixes memory-mapped files with other arrays; copy the latter to files, or all to memory")
    return _Rows([open_npy(part) if isinstance(part, str | os.PathLike) else part for part in parts])


def open_npy(path: Any) -> np.ndarray:
    """An .npy file, mapped into memory."""
    if Path(path).suffix != ".npy":
        raise ValueError(f"{path}: only .npy files can be given by their path; for others use numpy.memmap")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array in NumPy's .npy format: {error}") from None


def _root(array: Any) -> np.memmap | None:
    """The memory map that an array is a view of."""
    found = None
    while array is not None and not isinstance(array, mmap.mmap):
        if isinstance(array, np.memmap):
            found = array
        array = getattr(array, "base", None)
    return found


_Reader = Callable[[np.ndarray, np.ndarray], None]


def _reader(array: np.ndarray) -> _Reader:
    """A function (numbers, target) that reads rows: from the file, or through the map where the layout asks for it."""
    root = _root(array)
    descriptor = None if root is None or root.filename is None else _descriptor(root)
    if root is None or descriptor is None:  # a file that was replaced lives on in the map
        return lambda numbers, target: np.copyto(target, array[numbers])
    plain = array[:1].flags.c_contiguous and array.strides[0] > 0 and not array.dtype.hasobject
    if root.mode == "c" or not plain or not hasattr(os, "preadv"):
        return _MapRows(array, root, descriptor)
    return _FileRows(array, root, descriptor)


def _descriptor(root: np.memmap) -> int | None:
    """The file that a map shows, opened; None where there is another file of that name by now."""
    try:
        descriptor = os.open(str(root.filename), os.O_RDONLY)
    except OSError:
        return None
    inode = _mapped_inode(_address(root))
    if inode is not None and inode != os.fstat(descriptor).st_ino:
        os.close(descriptor)
        return None
    return descriptor


def _mapped_inode(address: int) -> int | None:
    """The inode of the file that is mapped to an address, where the system tells (Linux)."""
    try:
        with Path("/proc/self/maps").open() as maps:
            for line in maps:
                bounds, _, _, _, inode = line.split()[:5]
                low, high = (int(bound, 16) for bound in bounds.split("-"))
                if low <= address < high:
                    return int(inode)
    except OSError:
        pass
    return None


class _MapRows:
    """Reads rows through the map; a file that was cut short is found before the system ends the process over it."""

    def __init__(self, array: np.ndarray, root: np.memmap, descriptor: int) -> None:
        self.array, self.path, self.descriptor = array, str(root.filename), descriptor
        self.end = root.offset + root.nbytes
        weakref.finalize(self, os.close, descriptor)

    def __call__(self, numbers: np.ndarray, target: np.ndarray) -> None:
        if os.fstat(self.descriptor).st_size < self.end:
            raise ValueError(f"{self.path} is shorter than it was when it was opened")
        np.copyto(target, self.array[numbers])


_SLOW, _SLOW_BYTES = 5e-6, 1e-9
"""Seconds for each read, and for each of its bytes, beyond which rows came from a disk and not from memory."""

_CALLS_WITH_NOTICE = 8
"""So many calls after a slow one tell the system first which rows they will read."""


class _FileRows:
    """Reads rows of a file: a run of neighbours with one call, and nothing stays mapped.

    Rows that lie in memory are read at once. A disk is told of all rows beforehand, and finds many at a time.
    """

    def __init__(self, array: np.ndarray, root: np.memmap, descriptor: int) -> None:
        self.path = str(root.filename)
        self.stride, self.row_bytes = array.strides[0], array[:1].nbytes
        self.offset = root.offset + _address(array) - _address(root)
        self._descriptor = descriptor
        self._with_notice = 0
        weakref.finalize(self, os.close, descriptor)

    def __call__(self, numbers: np.ndarray, target: np.ndarray) -> None:
        together = np.diff(numbers) == 1 if self.stride == self.row_bytes else np.zeros(len(numbers) - 1, dtype=bool)
        firsts = np.concatenate([[0], np.flatnonzero(~together) + 1])
        offsets = (self.offset + numbers[firsts].astype(np.int64) * self.stride).tolist()
        bounds = (np.append(firsts, len(numbers)) * self.row_bytes).tolist()
        buffer: Any = target.reshape(-1).view(np.uint8)
        begin = time.perf_counter()
        if self._with_notice > 0:
            self._give_notice(offsets, bounds)
        descriptor, read = self._descriptor, os.preadv
        for offset, low, high in zip(offsets, bounds, bounds[1:], strict=False):
            done = read(descriptor, (buffer[low:high],), offset)
            while low + done < high:  # the system may return less than was asked for
                more = read(descriptor, (buffer[low + done : high],), offset + done)
                if more == 0:
                    raise ValueError(f"{self.path} is shorter than it was when it was opened")
                done += more
        slow = time.perf_counter() - begin > _SLOW * len(offsets) + _SLOW_BYTES * len(buffer)
        self._with_notice = _CALLS_WITH_NOTICE if slow else max(0, self._with_notice - 1)

    def _give_notice(self, offsets: list[int], bounds: list[int]) -> None:
        with contextlib.suppress(OSError, AttributeError):  # It is only advice, and not every system takes it.
            for offset, low, high in zip(offsets, bounds, bounds[1:], strict=False):
                os.posix_fadvise(self._descriptor, offset, high - low, os.POSIX_FADV_WILLNEED)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
