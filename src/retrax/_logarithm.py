"""Logarithms of quotients of positive definite matrices by matrix products, where an eigenproblem would be slow.

For x = L Lᵀ, W = L⁻¹ y L⁻ᵀ and a scale c,

    log W = log(c) I + 2 atanh(U),   U = (W - cI)(W + cI)⁻¹ = I - 2c ZᵀZ,   Z = M⁻¹ L,   M Mᵀ = y + c x,

so that W itself is not needed. atanh(U) = U p(U²), and p is expanded in Chebyshev polynomials on an interval
[0, 2h] that holds the eigenvalues of V = U²; the degree follows from it. LAPACK takes 10 to 20 products' time for an
eigenproblem of 43×43.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrax.typing import Array

_BLOCK = 4
"""Coefficients of a block: p = B₀(T) + T⁴ (B₁(T) + T⁴ (…)), with one product for each block (Paterson & Stockmeyer)."""

_LEAST_RADIUS = 1 + 2**0.5
"""With series that converge more slowly than powers of its inverse, powers of T would lose digits."""


class _Series(NamedTuple):
    """For growing numbers of blocks: half the length of the interval, and the blocks, the last one first."""

    halves: np.ndarray
    blocks: np.ndarray


@functools.cache
def _series(dtype: Any) -> _Series:
    """In double precision 2 to 10 blocks, for eigenvalues of W/c in [1/19, 19]; in single, 2 to 4 for [1/15, 15]."""
    halves, rows = [], []
    for count in itertools.count(2):
        degree = _BLOCK * count - 1
        # The error is about ρ^(-degree), where ρ + 1/ρ = 2 (1 - h)/h: p is singular at 1.
        rho = float(jnp.finfo(dtype).eps) ** (-1 / degree)
        if rho < _LEAST_RADIUS:
            break
        half = 1 / (1 + (rho + 1 / rho) / 2)
        powers = np.polynomial.chebyshev.cheb2poly(_chebyshev(half, degree))
        rows.append(powers.reshape(count, _BLOCK)[::-1])
        halves.append(half)
    blocks = np.zeros((len(rows), len(rows[-1]), _BLOCK))
    for row, given in zip(blocks, rows, strict=True):
        row[: len(given)] = given
    return _Series(np.asarray(halves, dtype), blocks.astype(dtype))


def _chebyshev(half: float, degree: int) -> np.ndarray:
    """Chebyshev coefficients of p(h (1 + t)) = atanh(√v)/√v, v = h (1 + t), each exact relative to itself.

    p(v) = ∫₀¹ ds / (1 - s²v), and 1/(z - t) = 2 (z² - 1)^(-1/2) (1/2 + Σ ρ⁻ᵏ Tₖ(t)) with ρ = z + √(z² - 1): so
    aₖ = 2 ∫₀¹ (1 - 2hs²)^(-1/2) ρₛ⁻ᵏ ds, a sum of positive terms. Interpolation would leave rounding in the last ones,
    which powers of t magnify.
    """
    nodes, weights = np.polynomial.legendre.leggauss(100)
    squares = half * ((1 + nodes) / 2) ** 2
    root = np.sqrt(1 - 2 * squares)
    inverse_radius = squares / (1 - squares + root)
    found = np.asarray([np.sum(weights / root * inverse_radius**k) for k in range(degree + 1)])
    found[0] /= 2
    return found


def quotient_log(by_eigenvalues: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """log(L⁻¹ y L⁻ᵀ), a function of L and of any number of matrices y.

    `by_eigenvalues` is the same function, for its derivatives and for quotients beyond the longest series.
    """

    @jax.custom_batching.custom_vmap
    def by_products(lower: Array, y: Array) -> Array:
        logarithm, beyond = _by_series(lower, y)
        return jax.lax.cond(
            jnp.any(beyond),
            lambda: _each(by_eigenvalues, beyond, lower, y, logarithm),
            lambda: logarithm,
        )

    @by_products.def_vmap
    def more_matrices(axis_size: int, in_batched: list[bool], lower: Array, y: Array) -> tuple[Array, bool]:
        axes = max(lower.ndim - in_batched[0], y.ndim - in_batched[1])
        return by_products(*(_aligned(a, b, axes) for a, b in zip((lower, y), in_batched, strict=True))), True

    differentiable = jax.custom_jvp(by_products)
    differentiable.defjvp(lambda primals, tangents: jax.jvp(by_eigenvalues, primals, tangents))
    return differentiable


def _aligned(a: Array, batched: bool, axes: int) -> Array:
    """With a leading axis for the runs, before `axes` others."""
    lead = a.shape[:1] if batched else (1,)
    own = a.shape[1:] if batched else a.shape
    return a.reshape(lead + (1,) * (axes - len(own)) + own)


def _by_series(lower: Array, y: Array) -> tuple[Array, Array]:
    """The logarithms, and which of them the series does not reach."""
    n, dtype = y.shape[-1], y.dtype
    eye = jnp.eye(n, dtype=dtype)
    series = _series(dtype)
    # The geometric mean of W's eigenvalues, det(W)^(1/n), is the middle of them on log's scale.
    log_scale = 2 * jnp.mean(_log_diagonal(_cholesky(y)) - _log_diagonal(lower), axis=-1)[..., None, None]
    scale = jnp.exp(log_scale)
    factor = _cholesky(y + scale * (lower @ lower.mT))
    quotient = jax.lax.linalg.triangular_solve(
        factor, jnp.broadcast_to(lower, factor.shape), left_side=True, lower=True
    )
    u = eye - 2 * scale * (quotient.mT @ quotient)
    v = u @ u
    v2 = v @ v
    v3, v4 = v @ v2, v2 @ v2
    # ‖V⁴‖ ≥ λ⁴ for the largest eigenvalue λ of V.
    bound = jnp.sqrt(jnp.sqrt(jnp.sqrt(jnp.sum(v4 * v4, axis=(-2, -1)))))
    beyond = ~(bound <= 2 * series.halves[-1])
    longest = jnp.max(jnp.where(beyond, 0, bound), initial=0)
    row = jnp.sum(longest > 2 * series.halves[:-1])
    blocks, half = jnp.asarray(series.blocks)[row], jnp.asarray(series.halves)[row]
    # T = V/h - I has its eigenvalues in [-1, 1].
    v, v2, v3, v4 = v / half, v2 / half**2, v3 / half**3, v4 / half**4
    t, t2, t3, t4 = v - eye, v2 - 2 * v + eye, v3 - 3 * (v2 - v) - eye, v4 - 4 * (v3 + v) + 6 * v2 + eye

    def block(k: Any) -> Array:
        return blocks[k, 0] * eye + blocks[k, 1] * t + blocks[k, 2] * t2 + blocks[k, 3] * t3

    p = jax.lax.fori_loop(1, row + 2, lambda k, total: total @ t4 + block(k), block(0))
    half_log = u @ p
    return log_scale * eye + (half_log + half_log.mT), beyond


def _cholesky(a: Array) -> Array:
    return jnp.linalg.cholesky(a, symmetrize_input=False)


def _log_diagonal(lower: Array) -> Array:
    return jnp.log(jnp.diagonal(lower, axis1=-2, axis2=-1))


def _each(by_eigenvalues: Callable[..., Array], beyond: Array, lower: Array, y: Array, logarithm: Array) -> Array:
    """The logarithms, those beyond the series by eigenvalues."""
    n = y.shape[-1]
    lower, y = (jnp.broadcast_to(a, logarithm.shape).reshape(-1, n, n) for a in (lower, y))

    def one(given: tuple[Array, ...]) -> Array:
        lower, y, found, chosen = given
        return jax.lax.cond(chosen, lambda: by_eigenvalues(lower, y), lambda: found)

    return jax.lax.map(one, (lower, y, logarithm.reshape(-1, n, n), beyond.ravel())).reshape(logarithm.shape)
