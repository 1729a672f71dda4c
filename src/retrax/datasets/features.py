"""Region covariance descriptors of images: 43×43 of Gabor features (ICA) and 5×5 of gradients (centroid).

The Gabor filters have round envelopes, so each is separable, and filtering a whole chunk of images with reflecting
borders is two matrix products per filter; no loop over images or pixels.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrax._files import write_atomically

from .checksums import sha256
from .errors import DataError
from .images import area_resize, grey, tiles
from .loading import Progress, load
from .memory import aligned_empty, read_npy
from .registry import RegistryEntry, cache_directory, data_directory, find_source, require_files

KINDS = ("gabor", "gradient")
SCALES, ORIENTATIONS = 5, 8
RIDGE = 1e-4
# Part of the cache key: raise it whenever the features change.
VERSION = 1
KYLBERG_TILES = 4


def gabor_covariances(
    images: NDArray[Any],
    *,
    ridge: float = RIDGE,
    unit_diagonal: bool = True,
    size: int = 32,
    chunk: int = 50,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Region covariances of Gabor features, (n, 43, 43).

    Each image is made grey, scaled to [0, 1] if it is of bytes, and reduced to `size`×`size`. Each pixel then has 43
    features: the magnitudes of 5 × 8 Gabor responses (scale by scale), its x and y in [0, 1], and its intensity.
    The filters are those of Liu & Wechsler (IEEE Trans. Image Processing 11, 2002), with reflecting borders:

        ψ(z) = (k²/σ²) exp(-k²|z|²/2σ²) exp(i k (x cos φ + y sin φ)),   k = (π/2) 2^(-v/2),  φ = πu/8,  σ = 2π,

    v = 0..4, u = 0..7. (Their constant that removes the mean, exp(-σ²/2) = 3e-9, is dropped.)
    Responses are computed in float32.

    Args:
        images: (n, h, w) or (n, h, w, 3).
        ridge: the share of each feature's average variance that is added to the diagonal.
        unit_diagonal: scale the features, once for the whole set, so that the average covariance has unit diagonal.
        size: side of the reduced image.
        chunk: images in work at a time (memory: about 0.4 MB each).
        progress: called as progress(done, total).
    """
    filters = _gabor_filters(size)
    d = SCALES * ORIENTATIONS + 3
    covariances = aligned_empty((len(images), d, d))
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        values = area_resize(_unit_range(grey(images[part])), size)
        covariances[part] = _covariances(_gabor_features(values, *filters))
        if progress:
            progress(min(start + chunk, len(images)), len(images))
    return _regularise(covariances, ridge, unit_diagonal)


