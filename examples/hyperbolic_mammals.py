"""
The mammals of WordNet in hyperbolic space
==========================================

A hierarchy grows like a tree, and hyperbolic space has room for trees: volume grows exponentially with the radius.
The pairs "a dog is a carnivore" of WordNet's mammals become points of the Poincaré disk, close together where
related.
"""

# %%
# The hierarchy: all pairs below "mammal", direct or not.
import matplotlib.pyplot as plt
import numpy as np

import retrax as rx

nouns = rx.datasets.load("wordnet").data
names = [name.decode() for name in nouns["names"]]
root = names.index("mammal#01861778")
relations, numbers = rx.datasets.descendants(rx.datasets.transitive_closure(nouns["hypernym_edges"]), root)
print(f"{len(numbers)} mammals, {len(relations)} relations")

# %%
# Two dimensions, so that the result can be drawn. Some epochs with small steps first, which settle the directions.
problem = rx.problems.Embedding(relations, dimension=2)
x = None
for epochs, rate in ((20, 0.002), (200, 0.02), (200, 0.05), (50, 0.01)):
    method = rx.rsgd(rx.schedules.constant(rate * problem.group))
    steps = epochs * problem.parts // problem.group
    x = rx.minimize(problem, method, steps=steps, batch_size=1, x0=x, record=10**9).x
hyperbolic = problem.reconstruction(x)

# %%
# The comparison
# --------------
# How well distances tell what is related: the mean rank of a relative, and the mean average precision. The rivals are
# flat: the leading coordinates of the relations' own matrix, in two and in ten dimensions.


def flat(dimension: int) -> tuple[float, float]:
    """(mean rank, mean average precision) of a spectral embedding in the plane or in flat space."""
    related = np.zeros((len(numbers), len(numbers)), bool)
    related[relations[:, 0], relations[:, 1]] = True
    vectors, values, _ = np.linalg.svd((related | related.T) + np.eye(len(numbers)), hermitian=True)
    points = vectors[:, :dimension] * np.sqrt(values[:dimension])
    ranks, precisions = [], []
    for node in np.unique(relations[:, 0]):
        distances = np.linalg.norm(points - points[node], axis=1)
        distances[node] = np.inf
        mine = related[node]
        ranks += [1 + np.sum(distances[~mine] < distances[other]) for other in np.flatnonzero(mine)]
        hits = mine[np.argsort(distances)]
        places = np.flatnonzero(hits) + 1
        precisions.append(np.mean(np.arange(1, len(places) + 1) / places))
    return float(np.mean(ranks)), float(np.mean(precisions))


print(f"Poincaré disk, 2 dimensions: mean rank {hyperbolic.mean_rank:.1f}, MAP {hyperbolic.mean_average_precision:.3f}")
for dimension in (2, 10):
    rank, precision = flat(dimension)
    print(f"flat, {dimension} dimensions: mean rank {rank:.1f}, MAP {precision:.3f}")

# %%
points = np.asarray(x)
figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="gray"))
depth = np.bincount(relations[:, 0], minlength=len(numbers))
axes.scatter(*points.T, c=depth, s=6, cmap="viridis")
below = np.bincount(relations[:, 1], minlength=len(numbers))
for node in np.argsort(-below)[:12]:
    axes.annotate(names[numbers[node]].partition("#")[0], points[node], fontsize=8)
axes.set(aspect="equal", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), title="Mammals; colour: ancestors above")
axes.axis("off")
plt.show()
