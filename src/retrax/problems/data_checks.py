"""Checks of data that the ready-made problems share: an error names the sample and says by how much it is off."""

import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from retrax.sources import check_numbers, is_mapped
from retrax.sources.mapped import open_npy

_SYMMETRY_TOLERANCE = 1e-8
_LOOKED_AT, _CHUNK_BYTES = 4096, 2**20
"""Samples of a memory-mapped file that are looked at before a run; bytes that are looked at together, in the cache."""


def sample_matrix(data: Any, name: str = "X") -> np.ndarray:
    """A floating (n, d) array without NaN."""
    split = isinstance(data, jax.Array) and len(data.sharding.device_set) > 1
    array: Any = data if split else _floating(data, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (samples, features), not {array.shape}")
    return array if split else _finite(array, name)  # split data are looked at where they are, by their source


def _parts(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """What to check before a run, with the number of each part's first sample.

    Of a memory-mapped file these are the first samples only, since a run may not read them all.
    """
    array = array[:_LOOKED_AT] if is_mapped(array) else array
    size = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), size):
        yield start, array[start : start + size]


def symmetric_matrices(data: Any, name: str = "matrices") -> np.ndarray:
    """A floating (n, d, d) array of symmetric matrices."""
    array = _floating(data, name)
    if array.ndim != 3 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name} must have shape (samples, d, d), not {array.shape}")
    _finite(array, name)
    tolerance = max(_SYMMETRY_TOLERANCE, 100 * float(np.finfo(array.dtype).eps))
    for start, part in _parts(array):
        scale = np.maximum(np.abs(part).max(axis=(1, 2)), np.finfo(array.dtype).tiny)
        asymmetry = np.abs(part - part.swapaxes(1, 2)).max(axis=(1, 2)) / scale
        if asymmetry.max() > tolerance:
            bad = int(asymmetry.argmax())
            raise ValueError(
                f"{name}[{start + bad}] is not symmetric: relative asymmetry {asymmetry[bad]:.2g}, "
                f"allowed {tolerance:.2g}; symmetrise it with (m + m.T) / 2"
            )
    return array


def positive_definite_matrices(data: Any, name: str = "matrices") -> np.ndarray:
    """A floating (n, d, d) array of symmetric positive definite matrices."""
    array = symmetric_matrices(data, name)
    for start, part in _parts(array):
        if _clearly_positive_definite(part):
            continue
        smallest = np.linalg.eigvalsh(part)[:, 0]
        if not smallest.min() > 0:
            bad = int(smallest.argmin())
            raise ValueError(
                f"{name}[{start + bad}] is not positive definite: smallest eigenvalue {smallest[bad]:.2g}; "
                f"add a small multiple of the identity"
            )
    return array


def _clearly_positive_definite(matrices: np.ndarray) -> bool:
    """By Cholesky's method, in a tenth of what eigenvalues take; False where rounding might decide."""
    d = matrices.shape[-1]
    rounding = 4 * d * np.finfo(matrices.dtype).eps * np.trace(matrices, axis1=1, axis2=2)
    try:
        np.linalg.cholesky(matrices - rounding[:, None, None] * np.eye(d, dtype=matrices.dtype))
    except np.linalg.LinAlgError:
        return False
    return True


def _floating(data: Any, name: str) -> np.ndarray:
    array = open_npy(data) if isinstance(data, str | os.PathLike) else check_numbers(data)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}")
    if array.size == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}")
    return array


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    for start, part in _parts(array):
        finite = np.isfinite(part).reshape(len(part), -1).all(axis=1)
        if not finite.all():
            raise ValueError(f"{name}[{start + int(finite.argmin())}] contains NaN or infinite entries")
    return array
