"""Large arrays at addresses that XLA can use as they are: a run on such data needs no second copy of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

XLA_ALIGNMENT = 64
"""Bytes; NumPy's own arrays start at multiples of 16, and JAX copies those."""


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
    """As `numpy.empty`, at an address that XLA accepts."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + XLA_ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % XLA_ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


def read_npy(path: Path) -> NDArray[Any]:
    """As `numpy.load` of an .npy file without objects, into memory that XLA accepts; ValueError if it is damaged."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{path} is of another version than this package writes")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        if fortran_order or dtype.hasobject:
            raise ValueError(f"{path} does not hold plain rows of numbers")
        array = aligned_empty(shape, dtype)
        if file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes or file.read(1):
            raise ValueError(f"{path} does not have the length that its header says")
    return array
