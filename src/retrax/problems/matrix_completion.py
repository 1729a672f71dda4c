"""Completion of a matrix of ratings by biases and a matrix of low rank, found on the manifold of matrices of that rank.

The model is that of `_completion.py`, with rows called users and columns items; `retrax.sklearn.MatrixCompletion` finds
the same X by alternating least squares.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from retrax._arguments import integer
from retrax._completion import RIDGES, WEIGHT, offsets
from retrax.manifolds import FixedRank
from retrax.problems.base import Problem
from retrax.typing import Array, Batch


def _predicted(left: Array, middle: Array, right: Array, user: Array, item: Array) -> Array:
    """X_ui = left_u · middle · right_iᵀ."""
    return jnp.sum((left[user] @ middle) * right[item], axis=-1)


class _OfFactors:
    """Loss and gradient for one shape of matrix; equal ones are one program."""

    def __init__(self, manifold: FixedRank) -> None:
        self.manifold = manifold

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.manifold == self.manifold

    def __hash__(self) -> int:
        return hash((type(self), self.manifold))


class _Loss(_OfFactors):
    def __call__(self, x: Array, batch: Batch) -> Array:
        """mean (e - X_ui)² + λ ‖X‖², where ‖X‖ = ‖middle‖; λ comes with the samples."""
        left, middle, right = self.manifold.factors(x)
        error = _predicted(left, middle, right, batch["user"], batch["item"]) - batch["value"]
        return jnp.mean(error**2) + jnp.mean(batch["weight"]) * jnp.sum(middle**2)


class _Gradient(_OfFactors):
    def __call__(self, x: Array, batch: Batch) -> Array:
        """The derivatives by left, middle and right: sums over the ratings of each user and item."""
        left, middle, right = self.manifold.factors(x)
        of_user, of_item = left[batch["user"]], right[batch["item"]]
        scores = of_user @ middle
        error = 2 / of_user.shape[0] * (jnp.sum(scores * of_item, axis=-1) - batch["value"])[:, None]
        return jnp.concatenate(
            [
                jnp.zeros_like(left).at[batch["user"]].add(error * (of_item @ middle.T)),
                of_user.T @ (error * of_item) + 2 * jnp.mean(batch["weight"]) * middle,
                jnp.zeros_like(right).at[batch["item"]].add(error * scores),
            ]
        )


class MatrixCompletion(Problem):
    """Ratings `rating[j]` of `item[j]` by `user[j]`, completed by biases and a matrix of the given rank.

    `regularization` is γ in Σ (e_ui - X_ui)² + γ ‖X‖² over the known ratings, the weight of an unknown entry beside a
    known one; `bias_regularization` counts as so many ratings of zero for each user and for each item. `predict` gives
    ratings at a point, within the range of those given. Samples are ratings: batches of some thousands are worth their
    step, whose retraction costs O((users + items) rank²).
    """

    def __init__(
        self,
        user: Any,
        item: Any,
        rating: Any,
        rank: int,
        *,
        shape: tuple[int, int] | None = None,
        regularization: float = WEIGHT,
        bias_regularization: tuple[float, float] = RIDGES,
        retraction: str = "svd",
    ) -> None:
        user, item = _numbers(user, "user"), _numbers(item, "item")
        values = np.asarray(rating, dtype=np.float64)
        if not (user.shape == item.shape == values.shape) or values.ndim != 1 or len(values) == 0:
            raise ValueError(f"user, item and rating must be of one length, not {user.shape, item.shape, values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"rating[{int(np.argmin(np.isfinite(values)))}] is not a finite number")
        sizes = (int(user.max()) + 1, int(item.max()) + 1) if shape is None else shape
        if sizes[0] <= user.max() or sizes[1] <= item.max():
            raise ValueError(f"shape {sizes} has no room for user {user.max()} or item {item.max()}")
        if not regularization >= 0:
            raise ValueError(f"regularization must be a number from 0 on, not {regularization!r}")
        manifold = FixedRank(*sizes, integer(rank, "rank", least=1, most=min(sizes)), retraction=retraction)
        self.range = float(values.min()), float(values.max())
        self.mean = float(values.mean())
        self.biases = offsets(user, item, values - self.mean, sizes, bias_regularization)
        data = {
            "user": user,
            "item": item,
            "value": values - self.mean - self.biases[0][user] - self.biases[1][item],
            "weight": np.full(len(values), regularization / len(values)),
        }
        super().__init__(_Loss(manifold), manifold, data, gradient=_Gradient(manifold))

    def predict(self, x: Any, user: Any, item: Any) -> np.ndarray:
        """The ratings of items by users at a point; None as the point: by the biases alone."""
        user, item = np.asarray(user), np.asarray(item)
        rating = self.mean + self.biases[0][user] + self.biases[1][item]
        if x is not None:
            left, middle, right = self.manifold.factors(np.asarray(x))  # type: ignore[attr-defined]
            rating = rating + np.sum((left[user] @ middle) * right[item], axis=-1)
        return np.clip(rating, *self.range)


def _numbers(values: Any, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise ValueError(f"{name} must be whole numbers from 0 on, not {array.dtype}")
    return array.astype(np.int32)
