"""The manifold protocol, and what all manifolds share: named choices, checks of shape and membership.

A manifold is a frozen dataclass that holds no arrays: a subclass declares its fields, and equality, hash and repr
come from all of them without being asked for. Its operations are pure functions on arrays of any array-API library,
take leading batch axes, and obey these laws (tested in `tests/laws`):

- `retract(x, 0) = x`, and `retract(x, εu) = x + εu + O(ε²)`; the result is on the manifold.
- `project(x, ·)` is linear, idempotent and self-adjoint in the ambient inner product (on the hyperboloid Minkowski's).
- `inner(x, gradient(x, ∇f), u) = Df(x)[u]` for every tangent u: `gradient` turns the ambient gradient into the
  Riemannian one.
- `transport(x, y, u)` takes a tangent vector **at x** to one **at y** and is linear in u; it preserves inner
  products exactly when `isometric` is true. It is a function of the two points alone.
- `exp(x, log(x, y)) = y`, `distance(x, y) = norm(x, log(x, y))`, where these exist.

An operation that a manifold lacks is absent, never aliased to something else.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from retrax import _linalg
from retrax._arguments import size
from retrax._tree import add, scale, tree_map
from retrax.manifolds._fields import FrozenFields, aliased
from retrax.typing import Array, Point, Tangent

Retraction = Callable[[Any, Array, Array], Array]
Transport = Callable[[Any, Array, Array, Array], Array]


@dataclasses.dataclass(frozen=True)
class NamedTransport:
    """A vector transport `apply(manifold, x, y, u)` and whether it preserves inner products."""

    apply: Transport
    isometric: bool


class Manifold(FrozenFields, abc.ABC):
    """What estimators, scalings and drivers may ask of a manifold (the laws stand in the module's docstring)."""

    def each(self, operation: Callable[..., Any], *trees: Any) -> Any:
        """`operation(manifold, *parts)` for each factor; a manifold that is no product is its own only factor."""
        return operation(self, *trees)

    @abc.abstractmethod
    def inner(self, x: Point, u: Tangent, v: Tangent) -> Array:
        """⟨u, v⟩_x, one number for each leading batch index."""

    def norm(self, x: Point, u: Tangent) -> Array:
        """‖u‖_x."""
        return _linalg.safe_sqrt(self.inner(x, u, u))

    def gram(self, x: Point, vectors: Sequence[Tangent]) -> Array:
        """⟨uᵢ, uⱼ⟩_x for several tangent vectors, as a matrix behind the leading batch axes."""
        rows = [[self.inner(x, u, v) for v in vectors] for u in vectors]
        xp = _linalg.namespace(rows[0][0])
        return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)

    @abc.abstractmethod
    def project(self, x: Point, z: Tangent) -> Tangent:
        """The ambient-orthogonal projection of z onto the tangent space at x."""

    @abc.abstractmethod
    def gradient(self, x: Point, ambient_gradient: Tangent) -> Tangent:
        """The Riemannian gradient, from the gradient in the ambient space."""

    @abc.abstractmethod
    def retract(self, x: Point, u: Tangent) -> Point:
        """R_x(u), by the retraction this manifold was made with."""

    @abc.abstractmethod
    def transport(self, x: Point, y: Point, u: Tangent) -> Tangent:
        """The tangent vector u at x, carried to y."""

    @property
    @abc.abstractmethod
    def isometric(self) -> bool:
        """Whether `transport` preserves inner products."""

    @property
    @abc.abstractmethod
    def ambient_shape(self) -> Any:
        """The shape of one point (a pytree of shapes on a product)."""

    @abc.abstractmethod
    def random_point(self, gaussian: Any) -> Point:
        """A point made from an array of independent standard normals of the ambient shape."""

    def random_tangent(self, x: Point, gaussian: Any) -> Tangent:
        """A tangent vector at x made from an array of independent standard normals."""
        return self.project(x, gaussian)

    @abc.abstractmethod
    def violation(self, x: Point) -> Array:
        """How far x is from the manifold: 0 on it, one number for each leading batch index."""

    def check_point(self, x: Point, tolerance: float | None = None, name: str = "x0") -> None:
        """Raise ValueError unless x has the right shape and lies on the manifold."""
        check_shape(x, self.ambient_shape, self, name)
        kind = getattr(getattr(x, "dtype", None), "kind", "f")  # PyTorch's dtypes have none
        if kind not in "fiu":
            raise TypeError(f"{name} must be made of real numbers, not {x.dtype}")
        x = 1.0 * x if kind in "iu" else x
        xp = _linalg.namespace(x)
        if not bool(xp.all(xp.isfinite(x))):
            raise ValueError(f"{name} contains NaN or infinite entries")
        if tolerance is None:
            tolerance = max(1e-8, 1e3 * _linalg.epsilon(x))
        violation = float(xp.max(self.violation(x)))
        if not violation <= tolerance:
            raise ValueError(
                f"{name} is not on {self}: violation {violation:.2g}, allowed {tolerance:.2g}; {self._remedy}"
            )

    _remedy: ClassVar[str] = "start from manifold.random_point(gaussian_array)"


