"""Means of covariance matrices: the first call in a fresh process, imports apart, and a call after it."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.estimators.worker import Meter, measure

SIZES = ((300, 6), (5000, 10), (2414, 43))


def matrices(n: int, d: int) -> np.ndarray:
    """Covariances of 4d samples each, around a common one; of 43 rows, the Gabor covariances of YALEB."""
    if d == 43:
        import retrax as rx

        return np.asarray(rx.datasets.features.gabor_covariances(rx.datasets.load("yaleb").data))
    generator = np.random.default_rng(0)
    signals = generator.standard_normal((n, 4 * d, d)) @ generator.standard_normal((d, d))
    return np.swapaxes(signals, 1, 2) @ signals / (4 * d)


def first_and_second(path: str, contender: str) -> dict[str, Any]:
    """Two calls of one contender; the mean goes beside the matrices."""
    from pyriemann.geometry.mean import mean_riemann

    from retrax.sklearn import SPDMean

    X = np.load(path)
    find = mean_riemann if contender == "pyriemann" else lambda X: SPDMean().fit(X).mean_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Meter() as first:
            found = find(X)
        with Meter() as second:
            find(X)
    np.save(f"{path}.{contender}.npy", found)
    return {**first.as_dict(), "second": second.processor}


def run(folder: Any, repetitions: int) -> Iterator[dict[str, Any]]:
    """Both take turns, each time in a process of its own."""
    from pyriemann.geometry.mean import mean_riemann

    for n, d in SIZES:
        X = matrices(n, d)
        path = folder / f"matrices-{d}.npy"
        np.save(path, X)
        times: dict[str, list[dict[str, Any]]] = {"retrax": [], "pyriemann": []}
        for _ in range(repetitions if d < 43 else 1):
            for contender, found in times.items():
                found.append(
                    measure("benchmarks.estimators.means:first_and_second", path=str(path), contender=contender)
                )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = mean_riemann(X, tol=1e-12)
        for contender, found in times.items():
            off = np.load(f"{path}.{contender}.npy") - reference
            yield {
                "size": [n, d],
                "contender": contender,
                "first": float(np.median([one["processor"] for one in found])),
                "second": float(np.median([one["second"] for one in found])),
                "megabytes": float(np.median([one["megabytes"] for one in found])),
                "difference": float(np.abs(off).max() / np.abs(reference).max()),
            }
