"""Symmetric matrices: a flat space, in which only the symmetric part of a gradient counts."""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


class Symmetric(ArrayManifold):
    """`Symmetric(d)`: symmetric d×d matrices with the metric of the ambient space."""

    d: int

    retractions: ClassVar[dict[str, Retraction]] = {"addition": lambda self, x, u: x + u}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "identity": NamedTransport(lambda self, x, y, u: u, isometric=True)
    }
    _remedy = "a point must be symmetric: (x + xᵀ) / 2"

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("d")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, d)."""
        return self.d, self.d

    def project(self, x: Array, z: Array) -> Array:
        """(z + zᵀ) / 2."""
        return _linalg.symmetric_part(z)

    def exp(self, x: Array, u: Array) -> Array:
        """x + u."""
        return x + u

    def log(self, x: Array, y: Array) -> Array:
        """y - x."""
        return y - x

    def distance(self, x: Array, y: Array) -> Array:
        """‖y - x‖_F."""
        return self.norm(x, y - x)

    def random_point(self, gaussian: Array) -> Array:
        """The symmetric part of the Gaussian array."""
        return _linalg.symmetric_part(gaussian)

    def violation(self, x: Array) -> Array:
        """The largest entry of |x - xᵀ|."""
        xp = _linalg.namespace(x)
        return xp.max(xp.abs(x - x.mT), axis=(-2, -1))
