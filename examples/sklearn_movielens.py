"""
Ratings of films, completed
===========================

Ratings that were left out, predicted from a matrix of low rank.
"""

# %%
# A tenth of the ratings says which rank and weight are best, another tenth how good that is.
import matplotlib.pyplot as plt
import numpy as np

import retrax as rx
from retrax.sklearn import MatrixCompletion

RANKS, WEIGHTS = (1, 2, 5, 10), (0.15, 0.4, 1.0)
ratings = rx.datasets.load("movielens").data
X, y = np.stack([ratings["user"], ratings["item"]], axis=1), ratings["rating"].astype(np.float64)
test, choice, *rest = np.array_split(np.random.default_rng(0).permutation(len(y)), 10)
train = np.concatenate(rest)
learn = np.concatenate([train, choice])


def error(predicted: np.ndarray, places: np.ndarray) -> float:
    """Root mean square, of the ratings at these places."""
    return float(np.sqrt(np.mean((predicted - y[places]) ** 2)))


# %%
# What is to be beaten: the mean of all ratings, and the mean corrected by how each film and each user differ from it
# (with five imaginary ratings of zero for each, so that a film rated once does not count as a masterpiece).


def bias(who: np.ndarray, residual: np.ndarray, length: int) -> np.ndarray:
    """The mean residual of each, with five ratings of zero."""
    return np.bincount(who, residual, length) / (5 + np.bincount(who, minlength=length))


users, items = X.max(axis=0) + 1
mean = y[learn].mean()
of_item = bias(X[learn, 1], y[learn] - mean, items)
of_user = bias(X[learn, 0], y[learn] - mean - of_item[X[learn, 1]], users)
baseline = error(mean + of_item[X[test, 1]] + of_user[X[test, 0]], test)
print(
    f"{len(learn)} ratings; RMSE of their mean {error(np.full(len(test), mean), test):.4f}, with biases {baseline:.4f}"
)

# %%
# Several ranks and weights, judged on the first tenth; then the best of them, once, on the second.
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
best = (np.inf, 0, 0.0)
for weight in WEIGHTS:
    errors = []
    for rank in RANKS:
        model = MatrixCompletion(rank, reg=weight, random_state=0).fit(X[train], y[train])
        errors.append(error(model.predict(X[choice]), choice))
        best = min(best, (errors[-1], rank, weight))
        print(f"rank {rank:2d}, weight {weight:4.2f}: RMSE {errors[-1]:.4f} after {model.n_iter_} iterations")
    axes.plot(RANKS, errors, marker="o", label=f"weight {weight:g}")
model = MatrixCompletion(best[1], reg=best[2], random_state=0).fit(X[learn], y[learn])
found = error(model.predict(X[test]), test)
print(f"the best, rank {best[1]} and weight {best[2]:g}, on ratings not looked at before: RMSE {found:.4f}")
axes.set(xlabel="rank", ylabel="RMSE of ratings held out", title="MovieLens (small)")
axes.legend()
plt.show()
