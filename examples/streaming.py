"""
Streaming PCA: samples that are used once
=========================================

Patches of two photographs arrive in a stream, are used once and are never stored. RSRM needs no restarts and no pass
over the data, so it fits; RSVRG would need a large batch again and again.

As a script, it takes ``--samples N`` and uses so many patches.
"""

# %%
# The stream
# ----------
# 8×8 patches at random places, in pieces of varying length. The last 2000 are kept aside, to measure on samples that
# nobody has learned from.
import argparse
from collections.abc import Iterator

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import IncrementalPCA

import retrax as rx

SIDE, RANK = 8, 8
PHOTOGRAPHS = [image.mean(axis=-1) / 255 for image in load_sample_images().images]

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--samples", type=int, default=40_000)
samples = parser.parse_args().samples
if samples < 1000:
    parser.error(f"--samples must be at least 1000, not {samples}: the first batch takes 500")


def patches(count: int, seed: int) -> Iterator[np.ndarray]:
    """Patches without their mean brightness, a different number each time."""
    generator = np.random.default_rng(seed)
    while count > 0:
        size = min(count, int(generator.integers(1, 200)))
        count -= size
        photograph = PHOTOGRAPHS[generator.integers(len(PHOTOGRAPHS))]
        rows, columns = (generator.integers(0, length - SIDE, size) for length in photograph.shape)
        window = np.arange(SIDE)
        found = photograph[rows[:, None, None] + window[:, None], columns[:, None, None] + window]
        found = found.reshape(size, -1)
        yield (found - found.mean(axis=1, keepdims=True)).astype(np.float32)


held_out = np.concatenate(list(patches(2000, seed=1)))

# %%
# One pass
# --------
# The loss is minus the variance that a subspace captures. ``rsrm()`` has no step size to choose.


def loss(U: jnp.ndarray, batch: jnp.ndarray) -> jnp.ndarray:
    """Minus the variance along the columns of U."""
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


problem = rx.Problem(loss, rx.Grassmann(SIDE**2, RANK), data=patches(samples, seed=0))
result = rx.minimize(
    problem,
    rx.rsrm(),
    steps=10**9,  # more than the stream will give
    batch_size=10,
    first_batch_size=500,
    record=rx.Record(every=500, samples=500),
)
print(result)

# %%
# The comparison
# --------------
# All on the patches held out: the share of their variance that each subspace has. The best possible is that of their
# own principal components, which no method could know.


def share(basis: np.ndarray) -> float:
    """Of the variance of the patches held out."""
    return float(((held_out @ basis) ** 2).sum() / (held_out**2).sum())


incremental = IncrementalPCA(RANK)
rest = np.empty((0, SIDE**2), np.float32)
for piece in patches(samples, seed=0):
    rest = np.concatenate([rest, piece])
    if len(rest) >= 500:
        incremental.partial_fit(rest)
        rest = rest[:0]
everything = np.concatenate(list(patches(samples, seed=0)))
figures = {
    "RSRM, one pass": share(np.asarray(result.x)),
    "IncrementalPCA, one pass": share(incremental.components_.T),
    "all patches in memory": share(np.linalg.eigh(everything.T @ everything)[1][:, -RANK:]),
    "the patches held out themselves": share(np.linalg.eigh(held_out.T @ held_out)[1][:, -RANK:]),
}
for name, figure in figures.items():
    print(f"{name:32s} {figure:.4f} of the variance held out")

# %%
# RSRM comes close to the eigenvectors of everything, which need all patches or a 64×64 matrix. With 64 columns that
# matrix is no burden, and `retrax.sklearn.PCA` would use it; with 10⁵ columns only the stream is left.
order = np.argsort(-((held_out @ np.asarray(result.x)) ** 2).sum(axis=0))
figure, axes = plt.subplots(2, RANK, figsize=(9, 2.6), layout="constrained")
for row, basis in enumerate((np.asarray(result.x)[:, order], incremental.components_.T)):
    for column in range(RANK):
        axes[row, column].imshow(basis[:, column].reshape(SIDE, SIDE), cmap="RdBu")
        axes[row, column].axis("off")
figure.suptitle("A basis of the subspace by RSRM (above), IncrementalPCA's components (below)")
plt.show()
