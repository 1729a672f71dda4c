"""Euclidean space: arrays of any shape, where every operation is the one you know."""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction, positive_integer
from retrax.typing import Array


class Euclidean(ArrayManifold):
    """Arrays of the given shape: `Euclidean(3)`, `Euclidean(64, 10)`, `Euclidean()` for one number."""

    retractions: ClassVar[dict[str, Retraction]] = {"addition": lambda self, x, u: x + u}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "identity": NamedTransport(lambda self, x, y, u: u, isometric=True)
    }

    def __init__(self, *shape: int, retraction: str = "addition", transport: str = "identity") -> None:
        sizes = tuple(positive_integer(size, "each size of Euclidean(...)") for size in shape)
        self._choose(sizes, retraction, transport)

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