def gradient_covariances(
    images: NDArray[Any],
    *,
    ridge: float = RIDGE,
    unit_diagonal: bool = True,
    chunk_pixels: int = 1 << 20,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Region covariances of [I, |I_x|, |I_y|, |I_xx|, |I_yy|] at full resolution, (n, 5, 5).

    Derivatives are central differences, (I(x+1) - I(x-1))/2 and I(x+1) - 2I(x) + I(x-1), with reflecting borders.
    `ridge` and `unit_diagonal` are those of `gabor_covariances`; as a congruence common to all samples the
    scaling changes no affine-invariant distance.
    """
    chunk = max(1, chunk_pixels // int(np.prod(images.shape[1:3])))
    covariances = aligned_empty((len(images), 5, 5))
    for start in range(0, len(images), chunk):
        part = slice(start, start + chunk)
        covariances[part] = _covariances(_gradient_features(_unit_range(grey(images[part]))))
        if progress:
            progress(min(start + chunk, len(images)), len(images))
    return _regularise(covariances, ridge, unit_diagonal)


def load_covariances(
    name: str,
    kind: str = "gabor",
    directory: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    ridge: float = RIDGE,
    unit_diagonal: bool = True,
) -> tuple[NDArray[np.float64], str]:
    """The covariances of a real data set, computed once and kept on disk, and a note that says what they are.

    The cache entry is keyed by the parameters and by the content of the source files. Only a part of KYLBERG stands in
    for the whole by 4×4 tiles of each image, and the note says so.

    Args:
        name: an image data set.
        kind: "gabor" or "gradient".
        directory: where the data are, as for `load`.
        cache: where covariances are kept; else the folder `features` in the user's cache folder.
        progress: called as progress(done, total).
        ridge, unit_diagonal: as for `gabor_covariances`.
    """
    source = find_source(name)
    if kind not in KINDS:
        raise DataError(f"unknown kind of features {kind!r}: choose {' or '.join(KINDS)}")
    if source.unit != "images":
        raise DataError(f"{source.name} has no images, so no covariance features")
    paths = require_files(source, data_directory(directory))
    path = cache_path(source, paths, kind, cache, ridge=ridge, unit_diagonal=unit_diagonal)
    covariances = _read_cache(path, 5 if kind == "gradient" else SCALES * ORIENTATIONS + 3)
    if covariances is None:
        images = load(source.name, directory).data
        if _is_stand_in(source, len(images)):
            images = tiles(images, KYLBERG_TILES)
        compute = gabor_covariances if kind == "gabor" else gradient_covariances
        covariances = compute(images, ridge=ridge, unit_diagonal=unit_diagonal, progress=progress)
        computed = covariances
        try:
            write_atomically(path, lambda file: np.save(file, computed, allow_pickle=False))
        except OSError as error:
            raise DataError(f"cannot keep features in {path.parent} ({error}): name another folder") from error
    return covariances, _note(source, kind, len(covariances), paths[0], ridge, unit_diagonal)


def cache_path(
    source: RegistryEntry,
    paths: list[Path],
    kind: str,
    cache: str | os.PathLike[str] | None,
    **parameters: float | bool,
) -> Path:
    """Where the covariances of these source files with these parameters are kept."""
    folder = Path(cache).expanduser() if cache is not None else cache_directory() / "features"
    key = json.dumps([VERSION, kind, sorted(parameters.items()), [sha256(path) for path in paths]])
    return folder / f"{source.name}-{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"


def _read_cache(path: Path, d: int) -> NDArray[np.float64] | None:
    try:
        array = read_npy(path)
    except (OSError, ValueError):
        return None  # not there, or damaged by something else: it is computed anew and replaced
    return array if array.ndim == 3 and array.shape[1:] == (d, d) and array.dtype == np.float64 else None


def _is_stand_in(source: RegistryEntry, images: int) -> bool:
    return source.name == "kylberg" and images < source.count


def _note(source: RegistryEntry, kind: str, n: int, path: Path, ridge: float, unit_diagonal: bool) -> str:
    features = "Gabor features of 32×32 grey images, 43×43" if kind == "gabor" else "[I,|Ix|,|Iy|,|Ixx|,|Iyy|], 5×5"
    scaling = "scaled to unit average diagonal" if unit_diagonal else "not scaled"
    note = f"{n} region covariances of {features}, ridge {ridge:g}, {scaling}"
    if n == source.count:
        return note
    if source.name == "kylberg":
        whole = n // KYLBERG_TILES**2
        return (
            f"{note}; stand-in: {KYLBERG_TILES}×{KYLBERG_TILES} tiles of only {whole} of {source.count} images "
            f"({path.name})"
        )
    return f"{note}; part: {n} of {source.count} images ({path.name})"


def _unit_range(images: NDArray[Any]) -> NDArray[Any]:
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    if not np.all(np.isfinite(images)):
        raise DataError("images contain values that are not finite")
    return images


@lru_cache(maxsize=4)
def _gabor_filters(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For each filter the matrices of its x and y factors, real rows above imaginary ones: (40, 2·size, size)."""
    factors = np.empty((2, SCALES * ORIENTATIONS, 2 * size, size), dtype=np.float32)
    for v in range(SCALES):
        k = np.pi / 2 * 2 ** (-v / 2)
        for u in range(ORIENTATIONS):
            phi = np.pi * u / ORIENTATIONS
            for axis, frequency in enumerate((k * np.cos(phi), k * np.sin(phi))):
                matrix = _factor(size, k, frequency)
                factors[axis, v * ORIENTATIONS + u] = np.concatenate((matrix.real, matrix.imag))
    return factors[0], factors[1]


def _factor(size: int, k: float, frequency: float) -> NDArray[np.complex128]:
    """Convolution with one factor of a Gabor filter, reflecting borders folded in, as a size×size matrix."""
    sigma = 2 * np.pi
    reach = int(np.ceil(5 * sigma / k))
    offset = np.arange(-reach, reach + 1)
    values = k / sigma * np.exp(-((k * offset / sigma) ** 2) / 2 + 1j * frequency * offset)
    pixel = (np.arange(size)[:, None] - offset) % (2 * size)
    pixel = np.where(pixel < size, pixel, 2 * size - 1 - pixel)
    matrix = np.zeros((size, size), dtype=np.complex128)
    np.add.at(matrix, (np.arange(size)[:, None], pixel), values)
    return matrix


def _gabor_features(
    images: NDArray[np.float32], x_factors: NDArray[np.float32], y_factors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(n, 43, pixels) features; pixels run column by column, which spares a transposition."""
    n, size, _ = images.shape
    features = np.empty((n, len(x_factors) + 3, size, size), dtype=np.float32)
    columns = np.ascontiguousarray(images.transpose(2, 0, 1)).reshape(size, n * size)
    for index, (x_factor, y_factor) in enumerate(zip(x_factors, y_factors, strict=True)):
        along_x = (x_factor @ columns).reshape(2 * size * n, size)
        both = (along_x @ y_factor.T).reshape(2, size, n, 2, size)
        real = both[0, :, :, 0] - both[1, :, :, 1]
        imaginary = both[0, :, :, 1] + both[1, :, :, 0]
        np.sqrt(real * real + imaginary * imaginary, out=features[:, index].transpose(1, 0, 2))
    position = np.linspace(0, 1, size, dtype=np.float32)
    features[:, -3] = position[:, None]
    features[:, -2] = position
    features[:, -1] = images.transpose(0, 2, 1)
    return features.reshape(n, -1, size * size)


def _gradient_features(images: NDArray[Any]) -> NDArray[np.float64]:
    padded = np.pad(images.astype(np.float64), ((0, 0), (1, 1), (1, 1)), mode="symmetric")
    middle = padded[:, 1:-1, 1:-1]
    left, right = padded[:, 1:-1, :-2], padded[:, 1:-1, 2:]
    above, below = padded[:, :-2, 1:-1], padded[:, 2:, 1:-1]
    first = (np.abs(right - left) / 2, np.abs(below - above) / 2)
    second = (np.abs(right - 2 * middle + left), np.abs(below - 2 * middle + above))
    return np.stack((middle, *first, *second), axis=1).reshape(len(images), 5, -1)


def _covariances(features: NDArray[Any]) -> NDArray[Any]:
    """Covariances of (n, d, pixels) features over the pixels; the features are centred in place."""
    features -= features.mean(axis=-1, keepdims=True)
    products = features @ features.transpose(0, 2, 1)
    return (products + products.transpose(0, 2, 1)) / (2 * (features.shape[-1] - 1))


def _regularise(covariances: NDArray[np.float64], ridge: float, unit_diagonal: bool) -> NDArray[np.float64]:
    """C + ridge·diag(D), D the average variances; then divided on both sides by the roots of the new average."""
    if not ridge >= 0:
        raise DataError(f"the ridge must not be negative: {ridge}")
    average = np.einsum("nii->i", covariances) / len(covariances)
    average = np.where(average > 0, average, 1)
    diagonal = np.arange(len(average))
    covariances[:, diagonal, diagonal] += ridge * average
    if unit_diagonal:
        root = np.sqrt(average * (1 + ridge))
        covariances /= root[:, None] * root
    return covariances
