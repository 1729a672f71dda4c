"""Twenty real signals, mixed and separated: Amari's distance and time."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.estimators.worker import Meter, measure

LENGTH = 60_000
KINDS = {
    "recordings and pictures": "4 channels of muscle current from four sessions, 6 Kylberg textures, 5 streams of "
    "MNIST digits and 5 of CIFAR100 pictures, pixel after pixel",
    "muscle currents": "20 stretches of 22000 samples from 8 channels in four sessions, no two of the same time",
    "textures": "20 Kylberg textures of six kinds, 576×576 pixels row by row",
}


def signals(kind: str) -> np.ndarray:
    """The sources, of unit variance, one in a column."""
    import retrax as rx

    generator = np.random.default_rng(1)

    def streams(name: str, labels: list[int]) -> list[np.ndarray]:
        found = rx.datasets.load(name)
        flat = [found.data[found.labels == label].reshape(-1)[:LENGTH] for label in labels]
        return [np.roll(one, generator.integers(LENGTH)) for one in flat]

    if kind == "textures":
        pictures = rx.datasets.load("kylberg").data
        found = list(pictures[np.linspace(0, len(pictures) - 1, 20).astype(int)].reshape(20, -1))
    else:
        recording = rx.datasets.load("emg").data
        sessions = [recording["channels"][recording["session"] == number] for number in range(4)]
        if kind == "muscle currents":
            places = [(session, channel) for session in range(4) for channel in range(8)][:20]
            found = [sessions[s][22_000 * c : 22_000 * (c + 1), c] for s, c in places]
        else:
            textures = rx.datasets.load("kylberg")
            firsts = [np.flatnonzero(textures.labels == label)[0] for label in range(6)]
            found = [session[:LENGTH, 2 * number] for number, session in enumerate(sessions)]
            found += [textures.data[first].reshape(-1)[:LENGTH] for first in firsts]
            found += streams("mnist", list(range(5))) + streams("cifar100", list(range(0, 100, 20)))
    sources = np.stack([one.astype(np.float64) for one in found], axis=1)
    sources -= sources.mean(axis=0)
    return sources / sources.std(axis=0)


def amari(product: np.ndarray) -> float:
    """The distance from a scaled permutation, 0 to 1 (Amari, Cichocki & Yang 1996)."""
    magnitude, size = np.abs(product), len(product)
    rows = np.sum(magnitude / magnitude.max(axis=1, keepdims=True)) - size
    columns = np.sum(magnitude / magnitude.max(axis=0, keepdims=True)) - size
    return float((rows + columns) / (2 * size * (size - 1)))


def contenders() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """What unmixes X, by name."""
    import sklearn.decomposition
    from pyriemann.geometry.ajd import ajd_pham, rjd

    import retrax.sklearn

    def fast_ica(function: str) -> Callable[[np.ndarray], np.ndarray]:
        return lambda X: (
            sklearn.decomposition.FastICA(fun=function, whiten="unit-variance", max_iter=1000, random_state=0)
            .fit(X)
            .components_
        )

    def lagged(X: np.ndarray) -> np.ndarray:
        values, vectors = np.linalg.eigh(X.T @ X / len(X))
        whitening = vectors.T / np.sqrt(values)[:, None]
        Z = X @ whitening.T
        products = [Z[:-lag].T @ Z[lag:] / (len(Z) - lag) for lag in range(1, 101)]
        return rjd(np.stack([(one + one.T) / 2 for one in products]))[0].T @ whitening

    def windows(X: np.ndarray) -> np.ndarray:
        return ajd_pham(np.stack([np.cov(part.T) for part in np.array_split(X, 100)]))[0]

    return {
        "**Retrax JADE**": lambda X: retrax.sklearn.JADE().fit(X).components_,
        "**Retrax JADE, refine=True**": lambda X: retrax.sklearn.JADE(refine=True).fit(X).components_,
        "**Retrax SOBI**": lambda X: retrax.sklearn.SOBI().fit(X).components_,
        "FastICA, logcosh": fast_ica("logcosh"),
        "FastICA, cube": fast_ica("cube"),
        "pyRiemann `rjd`, 100 lags": lagged,
        "pyRiemann `ajd_pham`, 100 windows": windows,
    }


def separate(path: str, contender: str) -> dict[str, Any]:
    """Unmix, in a process of its own."""
    with np.load(path) as data:
        X, mixing = data["X"], data["mixing"]
    unmix = contenders()[contender]
    with Meter() as meter:
        found = unmix(X)
    return {"amari": amari(found @ mixing), **meter.as_dict()}


def run(folder: Any) -> Iterator[dict[str, Any]]:
    """Each set of sources, mixed by one Gaussian matrix: all contenders give the same whatever the mixing."""
    mixing = np.random.default_rng(0).standard_normal((20, 20))
    for kind in KINDS:
        np.savez(folder / "mixed.npz", X=signals(kind) @ mixing.T, mixing=mixing)
        for name in contenders():
            found = measure("benchmarks.estimators.ica:separate", path=str(folder / "mixed.npz"), contender=name)
            yield {"signals": kind, "contender": name, **found}
