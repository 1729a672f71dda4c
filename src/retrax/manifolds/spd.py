"""Symmetric positive definite matrices with the affine-invariant metric ⟨u, v⟩_x = tr(x⁻¹ u x⁻¹ v).

Everything is computed in the frame of the Cholesky factor x = L Lᵀ, where the metric is the Euclidean one:
u ↦ L⁻¹ u L⁻ᵀ. Reference: Pennec, Fillard & Ayache (2006); Bhatia, Positive Definite Matrices (2007), ch. 6.
"""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


def _congruence(a: Array, b: Array) -> Array:
    """a b aᵀ for a symmetric b, symmetric to the last bit."""
    return _linalg.symmetric_part(a @ b @ a.mT)


def exponential(self: "SPD", x: Array, u: Array) -> Array:
    """Exp_x(u) = L exp(L⁻¹ u L⁻ᵀ) Lᵀ."""
    lower = _linalg.cholesky(x)
    return _congruence(lower, _linalg.symmetric_exp(_linalg.whiten(lower, u)))


def second_order(self: "SPD", x: Array, u: Array) -> Array:
    """R_x(u) = x + u + u x⁻¹ u / 2, positive definite for every u (Jeuris, Vandebril & Vandereycken 2012).

    Written as L (I + w + w²/2) Lᵀ = L ((I + w)² + I) Lᵀ / 2 with w = L⁻¹ u L⁻ᵀ: a sum of squares.
    """
    lower = _linalg.cholesky(x)
    shifted = _linalg.whiten(lower, u) + _linalg.identity_like(x)
    return _congruence(lower, shifted @ shifted + _linalg.identity_like(x)) / 2


def parallel_transport(self: "SPD", x: Array, y: Array, u: Array) -> Array:
    """E u Eᵀ with E = (y x⁻¹)^(1/2) = K Qᵀ L⁻¹, where y = K Kᵀ and Q is the orthogonal factor of L⁻¹ K.

    L⁻¹ K = (L⁻¹ y L⁻ᵀ)^(1/2) Q. With the rotation Q instead of the root, inner products are kept to rounding.
    """
    lower, new_lower = _linalg.cholesky(x), _linalg.cholesky(y)
    rotation = _linalg.orthogonal_factor(_linalg.solve_lower(lower, new_lower))
    return _congruence(new_lower @ rotation.mT, _linalg.whiten(lower, u))


class SPD(ArrayManifold):
    """`SPD(d)`: symmetric positive definite d×d matrices, affine-invariant metric."""

    retractions: ClassVar[dict[str, Retraction]] = {"exp": exponential, "second-order": second_order}
    transports: ClassVar[dict[str, NamedTransport]] = {"parallel": NamedTransport(parallel_transport, isometric=True)}
    refused: ClassVar[dict[str, str]] = {
        "identity": "it does not respect the affine-invariant metric",
        "projection": "every symmetric matrix is tangent at every point, so it would be the identity, "
        "which does not respect the affine-invariant metric",
    }
    _remedy = "a point must be symmetric with positive eigenvalues"

    d: int

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("d")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, d)."""
        return self.d, self.d

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """tr(x⁻¹ u x⁻¹ v)."""
        lower = _linalg.cholesky(x)
        return _linalg.frobenius(_linalg.whiten(lower, u), _linalg.whiten(lower, v))

    def norm(self, x: Array, u: Array) -> Array:
        """‖L⁻¹ u L⁻ᵀ‖_F, with one factorisation instead of `inner`'s two solves."""
        white = _linalg.whiten(_linalg.cholesky(x), u)
        return _linalg.safe_sqrt(_linalg.frobenius(white, white))

    def project(self, x: Array, z: Array) -> Array:
        """(z + zᵀ) / 2."""
        return _linalg.symmetric_part(z)

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """x sym(∇f) x."""
        return _congruence(x, _linalg.symmetric_part(ambient_gradient))

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u."""
        return exponential(self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """Log_x(y) = L log(L⁻¹ y L⁻ᵀ) Lᵀ."""
        lower = _linalg.cholesky(x)
        return _congruence(lower, _linalg.symmetric_log(_linalg.whiten(lower, y)))

    def distance(self, x: Array, y: Array) -> Array:
        """‖log(L⁻¹ y L⁻ᵀ)‖_F."""
        logarithm = _linalg.symmetric_log(_linalg.whiten(_linalg.cholesky(x), y))
        return _linalg.safe_sqrt(_linalg.frobenius(logarithm, logarithm))

    def random_point(self, gaussian: Array) -> Array:
        """exp(sym(gaussian) / √d): eigenvalues around 1, as likely large as small."""
        return _linalg.symmetric_exp(_linalg.symmetric_part(gaussian) / self.d**0.5)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """L sym(gaussian) Lᵀ: isotropic in the metric at x."""
        return _congruence(_linalg.cholesky(x), _linalg.symmetric_part(gaussian))

    def violation(self, x: Array) -> Array:
        """Asymmetry and negative eigenvalues, relative to the largest eigenvalue."""
        xp = _linalg.namespace(x)
        values, _ = _linalg.eigh(_linalg.symmetric_part(x))
        scale = xp.max(xp.abs(values), axis=-1)
        scale = xp.where(scale > 0, scale, 1 + 0 * scale)
        asymmetry = xp.max(xp.abs(x - x.mT), axis=(-2, -1)) / scale
        return asymmetry + xp.where(values[..., 0] > 0, 0 * scale, 1 - values[..., 0] / scale)
