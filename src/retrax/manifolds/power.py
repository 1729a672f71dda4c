"""Powers of a manifold: many points of the same kind in one array, handled in one batched operation."""

from collections.abc import Callable
from typing import Any

from retrax import _linalg
from retrax._arguments import size
from retrax.manifolds.base import Manifold
from retrax.typing import Array


class Power(Manifold):
    """`Power(Sphere(3), 100)`: arrays of shape (100, 3) whose rows are points of the sphere.

    The axes of the power come before the point's own, after any batch axes. The metric is the sum over the powers, so
    that it is the same manifold as a `Product` of so many factors, without a program for each of them. `exp`, `log` and
    `distance` exist where the manifold has them.
    """

    manifold: Manifold
    shape: tuple[int, ...]

    def __init__(self, manifold: Manifold, *shape: int) -> None:
        self._construct(manifold=manifold, shape=shape)

    def __post_init__(self) -> None:
        """Refuse sizes below 1, and manifolds whose points are not single arrays."""
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"Power takes a manifold first, as in Power(Sphere(3), 100), not {self.manifold!r}")
        if not isinstance(self.manifold.ambient_shape, tuple) or not all(
            isinstance(size, int) for size in self.manifold.ambient_shape
        ):
            raise TypeError(f"Power takes a manifold of single arrays, not {self.manifold}; use a Product of Powers")
        self._store(shape=tuple(size(one, "each size of Power(manifold, ...)") for one in self.shape))

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """The sizes of the power, then the shape of one point."""
        return self.shape + tuple(self.manifold.ambient_shape)

    @property
    def isometric(self) -> bool:
        """Whether the manifold's transport is."""
        return self.manifold.isometric

    def _sum(self, numbers: Array) -> Array:
        """One number for each batch index, from one for each point."""
        return _linalg.namespace(numbers).sum(numbers, axis=self._axes) if self.shape else numbers

    @property
    def _axes(self) -> tuple[int, ...]:
        """The axes of the power in an array of one number for each point."""
        return tuple(range(-len(self.shape), 0))

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """The sum of the inner products."""
        return self._sum(self.manifold.inner(x, u, v))

    def project(self, x: Array, z: Array) -> Array:
        """Point by point."""
        return self.manifold.project(x, z)

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """Point by point."""
        return self.manifold.gradient(x, ambient_gradient)

    def retract(self, x: Array, u: Array) -> Array:
        """Point by point."""
        return self.manifold.retract(x, u)

    def transport(self, x: Array, y: Array, u: Array) -> Array:
        """Point by point."""
        return self.manifold.transport(x, y, u)

    def random_point(self, gaussian: Array) -> Array:
        """Point by point."""
        return self.manifold.random_point(gaussian)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """Point by point."""
        return self.manifold.random_tangent(x, gaussian)

    def violation(self, x: Array) -> Array:
        """The largest violation among the points."""
        each = self.manifold.violation(x)
        return _linalg.namespace(x).max(each, axis=self._axes) if self.shape else each

    def __getattr__(self, name: str) -> Any:
        """`exp`, `log` and `distance`, where the manifold has them."""
        if name in ("exp", "log"):
            return getattr(self.manifold, name)
        if name == "distance":
            return self._distance(self.manifold.distance)  # type: ignore[attr-defined]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def _distance(self, each: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        """The root of the sum of squared distances."""
        return lambda x, y: _linalg.safe_sqrt(self._sum(each(x, y) ** 2))
