"""The oblique manifold: matrices whose columns are unit vectors."""

import functools

from retrax.manifolds.base import ArrayManifold
from retrax.manifolds.power import Power
from retrax.manifolds.sphere import Sphere
from retrax.typing import Array


@functools.cache
def _rows(manifold: "Oblique") -> Power:
    """The same manifold with the columns as rows."""
    sphere = Sphere(manifold.d, retraction=manifold.retraction_name, transport=manifold.transport_name)
    return Power(sphere, manifold.k)


class Oblique(ArrayManifold):
    """`Oblique(d, k)`: d×k matrices with unit columns, which is `Power(Sphere(d), k)` transposed.

    To the compiler the transpositions are only another order of reading.
    """

    d: int
    k: int

    retractions = Sphere.retractions
    transports = Sphere.transports
    refused = Sphere.refused

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("d", "k")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, k)."""
        return self.d, self.k

    def retract(self, x: Array, u: Array) -> Array:
        """Column by column."""
        return _rows(self).retract(x.mT, u.mT).mT

    def transport(self, x: Array, y: Array, u: Array) -> Array:
        """Column by column."""
        return _rows(self).transport(x.mT, y.mT, u.mT).mT

    def project(self, x: Array, z: Array) -> Array:
        """Column by column: z - x diag(xᵀz)."""
        return _rows(self).project(x.mT, z.mT).mT

    def exp(self, x: Array, u: Array) -> Array:
        """Column by column."""
        return _rows(self).exp(x.mT, u.mT).mT

    def log(self, x: Array, y: Array) -> Array:
        """Column by column."""
        return _rows(self).log(x.mT, y.mT).mT

    def distance(self, x: Array, y: Array) -> Array:
        """The root of the sum of squared angles between the columns."""
        return _rows(self).distance(x.mT, y.mT)

    def random_point(self, gaussian: Array) -> Array:
        """Uniform, independent columns."""
        return _rows(self).random_point(gaussian.mT).mT

    def violation(self, x: Array) -> Array:
        """The largest |‖column‖² - 1|."""
        return _rows(self).violation(x.mT)
