"""
Gestures from muscle currents, in one pass
==========================================

Raw channels, covariances of windows, the nearest class mean: a classifier that learns while the recording plays. The
recording comes in bit by bit and is never held; each window becomes an 8×8 covariance, and the class means take a
step for each batch of them.
"""

# %%
# Every second repetition of each gesture is kept for testing.
import itertools
import time
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np

import retrax as rx
from retrax.sklearn import MinimumDistanceToMean

WINDOW, STEP = 400, 200
recording = rx.datasets.load("emg")
names = [name.decode() for name in recording.data["label_names"]]


def repetitions() -> Iterator[tuple[np.ndarray, int, bool]]:
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


# %%
# Learn while the recording plays. What is kept of the training windows here is kept for the comparison only.
classifier = MinimumDistanceToMean()
held_out: list[tuple[np.ndarray, int]] = []
training: list[tuple[np.ndarray, int]] = []
seconds = 0.0
for channels, gesture, is_test in repetitions():
    windows = covariances(channels)
    (held_out if is_test else training).append((windows, gesture))
    if not is_test:
        begun = time.perf_counter()
        classifier.partial_fit(windows, np.full(len(windows), gesture), classes=range(len(names)))
        seconds += time.perf_counter() - begun


def joined(pairs: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
    """All windows, and their gestures."""
    labels = [np.full(len(windows), gesture) for windows, gesture in pairs]
    return np.concatenate([windows for windows, _ in pairs]), np.concatenate(labels)


X, y = joined(held_out)
predicted = classifier.predict(X)
votes = [np.bincount(classifier.predict(windows)).argmax() == gesture for windows, gesture in held_out]
print(f"{len(X)} windows held out: accuracy {np.mean(predicted == y):.3f}; learning took {seconds:.1f} s")
print(f"by the majority of each repetition's windows: {np.mean(votes):.3f}")

# %%
# The comparison: the same classifier with all training windows at once, and the arithmetic mean with the ordinary
# distance, which is what one gets by taking covariances for vectors.
X_train, y_train = joined(training)
batch = MinimumDistanceToMean().fit(X_train, y_train)
means = np.stack([X_train[y_train == gesture].mean(axis=0) for gesture in range(len(names))])
flat = np.argmin(((X[:, None] - means) ** 2).sum(axis=(-2, -1)), axis=1)
print(f"all at once: {batch.score(X, y):.3f}; arithmetic means: {np.mean(flat == y):.3f}")

# %%
confusion = np.zeros((len(names), len(names)))
np.add.at(confusion, (y, predicted), 1)
confusion /= confusion.sum(axis=1, keepdims=True)
figure, axes = plt.subplots(figsize=(4.5, 4), layout="constrained")
axes.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
for (row, column), part in np.ndenumerate(confusion):
    axes.text(column, row, f"{part:.2f}", ha="center", va="center", color="white" if part > 0.5 else "black")
axes.set(xticks=range(len(names)), yticks=range(len(names)), xticklabels=names, yticklabels=names)
axes.set(xlabel="predicted", ylabel="gesture", title="Windows held out, one pass")
plt.show()
