"""Rows of data from whatever a user has: arrays, memory-mapped files, iterables of batches, data loaders.

Batches of any length are cut into blocks of one length, so that results do not depend on how the rows were handed over.
"""

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight, validate_data

CHUNK_BYTES = 2**23
"""About so much of a file or of a large array is looked at in one go."""

_EXACT_IN_SINGLE = frozenset({"bool", "int8", "uint8", "int16", "uint16"})


def is_stream(X: Any) -> bool:
    """Whether X gives batches one after the other, and is not itself an array or a table."""
    if isinstance(X, list | tuple):
        return bool(X) and getattr(X[0], "ndim", 0) == 2
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__"))


def batch_of(item: Any) -> Any:
    """What a data loader calls a batch: the rows, or (rows, labels, ...), of which the rows."""
    if isinstance(item, list | tuple) and len(item) and getattr(item[0], "ndim", 0) == 2:
        return item[0]
    return item


def rows_of(
    estimator: BaseEstimator, X: Any, sample_weight: Any = None, *, reset: bool
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """(rows, weights) piece by piece, checked as scikit-learn does, without a copy of the whole."""
    if not is_stream(X):
        yield from _pieces(estimator, X, sample_weight, reset=reset)
        return
    if sample_weight is not None:
        raise ValueError("sample_weight needs an array as X: hand batches and their weights to partial_fit instead")
    empty = True
    for item in X:
        yield from _pieces(estimator, batch_of(item), None, reset=reset and empty)
        empty = False
    if empty:
        raise ValueError("X is an iterable without a single batch; a generator that was read before is empty")


def _pieces(
    estimator: BaseEstimator, X: Any, sample_weight: Any, *, reset: bool
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    if hasattr(X, "detach"):  # a tensor of PyTorch, whose dtype NumPy does not know
        X = np.asarray(X.detach().cpu())
    numeric = isinstance(X, np.ndarray) and X.dtype.kind in "fiub"
    dtype = None if numeric else (np.float64, np.float32)
    X = validate_data(estimator, X, dtype=dtype, ensure_all_finite=False, reset=reset)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    step = max(1, CHUNK_BYTES // max(1, X[:1].nbytes))
    for start in range(0, len(X), step):
        rows = np.asarray(X[start : start + step], dtype=working_dtype(X.dtype))
        assert_all_finite(rows, input_name="X")
        yield rows, None if weights is None else weights[start : start + step]
        _forget_pages(X)


def working_dtype(dtype: np.dtype) -> np.dtype:
    """Single precision for what it holds exactly; else double."""
    return np.dtype(np.float32 if dtype == np.float32 or dtype.name in _EXACT_IN_SINGLE else np.float64)


def _forget_pages(X: np.ndarray) -> None:
    """Let go of the pages of a mapped file that were read, so that resident memory stays flat."""
    pages = getattr(X, "_mmap", None)
    # In copy-on-write mode the pages may hold changes that are nowhere else.
    if pages is not None and getattr(X, "mode", None) in ("r", "r+") and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


class Blocks:
    """Cuts rows that arrive in any number into blocks of `length`; what is too little for one is held."""

    def __init__(self, length: int, width: int, dtype: np.dtype) -> None:
        self.length, self.dtype = length, dtype
        self._buffer = np.empty((0, width), dtype=dtype)
        self._weights = np.empty(0)
        self._count = 0

    @property
    def held(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows that wait, and their weights."""
        return self._buffer[: self._count], self._weights[: self._count]

    def push(self, rows: np.ndarray, weights: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Take over rows; gives the blocks that are complete now."""
        weights = np.ones(len(rows)) if weights is None else weights
        start = 0
        while start < len(rows):
            if self._count == 0 and len(rows) - start >= self.length:
                taken = slice(start, start + self.length)
                yield rows[taken], weights[taken]
            else:
                taken = slice(start, start + self.length - self._count)
                self._hold(rows[taken], weights[taken])
                if self._count == self.length:
                    self._count = 0
                    yield self._buffer, self._weights
            start = taken.stop

    def _hold(self, rows: np.ndarray, weights: np.ndarray) -> None:
        needed = self._count + len(rows)
        if needed > len(self._buffer):
            room = min(self.length, max(needed, 2 * len(self._buffer)))
            buffer = np.empty((room, self._buffer.shape[1]), dtype=self._buffer.dtype)
            buffer[: self._count] = self._buffer[: self._count]
            self._buffer = buffer
            self._weights = np.concatenate([self._weights[: self._count], np.empty(room - self._count)])
        self._buffer[self._count : needed] = rows
        self._weights[self._count : needed] = weights
        self._count = needed
