"""Ratings of films that were left out, predicted from a matrix of low rank.

python examples/sklearn_movielens.py [--data DIR] [--out ratings.png]
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import retrax as rx
from retrax.sklearn import MatrixCompletion

RANKS = (1, 2, 5, 10)
WEIGHTS = (0.15, 0.4, 1.0)


def main() -> None:
    """Fit with several ranks and weights; a tenth of the ratings says which is best, another how good that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data; default: RETRAX_DATA, or the user's cache")
    parser.add_argument("--out", default="ratings.png")
    options = parser.parse_args()
    ratings = rx.datasets.load("movielens", options.data).data
    X, y = np.stack([ratings["user"], ratings["item"]], axis=1), ratings["rating"].astype(np.float64)
    test, choice, *rest = np.array_split(np.random.default_rng(0).permutation(len(y)), 10)
    train = np.concatenate(rest)

    def error(predicted: np.ndarray, places: np.ndarray) -> float:
        return float(np.sqrt(np.mean((predicted - y[places]) ** 2)))

    print(f"{len(train)} ratings; RMSE of their mean {error(np.full(len(choice), y[train].mean()), choice):.4f}")
    figure, axes = plt.subplots(figsize=(5, 3.5))
    best = (np.inf, 0, 0.0)
    for weight in WEIGHTS:
        errors = []
        for rank in RANKS:
            model = MatrixCompletion(rank, reg=weight, random_state=0).fit(X[train], y[train])
            errors.append(error(model.predict(X[choice]), choice))
            best = min(best, (errors[-1], rank, weight))
            print(f"rank {rank:2d}, weight {weight:4.2f}: RMSE {errors[-1]:.4f} after {model.n_iter_} iterations")
        axes.plot(RANKS, errors, marker="o", label=f"weight {weight:g}")
    learn = np.concatenate([train, choice])
    model = MatrixCompletion(best[1], reg=best[2], random_state=0).fit(X[learn], y[learn])
    found = error(model.predict(X[test]), test)
    print(f"the best, rank {best[1]} and weight {best[2]:g}, on ratings not looked at before: RMSE {found:.4f}")
    axes.set(xlabel="rank", ylabel="RMSE of ratings held out", title="MovieLens (small)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
