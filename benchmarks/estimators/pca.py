"""One pass of PCA with 20 components: time, peak memory, and held-out variance relative to scikit-learn's full PCA."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.estimators.worker import Meter, measure

COMPONENTS = 20
WIDTH, FACTORS, NOISE = 1000, 50, 0.5


def mnist() -> tuple[np.ndarray, np.ndarray]:
    """60000 images to learn from, shuffled; the official test images held out. Pixels divided by 255."""
    from retrax.datasets import data_directory
    from retrax.datasets.formats import read_idx

    train, test = (
        read_idx(data_directory() / f"{name}-images-idx3-ubyte.gz").reshape(-1, 784) for name in ("train", "t10k")
    )
    order = np.random.default_rng(0).permutation(len(train))
    return train[order].astype(np.float32) / 255, test.astype(np.float32) / 255


def covtype() -> tuple[np.ndarray, np.ndarray]:
    """All of COVTYPE, shuffled, columns scaled to [0, 1]; a tenth held out."""
    import retrax as rx

    rows = rx.datasets.load("covtype").data.astype(np.float32)
    rows -= rows.min(axis=0)
    rows /= np.maximum(rows.max(axis=0), 1)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return rows[58_101:], rows[:58_101]


def synthetic(rows: int, path: pathlib.Path) -> np.ndarray:
    """50 factors of falling strength in 1000 columns, noise and a mean, written to a file; held-out rows returned."""
    generator = np.random.default_rng(0)
    loadings = generator.standard_normal((FACTORS, WIDTH), dtype=np.float32)
    loadings *= np.geomspace(1, 0.1, FACTORS, dtype=np.float32)[:, None]
    mean = generator.standard_normal(WIDTH, dtype=np.float32)

    def part(count: int) -> np.ndarray:
        found = generator.standard_normal((count, WIDTH), dtype=np.float32)
        found *= NOISE
        found += generator.standard_normal((count, FACTORS), dtype=np.float32) @ loadings
        found += mean
        return found

    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, WIDTH))
    for start in range(0, rows, 20_000):
        file[start : start + 20_000] = part(min(20_000, rows - start))
    file.flush()
    return part(20_000)


def fit(folder: str, contender: str, options: dict[str, Any], mapped: bool, rows: int | None = None) -> dict[str, Any]:
    """Fit one contender; its mean and components go to a file beside the data."""
    # Imported before the measurement for all contenders; JAX is not, and counts where it is used.
    import sklearn.decomposition

    import retrax.sklearn

    X = np.load(pathlib.Path(folder) / "train.npy", mmap_mode="r" if mapped else None)[:rows]
    if contender == "retrax":
        estimator = retrax.sklearn.PCA(COMPONENTS, random_state=0, **options)
    elif contender == "incremental":
        estimator = sklearn.decomposition.IncrementalPCA(COMPONENTS, **options)
    else:
        estimator = sklearn.decomposition.PCA(COMPONENTS, random_state=0, **options)
    by_hand = contender == "incremental" and mapped
    with Meter() as meter:
        if by_hand:  # `fit` would copy the whole file into memory
            for start in range(0, len(X), estimator.batch_size or 5 * X.shape[1]):
                estimator.partial_fit(X[start : start + (estimator.batch_size or 5 * X.shape[1])])
        else:
            estimator.fit(X)
        components = estimator.components_
    name = json.dumps([contender, options, rows]).translate(str.maketrans('", :[]{}', "________"))
    np.savez(pathlib.Path(folder) / f"model-{name}.npz", components=components, mean=estimator.mean_)
    return {**meter.as_dict(), "model": f"model-{name}.npz", "solver": getattr(estimator, "solver_", "")}


def explained(folder: pathlib.Path, model: str) -> float:
    """The variance of held-out rows along the components, around the mean that was learned."""
    test = np.load(folder / "test.npy").astype(np.float64)
    with np.load(folder / model) as learned:
        basis, mean = np.linalg.qr(learned["components"].T.astype(np.float64))[0], learned["mean"].astype(np.float64)
    # What the projection leaves, out of all: a wrong mean counts against it.
    rest = test - mean
    rest -= (rest @ basis) @ basis.T
    total = np.sum((test - test.mean(axis=0)) ** 2)
    return float((total - np.sum(rest**2)) / len(test))


def contenders(width: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(what it is called, kind, arguments); the first is the one that the others are compared with."""
    yield "scikit-learn PCA, full", "full", {"svd_solver": "covariance_eigh"}
    yield "**Retrax PCA**", "retrax", {}
    yield '**Retrax PCA, solver="rsrm"**', "retrax", {"solver": "rsrm"}
    yield f"IncrementalPCA, default batch {5 * width}", "incremental", {}
    for size in (100, 1000, 10_000):
        yield f"IncrementalPCA, batch {size}", "incremental", {"batch_size": size}
    yield "scikit-learn PCA, randomized", "full", {"svd_solver": "randomized"}


def run(folder: pathlib.Path, rows: int, sample: int) -> Iterator[dict[str, Any]]:
    """The three data sets; of the file, IncrementalPCA gets the first `sample` rows."""
    for name in ("MNIST", "COVTYPE", "file"):
        here = folder / name
        here.mkdir()
        if name == "file":
            test = synthetic(rows, here / "train.npy")
        else:
            train, test = mnist() if name == "MNIST" else covtype()
            np.save(here / "train.npy", train)
        np.save(here / "test.npy", test)
        yield from _compare(name, here, name == "file", sample)
        (here / "train.npy").unlink()


def _compare(name: str, here: pathlib.Path, mapped: bool, sample: int) -> Iterator[dict[str, Any]]:
    shape = np.load(here / "train.npy", mmap_mode="r").shape
    best = 0.0
    for label, kind, options in contenders(shape[1]):
        # Each batch of IncrementalPCA costs the same: of a large file, a part tells time and memory.
        rows = sample if mapped and kind == "incremental" and shape[0] > sample else None
        arguments = {"folder": str(here), "contender": kind, "options": options, "mapped": mapped, "rows": rows}
        found = measure("benchmarks.estimators.pca:fit", **arguments)
        variance = explained(here, found["model"])
        best = best or variance
        yield {
            "data": name,
            "shape": [rows or shape[0], shape[1]],
            "contender": label,
            **found,
            "explained": variance / best,
        }
