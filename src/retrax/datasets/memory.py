"""Large arrays at addresses that XLA can use as they are: a run on such data needs no second copy of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import IO, Any

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
        return read_array(file, path.stat().st_size, str(path))


def read_array(file: IO[bytes], size: int, label: str) -> NDArray[Any]:
    """An array in the npy format from a file of `size` bytes, read only once its header and that size agree."""
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"{label} is in an unknown npy version {version}")
    shape, fortran_order, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{label} is a pickle of Python objects, which is refused")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"{label} does not have the length that its header says")
    array = aligned_empty(shape[::-1] if fortran_order else shape, dtype)
    content = array.reshape(-1).view(np.uint8).data
    while content:  # A compressed file hands out its content in pieces.
        count = file.readinto(content)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{label} ends too early")
        content = content[count:]
    return array.T if fortran_order else array
