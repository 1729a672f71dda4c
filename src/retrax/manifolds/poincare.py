"""Hyperbolic space as the Poincaré ball {x ∈ R^d : c‖x‖² < 1}, of sectional curvature -c.

The metric is ⟨u, v⟩_x = (2/α)² uᵀv with the gap α = 1 - c‖x‖². The formulas are arranged so that nothing cancels but
the gap itself, whose relative error is ε/α: at distance ρ from the origin everything is accurate to about
ε exp(√c ρ). Points are kept within 1 - √c‖x‖ ≥ 32 ε, that is √c ρ ≤ 13 in single and 33 in double precision.
References: Ungar, A Gyrovector Space Approach to Hyperbolic Geometry (2008); Ganea, Bécigneul & Hofmann (2018).
"""

from collections.abc import Callable
from typing import Any, ClassVar

from retrax import _linalg
from retrax._arguments import positive_number
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array

# In this file α and β are the gaps at x and y; each function takes those it needs, since the hyperboloid, which shares
# them, knows its gaps better than 1 - c‖x‖² would tell.


def dot(a: Array, b: Array) -> Array:
    """aᵀb along the last axis, which is kept."""
    return _linalg.namespace(a).sum(a * b, axis=-1, keepdims=True)


def least_gap(x: Array) -> float:
    """The smallest gap of a point, 64 ε."""
    return 64 * _linalg.epsilon(x)


def gap(c: float, x: Array) -> Array:
    """α = 1 - c‖x‖²."""
    xp = _linalg.namespace(x)
    alpha = 1 - c * dot(x, x)
    return xp.where(alpha < least_gap(x), least_gap(x) + 0 * alpha, alpha)


def inside(c: float, x: Array) -> Array:
    """x, or the point on its ray that is as far out as the precision carries."""
    xp = _linalg.namespace(x)
    squared, limit = c * dot(x, x), 1 - least_gap(x) / 2
    outside = squared > limit**2
    return xp.where(outside, limit / xp.sqrt(xp.where(outside, squared, 1 + 0 * squared)) * x, x)


def _even(w: Array, function: Callable[[Any, Array], Array], series: Callable[[Array], Array]) -> Array:
    """An even function of t as one of w = t²: its Taylor series near zero; neither branch sees the other's numbers."""
    xp = _linalg.namespace(w)
    small = w < 1e-4
    near, far = xp.where(small, w, xp.zeros_like(w)), xp.where(small, xp.ones_like(w), w)
    return xp.where(small, series(near), function(xp, xp.sqrt(far)))


def _tanhc(w: Array) -> Array:
    """tanh(t)/t."""
    return _even(w, lambda xp, t: xp.tanh(t) / t, lambda v: 1 - v / 3 + 2 * v**2 / 15 - 17 * v**3 / 315)


def _sech_squared(w: Array) -> Array:
    """1/cosh(t)² = 4 e^(-2t) / (1 + e^(-2t))², in which nothing overflows."""
    series = lambda v: 1 - v + 2 * v**2 / 3 - 17 * v**3 / 45  # noqa: E731
    return _even(w, lambda xp, t: 4 * xp.exp(-2 * t) / (1 + xp.exp(-2 * t)) ** 2, series)


def _asinhc(w: Array) -> Array:
    """asinh(t)/t."""
    return _even(w, lambda xp, t: xp.asinh(t) / t, lambda v: 1 - v / 6 + 3 * v**2 / 40 - 5 * v**3 / 112)


def add(c: float, x: Array, alpha: Array, y: Array, beta: Array) -> tuple[Array, Array]:
    """Möbius addition x ⊕ y, and the gap there.

    With s = x + y it is (c‖s‖² x + α s) / (c‖s‖² + αβ), whose gap is αβ / (c‖s‖² + αβ): sums of positive terms.
    """
    s = x + y
    squared = c * dot(s, s)
    bottom = squared + alpha * beta
    return (squared * x + alpha * s) / bottom, alpha * beta / bottom


def exponential(c: float, x: Array, alpha: Array, u: Array) -> tuple[Array, Array]:
    """Exp_x(u) = x ⊕ (tanh(t)/t) u/α with t = √c ‖u‖ / α, and its gap."""
    v = u / alpha
    squared = c * dot(v, v)
    return add(c, x, alpha, _tanhc(squared) * v, _sech_squared(squared))


def step(c: float, x: Array, alpha: Array, u: Array) -> tuple[Array, Array]:
    """R_x(u) = x ⊕ (1 + t²)^(-1/2) u/α, of second order like the exponential map, and its gap."""
    xp, v = _linalg.namespace(x), u / alpha
    stretch = 1 + c * dot(v, v)
    return add(c, x, alpha, v / xp.sqrt(stretch), 1 / stretch)


def logarithm(c: float, x: Array, alpha: Array, y: Array, beta: Array) -> Array:
    """Log_x(y) = α (asinh(q)/q) (α s - c‖s‖² x) / √(αβ (c‖s‖² + αβ)) with s = y - x and q² = c‖s‖² / αβ."""
    xp, s, both = _linalg.namespace(x), y - x, alpha * beta
    squared = c * dot(s, s)
    return alpha * _asinhc(squared / both) * (alpha * s - squared * x) / xp.sqrt(both * (squared + both))


