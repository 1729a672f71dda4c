"""Covariance features against a slow plain reference, their positivity, and the cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage, signal

from retrax._files import write_atomically
from retrax.datasets import REGISTRY, DataError, features


@pytest.fixture(scope="module")
def photos() -> np.ndarray:
    """Two smooth random images with contrast, 64×64 bytes."""
    noise = np.random.default_rng(0).standard_normal((2, 64, 64))
    smooth = ndimage.gaussian_filter(noise, (0, 2, 2))
    return np.clip(128 + 500 * smooth, 0, 255).astype(np.uint8)


def slow_gabor_covariance(photo: np.ndarray) -> np.ndarray:
    small = photo.reshape(32, 2, 32, 2).mean(axis=(1, 3)) / 255
    rows = []
    for v in range(5):
        for u in range(8):
            k, phi, sigma = np.pi / 2 / np.sqrt(2) ** v, np.pi * u / 8, 2 * np.pi
            reach = 100
            y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
            wave = np.exp(1j * k * (x * np.cos(phi) + y * np.sin(phi))) - np.exp(-(sigma**2) / 2)
            kernel = k**2 / sigma**2 * np.exp(-(k**2) * (x**2 + y**2) / (2 * sigma**2)) * wave
            padded = np.pad(small, reach, mode="symmetric")
            rows.append(np.abs(signal.fftconvolve(padded, kernel, mode="valid")).ravel())
    y, x = np.mgrid[:32, :32] / 31
    return np.cov(np.stack([*rows, x.ravel(), y.ravel(), small.ravel()]))


def slow_gradient_covariance(photo: np.ndarray) -> np.ndarray:
    image = photo / 255
    kernels = ([[0.5, 0, -0.5]], [[0.5], [0], [-0.5]], [[1, -2, 1]], [[1], [-2], [1]])
    derivatives = [signal.convolve2d(image, kernel, mode="same", boundary="symm") for kernel in kernels]
    return np.cov(np.stack([image.ravel(), *(np.abs(d).ravel() for d in derivatives)]))


def assert_close_as_covariances(actual, expected, tolerance):
    root = np.sqrt(np.diagonal(expected, axis1=-2, axis2=-1))
    np.testing.assert_allclose(
        actual / (root[..., None] * root[..., None, :]),
        expected / (root[..., None] * root[..., None, :]),
        atol=tolerance,
    )


@pytest.mark.parametrize(
    ("fast", "slow", "tolerance"),
    [
        (features.gabor_covariances, slow_gabor_covariance, 2e-5),
        (features.gradient_covariances, slow_gradient_covariance, 1e-6),
    ],
)
def test_against_slow_reference(photos, fast, slow, tolerance):
    expected = np.stack([slow(photo) for photo in photos])
    assert_close_as_covariances(fast(photos, ridge=0, unit_diagonal=False), expected, tolerance)

    average = expected.mean(axis=0).diagonal()
    ridged = expected + 0.01 * np.diag(average)
    assert_close_as_covariances(fast(photos, ridge=0.01, unit_diagonal=False), ridged, tolerance)
    scaled = ridged / np.sqrt(1.01**2 * np.outer(average, average))
    np.testing.assert_allclose(fast(photos, ridge=0.01), scaled, atol=4 * tolerance)


@pytest.mark.parametrize("compute", [features.gabor_covariances, features.gradient_covariances])
def test_symmetric_positive_definite_with_unit_average_diagonal(photos, compute):
    # A black image has no contrast at all: only the ridge keeps its covariance definite.
    images = np.concatenate([photos, np.zeros((1, 64, 64), np.uint8), photos[:1] // 16])
    covariances = compute(images)
    assert covariances.dtype == np.float64
    np.testing.assert_array_equal(covariances, covariances.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(covariances).min() > 0.9 * features.RIDGE
    np.testing.assert_allclose(covariances.mean(axis=0).diagonal(), 1, rtol=1e-12)


def test_chunks_do_not_matter(photos):
    images = np.concatenate([photos, photos[:, ::-1], photos[:, :, ::-1]])[:5]
    np.testing.assert_allclose(
        features.gabor_covariances(images, chunk=2), features.gabor_covariances(images, chunk=50), atol=1e-5
    )
    np.testing.assert_allclose(
        features.gradient_covariances(images, chunk_pixels=1), features.gradient_covariances(images), atol=1e-12
    )


def test_grey_colour_and_unit_range_agree(photos):
    grey = features.gabor_covariances(photos)
    colour = features.gabor_covariances(np.repeat(photos[..., None], 3, axis=-1))
    np.testing.assert_allclose(colour, grey, atol=0.02)  # the weights sum to 0.9999, then rounding to bytes
    np.testing.assert_allclose(features.gabor_covariances(photos / 255), grey, atol=1e-4)


def test_orientation_is_felt():
    x = np.arange(64)
    stripes = np.broadcast_to(128 + 100 * np.sin(2 * np.pi * x / 8) * (x > 30), (64, 64)).astype(np.uint8)
    variances = features.gabor_covariances(stripes[None], ridge=0, unit_diagonal=False)[0].diagonal()
    assert np.argmax(variances[:8]) == 0  # upright stripes vary along x: φ = 0
    variances = features.gabor_covariances(stripes.T[None], ridge=0, unit_diagonal=False)[0].diagonal()
    assert np.argmax(variances[:8]) == 4  # φ = π/2


def test_mistakes(photos, archives):
    with pytest.raises(DataError, match="too small"):
        features.gabor_covariances(photos[:, :20, :20])
    with pytest.raises(DataError, match="negative"):
        features.gradient_covariances(photos, ridge=-1)
    with pytest.raises(DataError, match="not finite"):
        features.gradient_covariances(np.full((1, 5, 5), np.nan))
    with pytest.raises(DataError, match="choose gabor or gradient"):
        features.load_covariances("yaleb", "gabbor", archives.folder)
    with pytest.raises(DataError, match="no images"):
        features.load_covariances("covtype", "gabor", archives.folder)


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """Counts how often Gabor covariances are really computed."""
    calls: list[int] = []
    compute = features.gabor_covariances

    def spy(images, **options):
        calls.append(len(images))
        return compute(images, **options)

    monkeypatch.setattr(features, "gabor_covariances", spy)
    return calls


def test_cache_hit_and_key(archives, counted, tmp_path):
    cache = tmp_path / "cache"
    archives.npz("yaleb", images=archives.images(3, 48, 40), labels=np.arange(3))
    first, note = features.load_covariances("yaleb", directory=archives.folder, cache=cache)
    again, same_note = features.load_covariances("YALEB", directory=archives.folder, cache=cache)
    np.testing.assert_array_equal(first, again)
    assert note == same_note
    assert "part: 3 of 2414 images (yaleb.npz)" in note
    assert "ridge 0.0001, scaled to unit average diagonal" in note
    assert counted == [3]
    (entry,) = cache.iterdir()
    assert entry.suffix == ".npy"

    features.load_covariances("yaleb", directory=archives.folder, cache=cache, ridge=0.01)
    features.load_covariances("yaleb", directory=archives.folder, cache=cache, unit_diagonal=False)
    assert counted == [3, 3, 3]
    archives.npz("yaleb", images=archives.images(2, 48, 40), labels=np.arange(2))
    features.load_covariances("yaleb", directory=archives.folder, cache=cache)
    assert counted == [3, 3, 3, 2]
    features.load_covariances("yaleb", "gradient", archives.folder, cache)
    assert len(list(cache.iterdir())) == 5


def test_damaged_cache_is_replaced(archives, counted, tmp_path):
    archives.npz("yaleb", images=archives.images(3, 48, 40), labels=np.arange(3))
    first, _ = features.load_covariances("yaleb", directory=archives.folder, cache=tmp_path / "cache")
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(entry.read_bytes()[:500])
    again, _ = features.load_covariances("yaleb", directory=archives.folder, cache=tmp_path / "cache")
    np.testing.assert_array_equal(first, again)
    assert counted == [3, 3]
    assert len(np.load(entry)) == 3


def test_default_cache_folder(archives, monkeypatch, tmp_path):
    monkeypatch.setattr(features, "cache_directory", lambda: tmp_path / "user")
    archives.npz("yaleb", images=archives.images(1, 48, 40), labels=np.arange(1))
    features.load_covariances("yaleb", "gradient", archives.folder)
    assert len(list((tmp_path / "user" / "features").iterdir())) == 1


def test_cache_folder_that_cannot_be_written(archives, tmp_path):
    archives.npz("yaleb", images=archives.images(1, 48, 40), labels=np.arange(1))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot keep features"):
        features.load_covariances("yaleb", "gradient", archives.folder, tmp_path / "file")


def test_part_of_kylberg_is_called_a_stand_in(archives, monkeypatch, tmp_path):
    images = archives.images(2, 64, 64)
    archives.npz("kylberg", images=images, labels=np.arange(2))
    covariances, note = features.load_covariances("kylberg", "gradient", archives.folder, tmp_path)
    assert len(covariances) == 32
    tile = features.gradient_covariances(images[1:, 16:32, 48:], ridge=0, unit_diagonal=False)[0]
    whole, _ = features.load_covariances("kylberg", "gradient", archives.folder, tmp_path, ridge=0, unit_diagonal=False)
    np.testing.assert_allclose(whole[16 + 7], tile, rtol=1e-5)
    assert "stand-in: 4×4 tiles of only 2 of 4480 images (kylberg.npz)" in note

    monkeypatch.setitem(REGISTRY, "kylberg", replace(REGISTRY["kylberg"], count=2))
    covariances, note = features.load_covariances("kylberg", "gradient", archives.folder, tmp_path / "other")
    assert len(covariances) == 2
    assert "stand-in" not in note


def test_failed_write_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"half")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        write_atomically(tmp_path / "entry.npy", fail)
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "entry.npy"
    write_atomically(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_killed_process_leaves_no_entry(tmp_path):
    code = (
        "import os, sys, pathlib\n"
        "from retrax._files import write_atomically\n"
        "write_atomically(pathlib.Path(sys.argv[1]), lambda file: (file.write(b'half'), file.flush(), os._exit(9)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path / "entry.npy")], timeout=120, env=dict(os.environ))
    assert run.returncode == 9
    assert not (tmp_path / "entry.npy").exists()
