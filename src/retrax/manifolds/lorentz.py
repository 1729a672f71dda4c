"""Hyperbolic space as the hyperboloid {x ∈ R^(d+1) : ⟨x, x⟩ = -1/c, x₀ > 0}, of sectional curvature -c.

⟨x, y⟩ = -x₀y₀ + x₁y₁ + … is the Minkowski product. Far from the origin it cancels to nothing: at distance ρ the usual
formulas lose ε exp(2√c ρ). So operations between two points run in the ball b = x₁… / (1 + √c x₀), with its gap
α = 2 / (1 + √c x₀) known to rounding, and are accurate to about ε exp(√c ρ).
References: Nickel & Kiela (2018), section 3; Ratcliffe, Foundations of Hyperbolic Manifolds (2019), section 4.5.
"""

from typing import ClassVar

from retrax import _linalg
from retrax._arguments import positive_number
from retrax.manifolds import poincare
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.manifolds.poincare import dot
from retrax.typing import Array


def _split(x: Array) -> tuple[Array, Array]:
    """The time and the space components."""
    return x[..., :1], x[..., 1:]


def _on_hyperboloid(c: float, space: Array) -> Array:
    """The point over its space components, drawn in to where the precision carries."""
    xp = _linalg.namespace(space)
    limit = 2 / poincare.least_gap(space) / c**0.5
    squared = dot(space, space)
    outside = squared > limit**2
    space = xp.where(outside, limit / xp.sqrt(xp.where(outside, squared, 1 + 0 * squared)) * space, space)
    return xp.concat([xp.sqrt(1 / c + dot(space, space)), space], axis=-1)


def _tangent(x: Array, space: Array) -> Array:
    """The tangent vector over its space components: ⟨x, u⟩ = 0 gives u₀."""
    time, x_space = _split(x)
    return _linalg.namespace(x).concat([dot(x_space, space) / time, space], axis=-1)


def _gap(c: float, x: Array) -> Array:
    return 2 / (1 + c**0.5 * x[..., :1])


def _ball(c: float, x: Array) -> tuple[Array, Array]:
    """The point in the ball, and its gap."""
    alpha = _gap(c, x)
    return alpha / 2 * x[..., 1:], alpha


def _tangent_to_ball(c: float, x: Array, u: Array) -> Array:
    (time, space), u_space = _split(x), u[..., 1:]
    u_time = dot(space, u_space) / time
    half = _gap(c, x) / 2
    return half * (u_space - c**0.5 * half * u_time * space)


def _tangent_from_ball(c: float, x: Array, b: Array, alpha: Array, v: Array) -> Array:
    return _tangent(x, 2 / alpha * (v + 2 * c / alpha * dot(b, v) * b))


def _retraction(move: poincare.Move) -> Retraction:
    def retract(self: "Lorentz", x: Array, u: Array) -> Array:
        c = self.curvature
        b, alpha = move(c, *_ball(c, x), _tangent_to_ball(c, x, u))
        xp, least = _linalg.namespace(x), poincare.least_gap(x)
        return _on_hyperboloid(c, 2 / xp.where(alpha < least, least + 0 * alpha, alpha) * b)

    return retract


def add_in_space(self: "Lorentz", x: Array, u: Array) -> Array:
    """R_x(u): the point over the sum of the space components, on which the hyperboloid is a graph."""
    return _on_hyperboloid(self.curvature, x[..., 1:] + u[..., 1:])


def transport_in_parallel(self: "Lorentz", x: Array, y: Array, u: Array) -> Array:
    """Along the geodesic from x to y."""
    c = self.curvature
    b, beta = _ball(c, y)
    return _tangent_from_ball(c, y, b, beta, poincare.parallel(c, *_ball(c, x), b, beta, _tangent_to_ball(c, x, u)))


def transport_by_scaling(self: "Lorentz", x: Array, y: Array, u: Array) -> Array:
    """The ball's: its tangent vector times the ratio of the gaps."""
    c = self.curvature
    b, beta = _ball(c, y)
    return _tangent_from_ball(c, y, b, beta, beta / _gap(c, x) * _tangent_to_ball(c, x, u))


