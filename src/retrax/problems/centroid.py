"""The Riemannian centroid of SPD matrices: min (1/n) Σ d²(C, Xᵢ) with the affine-invariant distance d."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from retrax import _linalg
from retrax.manifolds import SPD
from retrax.problems import data_checks, deterministic
from retrax.problems.base import Problem, SampleMean, chunk_length
from retrax.typing import Array


def loss(x: Array, batch: Array) -> Array:
    """f_S(C) = mean ‖log(L⁻¹XᵢL⁻ᵀ)‖² with C = LLᵀ."""
    xp = _linalg.namespace(x)
    logarithms = _whitened_logarithms(x, batch)[1]
    return xp.sum(logarithms**2) / batch.shape[0]


def riemannian_gradient(x: Array, batch: Array) -> Array:
    """grad f_S(C) = -2 mean Log_C(Xᵢ) = -2 L mean(log(L⁻¹XᵢL⁻ᵀ)) Lᵀ.

    In closed form: automatic differentiation through eigenvectors is NaN where eigenvalues repeat.
    """
    xp = _linalg.namespace(x)
    lower, logarithms = _whitened_logarithms(x, batch)
    return _linalg.symmetric_part(lower @ (-2 * xp.mean(logarithms, axis=0)) @ lower.mT)


def _whitened_logarithms(x: Array, batch: Array) -> tuple[Array, Array]:
    lower = _linalg.cholesky(x)
    return lower, _linalg.log_of_quotient(lower, batch)


class Centroid(Problem):
    """The affine-invariant mean of SPD matrices.

    `solution` is found by the Riemannian Barzilai-Borwein method to a gradient norm of 1e-10 relative to the start.
    """

    def __init__(self, matrices: Any, *, retraction: str = "exp", transport: str = "parallel") -> None:
        data = data_checks.positive_definite_matrices(matrices)
        manifold = SPD(data.shape[-1], retraction=retraction, transport=transport)
        super().__init__(loss, manifold, data, riemannian_gradient=riemannian_gradient)

    def initial_point(self, seed: int = 0) -> np.ndarray:
        """One of the samples, chosen by the seed: in the right place and of the right scale, but not yet the mean."""
        return np.asarray(self.data[seed % len(self.data)], dtype=np.float64)

    @functools.cached_property
    def _best(self) -> tuple[np.ndarray, float]:
        def mean() -> Any:
            data = jnp.asarray(self.data, dtype=jnp.float64)
            return SampleMean(self.objective, chunk_length(data), data)

        start = np.asarray(self.data.mean(axis=0, dtype=np.float64))
        return deterministic.best_of(self.manifold, mean, [start])

    @property
    def optimum(self) -> float:
        """The smallest value of F."""
        return self._best[1]

    @property
    def solution(self) -> np.ndarray:
        """The centroid."""
        return self._best[0]
