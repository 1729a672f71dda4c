"""The affine-invariant metric ⟨u, v⟩_x = tr(x⁻¹ u x⁻¹ v) of symmetric positive definite matrices.

Everything is computed in the frame of the Cholesky factor x = L Lᵀ, where the metric is the Euclidean one:
u ↦ L⁻¹ u L⁻ᵀ. Reference: Pennec, Fillard & Ayache (2006); Bhatia, Positive Definite Matrices (2007), ch. 6.
"""

from collections.abc import Sequence

from retrax import _linalg
from retrax.manifolds.base import NamedTransport
from retrax.typing import Array


def congruence(a: Array, b: Array) -> Array:
    """a b aᵀ for a symmetric b, symmetric to the last bit."""
    return _linalg.symmetric_part(a @ b @ a.mT)


def exponential(x: Array, u: Array) -> Array:
    """Exp_x(u) = L exp(L⁻¹ u L⁻ᵀ) Lᵀ."""
    lower = _linalg.cholesky(x)
    return congruence(lower, _linalg.symmetric_exp(_linalg.whiten(lower, u)))


def parallel_transport(x: Array, y: Array, u: Array) -> Array:
    """E u Eᵀ with E = (y x⁻¹)^(1/2) = K Qᵀ L⁻¹, where y = K Kᵀ and Q is the orthogonal factor of L⁻¹ K.

    L⁻¹ K = (L⁻¹ y L⁻ᵀ)^(1/2) Q. With the rotation Q instead of the root, inner products are kept to rounding.
    """
    lower, new_lower = _linalg.cholesky(x), _linalg.cholesky(y)
    rotation = _linalg.orthogonal_factor(_linalg.solve_lower(lower, new_lower))
    return congruence(new_lower @ rotation.mT, _linalg.whiten(lower, u))


TRANSPORTS = {"parallel": NamedTransport(lambda self, x, y, u: parallel_transport(x, y, u), isometric=True)}
REFUSED = {
    "identity": "it does not respect the affine-invariant metric",
    "projection": "every symmetric matrix is tangent at every point, so it would be the identity, "
    "which does not respect the affine-invariant metric",
}


def inner(x: Array, u: Array, v: Array) -> Array:
    """tr(x⁻¹ u x⁻¹ v)."""
    lower = _linalg.cholesky(x)
    return _linalg.frobenius(_linalg.whiten(lower, u), _linalg.whiten(lower, v))


def norm(x: Array, u: Array) -> Array:
    """‖L⁻¹ u L⁻ᵀ‖_F, with one factorisation instead of `inner`'s two solves."""
    white = _linalg.whiten(_linalg.cholesky(x), u)
    return _linalg.safe_sqrt(_linalg.frobenius(white, white))


def gram(x: Array, vectors: Sequence[Array]) -> Array:
    """All the inner products, with each vector whitened once."""
    lower = _linalg.cholesky(x)
    return _linalg.gram([_linalg.whiten(lower, u) for u in vectors])


def gradient(x: Array, ambient_gradient: Array) -> Array:
    """x sym(∇f) x."""
    return congruence(x, _linalg.symmetric_part(ambient_gradient))


def logarithm(x: Array, y: Array) -> Array:
    """Log_x(y) = L log(L⁻¹ y L⁻ᵀ) Lᵀ."""
    lower = _linalg.cholesky(x)
    return congruence(lower, _linalg.log_of_quotient(lower, y))


def distance(x: Array, y: Array) -> Array:
    """‖log(L⁻¹ y L⁻ᵀ)‖_F."""
    return _linalg.quotient_distance(x, y)


def random_tangent(x: Array, gaussian: Array) -> Array:
    """L sym(gaussian) Lᵀ: isotropic in the metric at x."""
    return congruence(_linalg.cholesky(x), _linalg.symmetric_part(gaussian))
