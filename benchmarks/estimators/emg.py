"""Gestures from eight channels of muscle current: the nearest-mean classifier, one pass, beside pyRiemann's."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.estimators.worker import Meter, measure

WINDOW, STEP = 400, 200
"""Samples of a window and between the starts of two."""


def windows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(covariances, gestures, whether to learn from it): of each two repetitions of a gesture, one is held out."""
    import retrax as rx

    recording = rx.datasets.load("emg")
    channels, session = recording.data["channels"], recording.data["session"]
    change = (np.diff(recording.labels.astype(int)) != 0) | (np.diff(session.astype(int)) != 0)
    bounds = np.concatenate([[0], np.flatnonzero(change) + 1, [len(channels)]])
    covariances, gestures, learn = [], [], []
    repetition: dict[tuple[int, int], int] = {}
    for start, stop in itertools.pairwise(bounds):
        kind = int(session[start]), int(recording.labels[start])
        repetition[kind] = repetition.get(kind, -1) + 1
        for first in range(start, stop - WINDOW + 1, STEP):
            covariances.append(np.cov(channels[first : first + WINDOW].astype(np.float64).T))
            gestures.append(kind[1])
            learn.append(repetition[kind] % 2 == 0)
    return np.stack(covariances), np.array(gestures), np.array(learn)


def classify(path: str, contender: str) -> dict[str, Any]:
    """Learn, predict, and count."""
    import pyriemann.classification

    import retrax.sklearn

    with np.load(path) as data:
        X, y, learn = data["X"], data["y"], data["learn"]
    train, labels = X[learn], y[learn]
    with Meter() as learning:
        if contender == "pyRiemann MDM":
            model = pyriemann.classification.MDM().fit(train, labels)
        elif contender == "Retrax, fit":
            model = retrax.sklearn.MinimumDistanceToMean().fit(train, labels)
        else:
            model = retrax.sklearn.MinimumDistanceToMean()
            for start in range(0, len(train), 50):
                model.partial_fit(train[start : start + 50], labels[start : start + 50], classes=range(5))
    with Meter() as predicting:
        found = model.predict(X[~learn])
    return {
        "contender": contender,
        "windows": [int(learn.sum()), int((~learn).sum())],
        "accuracy": float(np.mean(found == y[~learn])),
        "fit": learning.processor,
        "predict": predicting.processor,
        "megabytes": max(learning.megabytes, predicting.megabytes),
    }


def run(folder: Any) -> Iterator[dict[str, Any]]:
    """The same split for all."""
    X, y, learn = windows()
    # In the order of a recording all of one gesture come together; for one pass they are shuffled.
    order = np.random.default_rng(0).permutation(len(X))
    np.savez(folder / "emg.npz", X=X[order], y=y[order], learn=learn[order])
    for contender in ("pyRiemann MDM", "Retrax, fit", "Retrax, partial_fit of 50 each"):
        yield measure("benchmarks.estimators.emg:classify", path=str(folder / "emg.npz"), contender=contender)
