"""A product of manifolds: one for each leaf of a tuple, a dict or any pytree; it works factor by factor."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from retrax import _linalg
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent


class Product(Manifold):
    """`Product({"U": Stiefel(64, 16), "bias": Euclidean(16)})`: points are pytrees of the same structure."""

    leaves: tuple[Manifold, ...]
    structure: Any

    def __init__(self, factors: Any) -> None:
        leaves, structure = jax.tree.flatten(factors)
        if not leaves:
            raise ValueError("Product needs at least one manifold")
        for leaf in leaves:
            if not isinstance(leaf, Manifold):
                raise TypeError(f"a Product is a tuple, dict or pytree of manifolds; found {type(leaf).__name__}")
        self._construct(leaves=tuple(leaves), structure=structure)

    @property
    def factors(self) -> Any:
        """The manifolds, in the structure they were given in."""
        return jax.tree.unflatten(self.structure, self.leaves)

    def __repr__(self) -> str:
        return f"Product({self.factors!r})"

    def split(self, tree: Any) -> list[Any]:
        """The part of `tree` that belongs to each factor."""
        return self.structure.flatten_up_to(tree)

    def join(self, parts: Sequence[Any]) -> Any:
        """The inverse of `split`."""
        return jax.tree.unflatten(self.structure, parts)

    def each(self, operation: Callable[..., Any], *trees: Any) -> Any:
        """`operation(manifold, *parts)` for each factor, in the structure of the factors."""
        parts = zip(self.leaves, *(self.split(tree) for tree in trees), strict=True)
        return self.join([operation(*part) for part in parts])

    @property
    def isometric(self) -> bool:
        """Whether every factor's transport is."""
        return all(leaf.isometric for leaf in self.leaves)

    @property
    def ambient_shape(self) -> Any:
        """The shapes of the factors."""
        return jax.tree.unflatten(self.structure, [leaf.ambient_shape for leaf in self.leaves])

    def inner(self, x: Point, u: Tangent, v: Tangent) -> Array:
        """The sum of the factors' inner products."""
        return sum(self.split(self.each(lambda m, *args: m.inner(*args), x, u, v)))

    def gram(self, x: Point, vectors: Sequence[Tangent]) -> Array:
        """The sum of the factors' matrices."""
        return sum(self.split(self.each(lambda m, point, *parts: m.gram(point, parts), x, *vectors)))

    def project(self, x: Point, z: Tangent) -> Tangent:
        """Factor by factor."""
        return self.each(lambda m, *args: m.project(*args), x, z)

    def gradient(self, x: Point, ambient_gradient: Tangent) -> Tangent:
        """Factor by factor."""
        return self.each(lambda m, *args: m.gradient(*args), x, ambient_gradient)

    def retract(self, x: Point, u: Tangent) -> Point:
        """Factor by factor."""
        return self.each(lambda m, *args: m.retract(*args), x, u)

    def transport(self, x: Point, y: Point, u: Tangent) -> Tangent:
        """Factor by factor."""
        return self.each(lambda m, *args: m.transport(*args), x, y, u)

    def random_point(self, gaussian: Any) -> Point:
        """Factor by factor."""
        return self.each(lambda m, *args: m.random_point(*args), gaussian)

    def random_tangent(self, x: Point, gaussian: Any) -> Tangent:
        """Factor by factor."""
        return self.each(lambda m, *args: m.random_tangent(*args), x, gaussian)

    def violation(self, x: Point) -> Array:
        """The largest violation among the factors."""
        parts = self.split(self.each(lambda m, *args: m.violation(*args), x))
        xp = _linalg.namespace(parts[0])
        worst = parts[0]
        for part in parts[1:]:
            worst = xp.maximum(worst, part)
        return worst

    def check_point(self, x: Point, tolerance: float | None = None, name: str = "x0") -> None:
        """Raise ValueError unless x has the factors' structure and each part lies on its manifold."""
        try:
            parts = self.split(x)
        except ValueError as error:
            raise ValueError(f"{name} does not have the structure of {self}: {error}") from None
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(self.factors)[0]]
        for manifold, part, path in zip(self.leaves, parts, paths, strict=True):
            manifold.check_point(part, tolerance, f"{name}{path}")
