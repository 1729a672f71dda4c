"""A separation of independent sources made sharper: for each source, the statistic that tells most about it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_CHOICES = 8
"""Iterations in which nonlinearities may change; then they are kept, so that there is something to converge to."""


class Nonlinearity(NamedTuple):
    """g, and g' as a function of s and g(s)."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]


NONLINEARITIES = (
    Nonlinearity(np.tanh, lambda s, g: 1 - g**2),
    Nonlinearity(lambda s: s * np.exp(-(s**2) / 2), lambda s, g: (1 - s**2) * np.exp(-(s**2) / 2)),
    Nonlinearity(lambda s: s**3, lambda s, g: 3 * s**2),
    Nonlinearity(lambda s: s**2, lambda s, g: 2 * s),
)
"""For heavy tails, very heavy tails, light tails, and skewness (Hyvärinen 1999)."""


class Refinement(NamedTuple):
    """The rotation (rows), the number of iterations, and whether the last one turned nothing any more."""

    unmixing: np.ndarray
    iterations: int
    converged: bool


class _Moments(NamedTuple):
    """Of sources s under g: g(s), β = E[s g(s)], δ = E[g'(s)], γ = Var g(s) - β²; τ = β - δ is zero for Gaussian s."""

    values: np.ndarray
    delta: np.ndarray
    gamma: np.ndarray
    tau: np.ndarray


def refine(signals: np.ndarray, unmixing: np.ndarray, tolerance: float, most: int) -> Refinement:
    """The fixed point W = orth(τ/γ (E[g(s) zᵀ] - δ W)) with s = Wz of white signals z, from a rotation near it.

    The error of a source estimated alone has the variance γ/τ²: each source has the nonlinearity for which that is
    smallest, and the weight of its row in the common orthogonalization is τ/γ (Koldovský, Tichavský & Oja 2006).
    """
    for iteration in range(1, most + 1):
        sources = signals @ unmixing.T
        if iteration <= _CHOICES:
            chosen = np.argmin([_error(_moments(sources, one)) for one in NONLINEARITIES], axis=0)
        rows = np.empty_like(unmixing)
        for number in np.unique(chosen):
            mine = chosen == number
            found = _moments(sources[:, mine], NONLINEARITIES[number])
            step = found.values.T @ signals / len(signals) - found.delta[:, None] * unmixing[mine]
            rows[mine] = step * (found.tau / found.gamma)[:, None]
        left, _, right = np.linalg.svd(rows)
        before, unmixing = unmixing, left @ right
        cosines = np.abs(np.einsum("ij,ij->i", before, unmixing))
        if np.sqrt(np.max(1 - np.minimum(cosines, 1) ** 2)) <= tolerance:
            return Refinement(unmixing, iteration, True)
    return Refinement(unmixing, most, False)


def _moments(sources: np.ndarray, nonlinearity: Nonlinearity) -> _Moments:
    values = nonlinearity.value(sources)
    beta, variance = np.mean(sources * values, axis=0), np.var(values, axis=0)
    delta = np.mean(nonlinearity.slope(sources, values), axis=0)
    # Sources of two values have γ = 0 up to rounding, of either sign: g is a linear function of them.
    gamma = np.maximum(variance - beta**2, 1e-6 * variance + np.finfo(np.float64).tiny)
    return _Moments(values, delta, gamma, beta - delta)


def _error(found: _Moments) -> np.ndarray:
    """γ/τ²."""
    return found.gamma / np.maximum(found.tau**2, np.finfo(np.float64).tiny)
