"""Arrays with positive entries and the metric Σ u v / x²: the logarithms are a flat space."""

from typing import ClassVar

from retrax import _linalg
from retrax._arguments import size
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


def second_order(self: "Positive", x: Array, u: Array) -> Array:
    """R_x(u) = x + u + u²/(2x) = x ((1 + u/x)² + 1) / 2, positive for every u."""
    return x * ((1 + u / x) ** 2 + 1) / 2


class Positive(ArrayManifold):
    """`Positive(*shape)`: arrays of positive numbers, in which ratios count: SPD(1) for each entry."""

    shape: tuple[int, ...]

    retractions: ClassVar[dict[str, Retraction]] = {
        "exp": lambda self, x, u: self.exp(x, u),
        "second-order": second_order,
    }
    transports: ClassVar[dict[str, NamedTransport]] = {
        "parallel": NamedTransport(lambda self, x, y, u: y / x * u, isometric=True)
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "it does not respect the metric; 'parallel' is as cheap",
        "projection": "every array is tangent at every point; 'parallel' is as cheap",
        "addition": "x + u need not be positive; 'second-order' is as cheap",
    }
    _remedy = "a point must have positive entries"

    def __init__(self, *shape: int, retraction: str = "default", transport: str = "default") -> None:
        self._construct(shape=shape, retraction_name=retraction, transport_name=transport)

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._store(shape=tuple(size(one, "each size of Positive(...)") for one in self.shape))

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """The given shape."""
        return self.shape

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """Σ (u/x) (v/x)."""
        return _linalg.frobenius(u / x, v / x, len(self.shape))

    def project(self, x: Array, z: Array) -> Array:
        """Every array is tangent."""
        return z

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """x² ∇f."""
        return x * x * ambient_gradient

    def exp(self, x: Array, u: Array) -> Array:
        """x exp(u/x)."""
        return x * _linalg.namespace(x).exp(u / x)

    def log(self, x: Array, y: Array) -> Array:
        """x log(y/x)."""
        return x * _linalg.namespace(x).log(y / x)

    def distance(self, x: Array, y: Array) -> Array:
        """‖log(y/x)‖."""
        ratio = _linalg.namespace(x).log(y / x)
        return _linalg.safe_sqrt(_linalg.frobenius(ratio, ratio, len(self.shape)))

    def random_point(self, gaussian: Array) -> Array:
        """exp(gaussian)."""
        return _linalg.namespace(gaussian).exp(gaussian)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """x · gaussian: isotropic in the metric at x."""
        return x * gaussian

    def violation(self, x: Array) -> Array:
        """0 where all entries are positive; 1 and more where the smallest is not."""
        xp = _linalg.namespace(x)
        each = xp.where(x > 0, 0 * x, 1 - x)
        return xp.max(each, axis=tuple(range(-len(self.shape), 0))) if self.shape else each