def distance(c: float, x: Array, alpha: Array, y: Array, beta: Array) -> Array:
    """(2/√c) asinh(√c ‖y - x‖ / √(αβ))."""
    s = y - x
    squared = c * dot(s, s) / (alpha * beta)
    return (2 / c**0.5 * _linalg.safe_sqrt(squared) * _asinhc(squared))[..., 0]


def parallel(c: float, x: Array, alpha: Array, y: Array, beta: Array, u: Array) -> Array:
    """Parallel transport along the geodesic from x to y, as two reflections.

    The inversion that exchanges x and y maps tangent vectors by β/α (I - 2 n nᵀ) with n along y - x; it turns the
    geodesic's own direction round, so that it is turned round beforehand, by I - 2 w wᵀ with w along Log_x(y).
    """
    xp, s = _linalg.namespace(x), y - x
    squared = dot(s, s)
    apart = squared > 0
    length = xp.sqrt(xp.where(apart, squared, 1 + 0 * squared))
    n = s / length
    w = xp.where(apart, alpha * n - c * length * x, 1 + 0 * x)
    turned = u - 2 * dot(w, u) / dot(w, w) * w
    return beta / alpha * xp.where(apart, turned - 2 * dot(n, turned) * n, u)


Move = Callable[[float, Array, Array, Array], tuple[Array, Array]]
"""From (c, x, α, u) to a point and its gap."""


def _retraction(move: Move) -> Retraction:
    def retract(self: "PoincareBall", x: Array, u: Array) -> Array:
        return inside(self.curvature, move(self.curvature, x, gap(self.curvature, x), u)[0])

    return retract


def transport_in_parallel(self: "PoincareBall", x: Array, y: Array, u: Array) -> Array:
    """Along the geodesic from x to y."""
    c = self.curvature
    return parallel(c, x, gap(c, x), y, gap(c, y), u)


def transport_by_scaling(self: "PoincareBall", x: Array, y: Array, u: Array) -> Array:
    """T u = (β/α) u: angles are those of the ambient space, so that the right length makes it isometric."""
    return gap(self.curvature, y) / gap(self.curvature, x) * u


class PoincareBall(ArrayManifold):
    """`PoincareBall(d, curvature=c)`: vectors with c‖x‖² < 1 and the hyperbolic metric of sectional curvature -c.

    Retractions: exp; "moebius", of second order as well, without a hyperbolic function. Transports: parallel;
    "scaling", isometric as well and cheaper.
    """

    d: int
    curvature: float = 1.0

    retractions: ClassVar[dict[str, Retraction]] = {"exp": _retraction(exponential), "moebius": _retraction(step)}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "parallel": NamedTransport(transport_in_parallel, isometric=True),
        "scaling": NamedTransport(transport_by_scaling, isometric=True),
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "it does not respect the metric; 'scaling' does, and is as cheap",
        "projection": "every vector is tangent at every point; 'scaling' is the cheap transport here",
        "addition": "x + u leaves the ball; 'moebius' is the cheap retraction here",
    }
    _remedy = "a point needs curvature · ‖x‖² < 1"

    def __post_init__(self) -> None:
        """Refuse sizes below 1 and curvatures that are not positive."""
        super().__post_init__()
        self._check_sizes("d")
        self._store(
            curvature=positive_number(self.curvature, f"curvature of {type(self).__name__} (which is minus it)")
        )

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.d,)

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """(2/α)² uᵀv."""
        return (4 * dot(u, v) / gap(self.curvature, x) ** 2)[..., 0]

    def project(self, x: Array, z: Array) -> Array:
        """Every vector is tangent."""
        return z

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """(α/2)² ∇f."""
        return gap(self.curvature, x) ** 2 / 4 * ambient_gradient

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u."""
        return self.retractions["exp"](self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity u with Exp_x(u) = y."""
        c = self.curvature
        return logarithm(c, x, gap(c, x), y, gap(c, y))

    def distance(self, x: Array, y: Array) -> Array:
        """(2/√c) asinh(√c ‖y - x‖ / √(αβ))."""
        c = self.curvature
        return distance(c, x, gap(c, x), y, gap(c, y))

    def random_point(self, gaussian: Array) -> Array:
        """Exp of a Gaussian vector at the origin, at a distance of about 1/√c from it."""
        scale = 2 * (self.curvature * self.d) ** 0.5
        return inside(self.curvature, exponential(self.curvature, 0 * gaussian, 1 + 0 * gaussian, gaussian / scale)[0])

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """(α/2) · gaussian: isotropic, of the gaussian's length."""
        return gap(self.curvature, x) / 2 * gaussian

    def violation(self, x: Array) -> Array:
        """0 inside the ball, c‖x‖² elsewhere."""
        squared = self.curvature * dot(x, x)[..., 0]
        return _linalg.namespace(x).where(squared < 1, 0 * squared, squared)
