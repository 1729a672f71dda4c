"""Gestures from muscle currents in one pass: raw channels, covariances of windows, the nearest class mean.

python examples/sklearn_emg.py [--data DIR] [--out gestures.png]

The recording comes in bit by bit and is never held: each window becomes an 8×8 covariance, and the classifier's class
means take a step for each batch of them. Every second repetition of each gesture is kept for testing.
"""

import argparse
import itertools
from collections.abc import Iterator

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import retrax as rx
from retrax.sklearn import MinimumDistanceToMean

WINDOW, STEP = 400, 200


def repetitions(recording: rx.datasets.Dataset) -> Iterator[tuple[np.ndarray, int, bool]]:
    """(channels, gesture, whether it is for testing), one repetition of a gesture after the other."""
    channels, session, label = recording.data["channels"], recording.data["session"], recording.labels
    change = np.flatnonzero((np.diff(label.astype(int)) != 0) | (np.diff(session.astype(int)) != 0)) + 1
    seen: dict[tuple[int, int], int] = {}
    for start, stop in itertools.pairwise([0, *change.tolist(), len(channels)]):
        kind = int(session[start]), int(label[start])
        seen[kind] = seen.get(kind, 0) + 1
        yield channels[start:stop], kind[1], seen[kind] % 2 == 0


def covariances(channels: np.ndarray) -> np.ndarray:
    """One for each window."""
    starts = range(0, len(channels) - WINDOW + 1, STEP)
    return np.stack([np.cov(channels[start : start + WINDOW].astype(np.float64).T) for start in starts])


def main() -> None:
    """Learn while the recording plays, then test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data; default: RETRAX_DATA, or the user's cache")
    parser.add_argument("--out", default="gestures.png")
    options = parser.parse_args()

    recording = rx.datasets.load("emg", options.data)
    names = [name.decode() for name in recording.data["label_names"]]
    classifier = MinimumDistanceToMean()
    held_out: list[tuple[np.ndarray, int]] = []
    for channels, gesture, is_test in repetitions(recording):
        windows = covariances(channels)
        if is_test:
            held_out.append((windows, gesture))
        else:
            classifier.partial_fit(windows, np.full(len(windows), gesture), classes=range(len(names)))

    X = np.concatenate([windows for windows, _ in held_out])
    y = np.concatenate([np.full(len(windows), gesture) for windows, gesture in held_out])
    predicted = classifier.predict(X)
    votes = [np.bincount(classifier.predict(windows)).argmax() == gesture for windows, gesture in held_out]
    print(f"{len(X)} windows held out: accuracy {np.mean(predicted == y):.3f}")
    print(f"by the majority of each repetition's windows: {np.mean(votes):.3f}")

    confusion = np.zeros((len(names), len(names)))
    np.add.at(confusion, (y, predicted), 1)
    confusion /= confusion.sum(axis=1, keepdims=True)
    figure, axes = plt.subplots(figsize=(4.5, 4))
    axes.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
    for (row, column), part in np.ndenumerate(confusion):
        axes.text(column, row, f"{part:.2f}", ha="center", va="center", color="white" if part > 0.5 else "black")
    axes.set(xticks=range(len(names)), yticks=range(len(names)), xticklabels=names, yticklabels=names)
    axes.set(xlabel="predicted", ylabel="gesture", title="Windows held out, one pass")
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
