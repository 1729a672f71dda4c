"""Euclidean space: arrays of any shape, where every operation is the one you know."""

from typing import ClassVar

from retrax import _linalg
from retrax._arguments import size
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


class Euclidean(ArrayManifold):
    """Arrays of the given shape: `Euclidean(3)`, `Euclidean(64, 10)`, `Euclidean()` for one number."""

    retractions: ClassVar[dict[str, Retraction]] = {"addition": lambda self, x, u: x + u}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "identity": NamedTransport(lambda self, x, y, u: u, isometric=True)
    }

    shape: tuple[int, ...]

    def __init__(self, *shape: int, retraction: str = "default", transport: str = "default") -> None:
        self._construct(shape=shape, retraction_name=retraction, transport_name=transport)

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._store(shape=tuple(size(one, "each size of Euclidean(...)") for one in self.shape))

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """The given shape."""
        return self.shape

    def project(self, x: Array, z: Array) -> Array:
        """Every array is tangent."""
        return z

    def exp(self, x: Array, u: Array) -> Array:
        """x + u."""
        return x + u

    def log(self, x: Array, y: Array) -> Array:
        """y - x."""
        return y - x

    def distance(self, x: Array, y: Array) -> Array:
        """‖y - x‖."""
        return self.norm(x, y - x)

    def random_point(self, gaussian: Array) -> Array:
        """The Gaussian array itself."""
        return gaussian

    def violation(self, x: Array) -> Array:
        """Always 0."""
        return 0 * _linalg.frobenius(x, x, len(self.ambient_shape))
