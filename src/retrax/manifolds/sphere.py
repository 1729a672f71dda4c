"""The unit sphere {x ∈ R^d : ‖x‖ = 1} with the metric of the ambient space."""

from typing import Any, ClassVar

from retrax import _linalg
from retrax.manifolds.base import (
    ArrayManifold,
    NamedTransport,
    Retraction,
    transport_by_projection,
)
from retrax.typing import Array


def _dot(a: Array, b: Array) -> Array:
    return _linalg.namespace(a).sum(a * b, axis=-1, keepdims=True)


def _length(a: Array) -> Array:
    return _linalg.namespace(a).sqrt(_dot(a, a))


def _normalised(a: Array) -> Array:
    return a / _length(a)


def _safe_length(u: Array) -> Array:
    """‖u‖, and 1 where u = 0, so that derivatives stay finite there."""
    xp = _linalg.namespace(u)
    squared = _dot(u, u)
    return xp.sqrt(xp.where(squared > 0, squared, xp.ones_like(squared)))


def _bounded(u: Array) -> Array:
    """u with entries of at most 1/ε, beside which x is lost in rounding anyway: squares then do not overflow."""
    return _linalg.bounded(u, 1 / _linalg.epsilon(u))


def retract_by_normalising(self: "Sphere", x: Array, u: Array) -> Array:
    """R_x(u) = (x + u) / ‖x + u‖."""
    return _normalised(x + _bounded(u))


def exponential(self: Any, x: Array, u: Array) -> Array:
    """Exp_x(u) = cos‖u‖ x + (sin‖u‖ / ‖u‖) u, normalised once more so that rounding does not build up."""
    xp = _linalg.namespace(u)
    u = _bounded(u)
    angle = _safe_length(u)
    moved = xp.cos(angle) * x + xp.sin(angle) / angle * u
    return _normalised(xp.where(_dot(u, u) > 0, moved, x + u))


def parallel_transport(self: Any, x: Array, y: Array, u: Array) -> Array:
    """Along the great circle from x to y: T u = u - ⟨y, u⟩ / (1 + ⟨x, y⟩) (x + y).

    For a tangent u that is the reflection u - 2 ⟨s, u⟩ / ⟨s, s⟩ s with s = x + y: isometric even close to y = -x.
    """
    middle = x + y
    squared = _dot(middle, middle)
    _linalg.check_path(squared > 0)
    return u - 2 * _dot(middle, u) / squared * middle


def project(x: Array, z: Array) -> Array:
    """z - ⟨x, z⟩ x."""
    return z - _dot(x, z) * x


def logarithm(x: Array, y: Array) -> Array:
    """The velocity u with Exp_x(u) = y, for y ≠ -x."""
    xp = _linalg.namespace(x)
    sideways = project(x, y - x)
    length = _safe_length(sideways)
    factor = xp.atan2(length, _dot(x, y)) / length
    return xp.where(_dot(sideways, sideways) > 0, factor * sideways, sideways)


class Sphere(ArrayManifold):
    """`Sphere(d)`: unit vectors with d entries."""

    retractions: ClassVar[dict[str, Retraction]] = {"normalise": retract_by_normalising, "exp": exponential}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False),
        "parallel": NamedTransport(parallel_transport, isometric=True),
    }
    refused: ClassVar[dict[str, str]] = {"identity": "a tangent vector at x is not tangent at y"}

    d: int

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("d")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.d,)

    def project(self, x: Array, z: Array) -> Array:
        """z - ⟨x, z⟩ x."""
        return project(x, z)

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the great-circle arc that starts at x with velocity u."""
        return exponential(self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity u with Exp_x(u) = y, for y ≠ -x."""
        return logarithm(x, y)

    def distance(self, x: Array, y: Array) -> Array:
        """The angle between x and y."""
        return self.norm(x, self.log(x, y))

    def random_point(self, gaussian: Array) -> Array:
        """Uniform on the sphere."""
        return _normalised(gaussian)

    def violation(self, x: Array) -> Array:
        """|‖x‖² - 1|."""
        return _linalg.namespace(x).abs(_dot(x, x)[..., 0] - 1)
