"""Symmetric positive definite matrices, with a choice of metric; each metric's formulas have a file of their own."""

from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import _affine_invariant, _bures_wasserstein, _log_euclidean
from retrax.manifolds._affine_invariant import congruence
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array

METRICS: dict[str, ModuleType] = {
    "affine-invariant": _affine_invariant,
    "log-euclidean": _log_euclidean,
    "bures-wasserstein": _bures_wasserstein,
}
"""By name, the module with its formulas."""


def second_order(self: "SPD", x: Array, u: Array) -> Array:
    """R_x(u) = x + u + u x⁻¹ u / 2, positive definite for every u (Jeuris, Vandebril & Vandereycken 2012).

    Written as L (I + w + w²/2) Lᵀ = L ((I + w)² + I) Lᵀ / 2 with w = L⁻¹ u L⁻ᵀ: a sum of squares. It is of second
    order for the affine-invariant metric, and a retraction for any.
    """
    lower = _linalg.cholesky(x)
    shifted = _linalg.whiten(lower, u) + _linalg.identity_like(x)
    return congruence(lower, shifted @ shifted + _linalg.identity_like(x)) / 2


class SPD(ArrayManifold):
    """`SPD(d, metric=...)`: symmetric positive definite d×d matrices.

    Metrics: "affine-invariant", "log-euclidean", "bures-wasserstein". The first two have a parallel transport, the
    last one transports by projection.
    """

    d: int
    metric: str = "affine-invariant"

    retractions: ClassVar[dict[str, Retraction]] = {
        "exp": lambda self, x, u: self.exp(x, u),
        "second-order": second_order,
    }
    _remedy = "a point must be symmetric with positive eigenvalues"

    def __post_init__(self) -> None:
        """Refuse sizes below 1 and unknown metrics."""
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise ValueError(f"SPD has no metric {self.metric!r}; choose from {', '.join(map(repr, METRICS))}")
        super().__post_init__()
        self._check_sizes("d")

    @property
    def transports(self) -> dict[str, NamedTransport]:  # type: ignore[override]
        """Those of the metric."""
        return self._formulas.TRANSPORTS

    @property
    def refused(self) -> dict[str, str]:  # type: ignore[override]
        """What is not valid with this metric, and why."""
        return self._formulas.REFUSED

    @property
    def _formulas(self) -> ModuleType:
        return METRICS[self.metric]

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, d)."""
        return self.d, self.d

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """The metric: tr(x⁻¹ u x⁻¹ v), tr(D log_x[u] D log_x[v]) or tr(ℓ_x[u] v) / 2."""
        return self._formulas.inner(x, u, v)

    def norm(self, x: Array, u: Array) -> Array:
        """‖u‖_x, with half of the work of `inner`."""
        return self._formulas.norm(x, u)

    def gram(self, x: Array, vectors: Sequence[Array]) -> Array:
        """All the inner products of several tangent vectors."""
        together = getattr(self._formulas, "gram", None)
        return super().gram(x, vectors) if together is None else together(x, vectors)

    def project(self, x: Array, z: Array) -> Array:
        """(z + zᵀ) / 2."""
        return _linalg.symmetric_part(z)

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """x sym(∇f) x for the affine-invariant metric."""
        return self._formulas.gradient(x, ambient_gradient)

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u."""
        return self._formulas.exponential(x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity u with Exp_x(u) = y."""
        return self._formulas.logarithm(x, y)

    def distance(self, x: Array, y: Array) -> Array:
        """The length of the geodesic from x to y."""
        return self._formulas.distance(x, y)

    def random_point(self, gaussian: Array) -> Array:
        """exp(sym(gaussian) / √d): eigenvalues around 1, as likely large as small."""
        return _linalg.symmetric_exp(_linalg.symmetric_part(gaussian) / self.d**0.5)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """Isotropic in the affine-invariant and the log-Euclidean metric."""
        return self._formulas.random_tangent(x, gaussian)

    def violation(self, x: Array) -> Array:
        """Asymmetry and negative eigenvalues, relative to the largest eigenvalue."""
        xp = _linalg.namespace(x)
        values, _ = _linalg.eigh(_linalg.symmetric_part(x))
        scale = xp.max(xp.abs(values), axis=-1)
        scale = xp.where(scale > 0, scale, 1 + 0 * scale)
        asymmetry = xp.max(xp.abs(x - x.mT), axis=(-2, -1)) / scale
        return asymmetry + xp.where(values[..., 0] > 0, 0 * scale, 1 - values[..., 0] / scale)
