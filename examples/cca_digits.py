"""
What two halves of a picture have in common
===========================================

Canonical correlations between the left and the right half of handwritten digits: directions whose scores go together.
Both sets of scores must be uncorrelated, which is a product of two generalized Stiefel manifolds.
"""

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn import cross_decomposition
from sklearn.datasets import load_digits

import retrax as rx
from retrax.sklearn import CCA

RANK = 4
images = load_digits().images / 16
images += 0.05 * np.random.default_rng(0).standard_normal(images.shape)  # some pixels are always black
left, right = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
train, test = slice(0, 1200), slice(1200, None)

# %%
# Three ways: the estimator, which sums up covariances in one pass and solves; the stochastic problem, which sees
# mini-batches only; and scikit-learn's, which alternates.


def held_out(fitted: CCA | cross_decomposition.CCA) -> np.ndarray:
    """|Correlations| of the scores on digits that nobody has learned from."""
    a, b = left[test] @ fitted.x_rotations_, right[test] @ fitted.y_rotations_
    return np.abs([np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(RANK)]).round(3)


begun = time.perf_counter()
ours = CCA(RANK).fit(left[train], right[train])
print(f"retrax.sklearn.CCA   {time.perf_counter() - begun:6.3f} s  {held_out(ours)}")

begun = time.perf_counter()
theirs = cross_decomposition.CCA(RANK, max_iter=2000).fit(left[train], right[train])
print(f"scikit-learn's CCA   {time.perf_counter() - begun:6.3f} s  {held_out(theirs)}")

problem = rx.problems.CCA(left[train], right[train], RANK)
result = rx.minimize(problem, rx.rsrm(), steps=4000, batch_size=64, seed=0)
reached, best = (np.asarray(problem.correlations(point)).round(3) for point in (result.x, problem.solution))
print(f"stochastic           {result.seconds:6.3f} s  {reached} on its own data, where {best} is best")

# %%
# Ours is exact and much the faster; scikit-learn's stops a little short. The stochastic run needs no covariances, and
# pays with accuracy: it is meant for views with tens of thousands of columns, not for 32.
axes = result.plot("gap", against="sfo")
axes.set_title("The stochastic run: correlations missing")

# %%
figure, axes = plt.subplots(1, RANK, figsize=(9, 2.2), layout="constrained")
for k in range(RANK):
    whole = np.concatenate([ours.x_rotations_[:, k].reshape(8, 4), ours.y_rotations_[:, k].reshape(8, 4)], axis=1)
    axes[k].imshow(whole, cmap="RdBu")
    axes[k].axvline(3.5, color="black", linewidth=1)
    axes[k].set_title(f"{ours.correlations_[k]:.2f}")
    axes[k].axis("off")
figure.suptitle("Directions of the left and the right half, and their correlation")
plt.show()
