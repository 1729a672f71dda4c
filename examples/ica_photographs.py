"""
Mixed photographs, taken apart
==============================

Three pictures are laid over one another with different weights, three times. Joint diagonalization finds the pictures
again without being told the weights: their fourth cumulants (JADE), or their correlations along a line (SOBI), are
diagonal together in one basis only.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.decomposition import FastICA

from retrax.sklearn import JADE, SOBI

china, flower = (image[::3, ::3].astype(float) for image in load_sample_images().images)
pictures = [china.mean(axis=-1), flower.mean(axis=-1), china[::-1, :, 2] - china[::-1, :, 0]]
shape = pictures[0].shape
sources = np.stack([picture.ravel() for picture in pictures], axis=1)
sources = (sources - sources.mean(axis=0)) / sources.std(axis=0)
mixed = sources @ np.random.default_rng(0).normal(size=(3, 3))

# %%
# Each picture that was found is compared with the source it resembles most. The sources are photographs and not
# exactly independent, so nobody can be perfect: the second line says how much they have in common.


def resemblance(found: np.ndarray) -> np.ndarray:
    """|correlation| with the source that is closest, for each source."""
    return np.abs(np.corrcoef(found.T, sources.T)[:3, 3:]).max(axis=0)


print("mixtures   ", resemblance(mixed).round(3))
print("correlation of the sources", np.corrcoef(sources.T)[np.triu_indices(3, 1)].round(3))
results = {
    "JADE": JADE().fit_transform(mixed),
    "SOBI": SOBI(n_lags=50).fit_transform(mixed),
    "FastICA": FastICA(whiten="unit-variance", random_state=0).fit_transform(mixed),
}
for name, found in results.items():
    print(f"{name:11s}", resemblance(found).round(3))

# %%
figure, axes = plt.subplots(3, 4, figsize=(9, 5), layout="constrained")
columns = {"mixed": mixed, **results}
for column, (name, found) in enumerate(columns.items()):
    order = np.abs(np.corrcoef(found.T, sources.T)[:3, 3:]).argmax(axis=0) if name != "mixed" else range(3)
    for row, index in enumerate(order):
        sign = np.sign(found[:, index] @ sources[:, row])
        axes[row, column].imshow((sign * found[:, index]).reshape(shape), cmap="gray")
        axes[row, column].axis("off")
    axes[0, column].set_title(name)
plt.show()
