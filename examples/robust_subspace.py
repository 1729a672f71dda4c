"""
A subspace in spite of outliers
===============================

PCA squares distances, so a few wild samples turn its subspace. Distances that are not squared are harder to impress:
the median instead of the mean. The loss is then not a sum of squares and has no closed form, but to Retrax it is one
more function.
"""

# %%
# Digits, of which one in ten is replaced by an image of noise, brighter than any digit. The methods are told nothing
# of this, and are judged on the digits alone.
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import retrax as rx

RANK = 8
generator = np.random.default_rng(0)
digits = load_digits().data
digits = (digits - digits.mean(axis=0)) / 16
samples = digits.copy()
wild = generator.random(len(samples)) < 0.1
samples[wild] = 2 * generator.standard_normal((wild.sum(), 64))

# %%
# The loss is the mean distance from the subspace, smoothed near zero.


def distance(U: jnp.ndarray, batch: jnp.ndarray) -> jnp.ndarray:
    """Mean of √(‖x - UUᵀx‖² + ε²)."""
    rest = batch - (batch @ U) @ U.T
    return jnp.mean(jnp.sqrt(jnp.sum(rest**2, axis=-1) + 1e-4))


problem = rx.Problem(distance, rx.Grassmann(64, RANK), data=samples)
result = rx.minimize(problem, rx.rsrm(), steps=8000, batch_size=10, seed=0)
print(result)

# %%
# The comparison
# --------------
# The share of the digits' own variance, without the noise. PCA of clean data is the best that a subspace can do.
# Dropping the longest samples is the simple remedy, and works here because the noise is bright.
clean = digits[~wild]


def share(basis: np.ndarray) -> float:
    """Of the variance of clean digits."""
    return float(((clean @ basis) ** 2).sum() / (clean**2).sum())


lengths = np.linalg.norm(samples, axis=1)
trimmed = samples[lengths < np.quantile(lengths, 0.88)]
figures = {
    "PCA of all samples": PCA(RANK).fit(samples).components_.T,
    "robust, all samples": np.asarray(result.x),
    "PCA without the longest 12 %": PCA(RANK).fit(trimmed).components_.T,
    "PCA of clean digits": PCA(RANK).fit(clean).components_.T,
}
for name, basis in figures.items():
    print(f"{name:30s} {share(basis):.3f} of the variance")

# %%
chosen = np.flatnonzero(~wild)[:8]
figure, axes = plt.subplots(3, 8, figsize=(8, 3.3), layout="constrained")
for column, index in enumerate(chosen):
    for row, basis in enumerate((None, figures["PCA of all samples"], figures["robust, all samples"])):
        shown = digits[index] if basis is None else basis @ (basis.T @ digits[index])
        axes[row, column].imshow(shown.reshape(8, 8), cmap="gray_r")
        axes[row, column].axis("off")
figure.suptitle("Digits; through PCA's subspace; through the robust one")
plt.show()
