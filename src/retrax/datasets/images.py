"""Small image operations that the loaders and the features share: grey values, area-mean resizing, tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError

# The luma weights of ITU-R BT.601, which MATLAB's rgb2gray uses.
GREY_WEIGHTS = (0.2989, 0.5870, 0.1140)


def grey(images: NDArray[Any]) -> NDArray[Any]:
    """Grey images (n, h, w) from grey or RGB ones (n, h, w, 3); RGB bytes are rounded to bytes."""
    if images.ndim == 3:
        return images
    if images.ndim != 4 or images.shape[-1] != 3:
        raise DataError(f"images have the shape (n, h, w) or (n, h, w, 3), not {images.shape}")
    weights = np.asarray(GREY_WEIGHTS, dtype=np.float32)
    if images.dtype != np.uint8:
        return images @ weights
    return np.rint(images.astype(np.float32) @ weights).astype(np.uint8)


def area_matrix(source: int, target: int) -> NDArray[np.float64]:
    """The (target, source) matrix that averages `source` pixels over `target` equal intervals."""
    edges = np.linspace(0, source, target + 1)
    pixel = np.arange(source)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.clip(overlap, 0, None) * target / source


def area_resize(images: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Grey images (n, h, w) resized to `size`×`size` by the mean over the area of each new pixel."""
    _, height, width = images.shape
    if min(height, width) < size:
        raise DataError(f"images of {height}×{width} are too small to be reduced to {size}×{size}")
    values = images.astype(np.float32)
    if (height, width) == (size, size):
        return values
    rows = area_matrix(height, size).astype(np.float32)
    columns = area_matrix(width, size).astype(np.float32)
    return np.matmul(rows @ values, columns.T, dtype=np.float32)


def tiles(images: NDArray[Any], parts: int) -> NDArray[Any]:
    """Each image (n, h, w) cut into parts×parts tiles, row by row."""
    n, height, width = images.shape
    if height % parts or width % parts:
        raise DataError(f"images of {height}×{width} do not divide into {parts}×{parts} tiles")
    cut = images.reshape(n, parts, height // parts, parts, width // parts)
    return cut.transpose(0, 1, 3, 2, 4).reshape(-1, height // parts, width // parts)
