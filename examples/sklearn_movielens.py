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
RIDGES = (2.0, 5.0, 10.0)


def main() -> None:
    """Fit with several ranks and ridges on nine tenths of the ratings; the last tenth is held out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data; default: RETRAX_DATA, or the user's cache")
    parser.add_argument("--out", default="ratings.png")
    options = parser.parse_args()
    ratings = rx.datasets.load("movielens", options.data).data
    X, y = np.stack([ratings["user"], ratings["item"]], axis=1), ratings["rating"].astype(np.float64)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[len(y) // 10 :], order[: len(y) // 10]

    def error(predicted: np.ndarray) -> float:
        return float(np.sqrt(np.mean((predicted - y[test]) ** 2)))

    print(f"{len(train)} ratings; RMSE of their mean {error(np.full(len(test), y[train].mean())):.4f}")
    figure, axes = plt.subplots(figsize=(5, 3.5))
    for ridge in RIDGES:
        errors = []
        for rank in RANKS:
            model = MatrixCompletion(rank, reg=ridge, random_state=0).fit(X[train], y[train])
            errors.append(error(model.predict(X[test])))
            print(f"rank {rank:2d}, ridge {ridge:4.1f}: RMSE {errors[-1]:.4f} after {model.n_iter_} iterations")
        axes.plot(RANKS, errors, marker="o", label=f"ridge {ridge:g}")
    axes.set(xlabel="rank", ylabel="RMSE of ratings held out", title="MovieLens (small)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