class Lorentz(ArrayManifold):
    """`Lorentz(d, curvature=c)`: vectors with d+1 entries, ⟨x, x⟩ = -1/c and x₀ > 0 in the Minkowski product.

    Retractions: exp; "moebius", the ball's; "addition" of the space components, the cheapest. Transports: parallel;
    "scaling", the ball's. `project` is self-adjoint in the Minkowski product.
    """

    d: int
    curvature: float = 1.0

    retractions: ClassVar[dict[str, Retraction]] = {
        "exp": _retraction(poincare.exponential),
        "moebius": _retraction(poincare.step),
        "addition": add_in_space,
    }
    transports: ClassVar[dict[str, NamedTransport]] = {
        "parallel": NamedTransport(transport_in_parallel, isometric=True),
        "scaling": NamedTransport(transport_by_scaling, isometric=True),
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "projection": "on the hyperboloid it lengthens vectors without bound",
    }
    _remedy = "Lorentz.from_ball(b) takes a point of PoincareBall to it"

    def __post_init__(self) -> None:
        """Refuse sizes below 1 and curvatures that are not positive."""
        super().__post_init__()
        self._check_sizes("d")
        self._store(
            curvature=positive_number(self.curvature, f"curvature of {type(self).__name__} (which is minus it)")
        )

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d + 1,)."""
        return (self.d + 1,)

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """⟨u, v⟩, as u_⊥ᵀv_⊥ + u_r v_r / (c x₀²) with u_r along the space part of x: it cannot turn negative."""
        xp = _linalg.namespace(x)
        time, space = _split(x)
        squared = dot(space, space)
        away = squared > 0
        radial = space / xp.sqrt(xp.where(away, squared, 1 + 0 * squared))
        u_r, v_r = dot(radial, u[..., 1:]), dot(radial, v[..., 1:])
        across = dot(u[..., 1:] - u_r * radial, v[..., 1:] - v_r * radial)
        return (across + u_r * v_r / (self.curvature * time**2))[..., 0]

    def project(self, x: Array, z: Array) -> Array:
        """z + c⟨x, z⟩ x."""
        product = dot(x[..., 1:], z[..., 1:]) - x[..., :1] * z[..., :1]
        return z + self.curvature * product * x

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """J∇f + c(xᵀ∇f) x with J = diag(-1, 1, …, 1): the Minkowski gradient, projected."""
        xp = _linalg.namespace(x)
        flipped = xp.concat([-ambient_gradient[..., :1], ambient_gradient[..., 1:]], axis=-1)
        return flipped + self.curvature * dot(x, ambient_gradient) * x

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u."""
        return self.retractions["exp"](self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity u with Exp_x(u) = y."""
        c = self.curvature
        b, alpha = _ball(c, x)
        return _tangent_from_ball(c, x, b, alpha, poincare.logarithm(c, b, alpha, *_ball(c, y)))

    def distance(self, x: Array, y: Array) -> Array:
        """arcosh(-c⟨x, y⟩) / √c."""
        c = self.curvature
        return poincare.distance(c, *_ball(c, x), *_ball(c, y))

    def random_point(self, gaussian: Array) -> Array:
        """Exp of a Gaussian vector at the origin, at a distance of about 1/√c from it; gaussian₀ is not used."""
        c, space = self.curvature, gaussian[..., 1:]
        b, alpha = poincare.exponential(c, 0 * space, 1 + 0 * space[..., :1], space / (2 * (c * self.d) ** 0.5))
        return _on_hyperboloid(c, 2 / alpha * b)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """Isotropic, of the length of the gaussian's space part."""
        c = self.curvature
        b, alpha = _ball(c, x)
        return _tangent_from_ball(c, x, b, alpha, alpha / 2 * gaussian[..., 1:])

    def violation(self, x: Array) -> Array:
        """How far x₀ is from √(1/c + ‖x₁…‖²), relatively."""
        time, space = _split(x)
        xp = _linalg.namespace(x)
        right = xp.sqrt(1 / self.curvature + dot(space, space))
        return (xp.abs(time - right) / right)[..., 0]

    def to_ball(self, x: Array) -> Array:
        """The point of `PoincareBall(d, curvature)` that x is, by stereographic projection: an isometry."""
        return _ball(self.curvature, x)[0]

    def from_ball(self, b: Array) -> Array:
        """The point of the hyperboloid that b of `PoincareBall(d, curvature)` is."""
        return _on_hyperboloid(self.curvature, 2 / poincare.gap(self.curvature, b) * b)

    def tangent_to_ball(self, x: Array, u: Array) -> Array:
        """The tangent vector at `to_ball(x)` that u at x is."""
        return _tangent_to_ball(self.curvature, x, u)

    def tangent_from_ball(self, b: Array, v: Array) -> Array:
        """The tangent vector at `from_ball(b)` that v at b is."""
        c = self.curvature
        return _tangent_from_ball(c, self.from_ball(b), b, poincare.gap(c, b), v)
