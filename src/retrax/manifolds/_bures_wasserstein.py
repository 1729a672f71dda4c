"""The Bures-Wasserstein metric ⟨u, v⟩_x = tr(ℓ_x[u] v) / 2 of symmetric positive definite matrices.

ℓ_x[u] solves x ℓ + ℓ x = u. Its distance is that of optimal transport between centred Gaussians of these covariances.
References: Bhatia, Jain & Lim (2019); Malagò, Montrucchio & Pistone (2018); Han, Mishra, Jawanpuria & Gao (2021).
"""

from retrax import _linalg
from retrax.manifolds.base import NamedTransport
from retrax.typing import Array


def exponential(x: Array, u: Array) -> Array:
    """Exp_x(u) = (I + ℓ) x (I + ℓ) with ℓ = ℓ_x[u]; a geodesic as long as I + ℓ is positive definite."""
    factor = _linalg.identity_like(x) + _linalg.lyapunov(x, u)
    return _linalg.symmetric_part(factor @ x @ factor)


def _map_and_factor(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """(L⁻¹, Lᵀ L, (Lᵀ y L)^(1/2)) for x = L Lᵀ, of which the optimal map is L⁻ᵀ (Lᵀ y L)^(1/2) L⁻¹."""
    lower = _linalg.cholesky(x)
    root = _linalg.symmetric_sqrt(_linalg.symmetric_part(lower.mT @ y @ lower))
    return _linalg.inverse_of_lower(lower), lower.mT @ lower, root


def projection_transport(x: Array, y: Array, u: Array) -> Array:
    """ℓ x m + m x ℓ with ℓ = ℓ_x[u] and m the optimal map from x to y, m x m = y.

    With x = p pᵀ the vector lifts to ℓp at p, moves as it stands to mp, above y, and is projected there.
    """
    inverse, _, root = _map_and_factor(x, y)
    moved = _linalg.lyapunov(x, u) @ x @ (inverse.mT @ root @ inverse)
    return moved + moved.mT


TRANSPORTS = {"projection": NamedTransport(lambda self, x, y, u: projection_transport(x, y, u), isometric=False)}
REFUSED = {
    "identity": "it does not respect the Bures-Wasserstein metric",
    "parallel": "parallel transport has no closed form for the Bures-Wasserstein metric",
}


def inner(x: Array, u: Array, v: Array) -> Array:
    """tr(ℓ_x[u] v) / 2."""
    return _linalg.frobenius(_linalg.lyapunov(x, u), v) / 2


def norm(x: Array, u: Array) -> Array:
    """The root of tr(ℓ_x[u] u) / 2."""
    return _linalg.safe_sqrt(inner(x, u, u))


def gradient(x: Array, ambient_gradient: Array) -> Array:
    """2 (x ∇f + ∇f x) with the symmetric part of ∇f."""
    return 4 * _linalg.symmetric_part(x @ _linalg.symmetric_part(ambient_gradient))


def logarithm(x: Array, y: Array) -> Array:
    """Log_x(y) = m x + x m - 2x with m the optimal map from x to y."""
    inverse, square, root = _map_and_factor(x, y)
    return 2 * _linalg.symmetric_part(inverse.mT @ (root - square) @ inverse @ x)


def distance(x: Array, y: Array) -> Array:
    """√(tr x + tr y - 2 tr (x^(1/2) y x^(1/2))^(1/2)), as ‖(m - I) L‖_F, which does not cancel."""
    inverse, square, root = _map_and_factor(x, y)
    moved = inverse.mT @ (root - square)
    return _linalg.safe_sqrt(_linalg.frobenius(moved, moved))


def random_tangent(x: Array, gaussian: Array) -> Array:
    """x s + s x with s = sym(gaussian)."""
    return 2 * _linalg.symmetric_part(x @ _linalg.symmetric_part(gaussian))
