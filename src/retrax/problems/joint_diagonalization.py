"""Joint diagonalization on the Stiefel manifold: min -(1/n) Σ ‖diag(UᵀXᵢU)‖², the pre-processing step of ICA."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _linalg
from retrax._arguments import integer
from retrax._tree import pytree, static
from retrax.manifolds import Stiefel
from retrax.manifolds.base import Manifold
from retrax.problems import data_checks, deterministic
from retrax.problems.base import Mean, Problem, Undivided
from retrax.typing import Array


def loss(x: Array, batch: Array) -> Array:
    """f_S(U) = -mean Σₖ (uₖᵀXᵢuₖ)²."""
    xp = _linalg.namespace(x)
    diagonals = xp.sum(x * (batch @ x), axis=-2)
    return -xp.sum(diagonals**2) / batch.shape[0]


def gradient(x: Array, batch: Array) -> Array:
    """∇f_S(U): column k is -(4/b) Σᵢ (uₖᵀXᵢuₖ) Xᵢuₖ."""
    xp = _linalg.namespace(x)
    products = batch @ x
    diagonals = xp.sum(x * products, axis=-2, keepdims=True)
    return (-4 / batch.shape[0]) * xp.sum(diagonals * products, axis=0)


@pytree
class FourthMoment(Undivided):
    """F and grad F from M = (1/n) Σ vec(Xᵢ)vec(Xᵢ)ᵀ: F(U) = -Σₖ qₖᵀMqₖ with qₖ = vec(uₖuₖᵀ).

    Symmetry leaves d(d+1)/2 distinct entries in Xᵢ; off-diagonal ones count twice. Exact, at a cost that does not grow
    with n.
    """

    manifold: Manifold = static()
    size: int = static()
    moment: Array

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(F(U), grad F(U))."""
        d = x.shape[0]
        rows, columns = np.tril_indices(d)
        weights = jnp.asarray(np.where(rows == columns, 1, 2), dtype=x.dtype)[:, None]
        squares = weights * x[rows] * x[columns]
        products = self.moment @ squares
        # Entry (i, j) of Xᵢ, averaged with weight uₖᵀXᵢuₖ, acts on uₖ from both sides of the diagonal.
        half = jnp.where(rows == columns, 0.5, 1.0).astype(x.dtype)[:, None] * products
        ambient = jnp.zeros_like(x).at[rows].add(half * x[columns]).at[columns].add(half * x[rows])
        return -jnp.sum(squares * products), self.manifold.gradient(x, -4 * ambient)

    def gradient(self, x: Array) -> Array:
        """grad F(U)."""
        return self(x)[1]


class JointDiagonalization(Problem):
    """The orthonormal U that best diagonalizes all the matrices at once; `rank` columns (default: square).

    `optimum` comes from a long deterministic solve from several starts, unless it is given; for non-convex F it is the
    best value found.
    """

    def __init__(
        self,
        matrices: Any,
        rank: int | None = None,
        *,
        retraction: str = "qr",
        transport: str = "projection",
        optimum: float | None = None,
    ) -> None:
        data = data_checks.symmetric_matrices(matrices)
        size = data.shape[-1]
        rank = size if rank is None else integer(rank, "rank", least=1, most=size)
        manifold = Stiefel(size, rank, retraction=retraction, transport=transport)
        super().__init__(loss, manifold, data, gradient=gradient, optimum=optimum)

    @functools.cached_property
    def fourth_moment(self) -> np.ndarray:
        """(1/n) Σ vech(Xᵢ)vech(Xᵢ)ᵀ in float64, in chunks."""
        rows, columns = np.tril_indices(self.data.shape[-1])
        moment = np.zeros((len(rows),) * 2)
        for start in range(0, len(self.data), 4096):
            part = self.data[start : start + 4096, rows, columns].astype(np.float64, copy=False)
            moment += part.T @ part
        return moment / len(self.data)

    @functools.cached_property
    def _best(self) -> tuple[np.ndarray, float]:
        mean_vectors = np.linalg.eigh(self.data.mean(axis=0, dtype=np.float64))[1][:, ::-1]
        rank = self.manifold.ambient_shape[1]
        starts = [mean_vectors[:, :rank]] + [self.initial_point(seed) for seed in range(3)]
        mean = functools.partial(FourthMoment, self.manifold, len(self.data))
        # F is flat around its minima, where the gradient takes thousands of steps to fall by what F no longer shows.
        return deterministic.best_of(
            self.manifold, lambda: mean(jnp.asarray(self.fourth_moment)), starts, flatness=1e-12
        )

    @property
    def optimum(self) -> float:
        """The smallest value of F found."""
        return self._best[1] if self._optimum is None else self._optimum

    @property
    def solution(self) -> np.ndarray:
        """The point where it was found."""
        return self._best[0]

    def full(self, data: Any) -> Mean:
        """F and grad F over all the samples, from their fourth moment where that is the smaller of the two."""
        leaf = jax.tree.leaves(data)[0]
        size = self.data.shape[-1]
        if leaf.shape != self.data.shape or len(self.data) * 4 < size * (size + 1) // 2:
            return super().full(data)
        return FourthMoment(self.manifold, len(self.data), jnp.asarray(self.fourth_moment, dtype=leaf.dtype))