def check_shape(x: Array, shape: tuple[int, ...], manifold: Any, name: str) -> None:
    """Raise ValueError unless the trailing axes of x are `shape`."""
    given = tuple(getattr(x, "shape", ()))
    if len(given) < len(shape) or given[len(given) - len(shape) :] != shape:
        raise ValueError(f"{name} has shape {given}, but a point on {manifold} has shape {shape}")
    if 0 in given:
        raise ValueError(f"{name} has shape {given}: it holds no point")


class ArrayManifold(Manifold):
    """A manifold whose points are single arrays, with retraction and transport chosen by name.

    A subclass declares what it depends on as annotated fields, and is then constructed with them:

        class Ball(ArrayManifold):
            d: int
            curvature: float = 1.0

    `Ball(3, curvature=2.0)` and `Ball(3, retraction="exp")` are then as different as they look.
    """

    retraction_name: str = aliased(alias="retraction", default="default", kw_only=True)
    transport_name: str = aliased(alias="transport", default="default", kw_only=True)

    retractions: ClassVar[dict[str, Retraction]]
    transports: ClassVar[dict[str, NamedTransport]]
    """Tables of the choices; the first of each is the default."""
    refused: ClassVar[dict[str, str]] = {}
    """Names a user may reasonably try that are not valid here, and why."""

    def __post_init__(self) -> None:
        """Refuse names that are not in the tables."""
        self._store(
            retraction_name=self._choice("retraction", self.retraction_name, self.retractions),
            transport_name=self._choice("transport", self.transport_name, self.transports),
        )

    def _choice(self, kind: str, name: str, choices: dict[str, Any]) -> str:
        if name == "default":
            return next(iter(choices))
        if isinstance(name, str) and name in choices:
            return name
        reason = f" ({self.refused[name]})" if str(name) in self.refused else ""
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{type(self).__name__} has no {kind} {name!r}{reason}; choose from {allowed}")

    def _check_sizes(self, *names: str) -> None:
        """Make the named fields positive integers, or refuse them."""
        for name in names:
            self._store(**{name: size(getattr(self, name), f"{name} of {type(self).__name__}")})

    @property
    def isometric(self) -> bool:
        """Whether the chosen transport preserves inner products."""
        return self.transports[self.transport_name].isometric

    def retract(self, x: Array, u: Array) -> Array:
        """R_x(u), by the chosen retraction."""
        return self.retractions[self.retraction_name](self, x, u)

    def transport(self, x: Array, y: Array, u: Array) -> Array:
        """The tangent vector u at x, carried to y by the chosen transport."""
        return self.transports[self.transport_name].apply(self, x, y, u)

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """The inner product of the ambient space (manifolds with another metric override this)."""
        return _linalg.frobenius(u, v, len(self.ambient_shape))

    def gram(self, x: Array, vectors: Sequence[Array]) -> Array:
        """One product, where the metric is the ambient space's."""
        if type(self).inner is not ArrayManifold.inner:
            return super().gram(x, vectors)
        return _linalg.gram(vectors, len(self.ambient_shape))

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """Projection: right for submanifolds with the ambient metric, and only for those."""
        return self.project(x, ambient_gradient)


def as_factor(numbers: Array, manifold: Manifold) -> Array:
    """Numbers, one for each leading batch index, with axes added so that they multiply the manifold's points."""
    return numbers[(..., *(None for _ in manifold.ambient_shape))]


def scaled(manifold: Manifold, numbers: Any, u: Tangent) -> Tangent:
    """numbers · u, where numbers is one, or one for each leading batch index."""
    if getattr(numbers, "ndim", 0) == 0:
        return scale(numbers, u)
    return manifold.each(lambda m, part: as_factor(numbers, m) * part, u)


def plus(manifold: Manifold, u: Tangent, numbers: Any, v: Tangent) -> Tangent:
    """u + numbers · v."""
    if getattr(numbers, "ndim", 0) == 0:
        return tree_map(lambda a, b: _linalg.plus_scaled(a, numbers, b), u, v)
    return add(u, scaled(manifold, numbers, v))


def transport_by_projection(manifold: Manifold, x: Array, y: Array, u: Array) -> Array:
    """T u = P_y(u): the cheapest transport of an embedded manifold; it shortens vectors, so it is not isometric."""
    return manifold.project(y, u)
