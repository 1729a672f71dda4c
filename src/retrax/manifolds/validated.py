"""A manifold that checks every operation's input and output: for finding out where a run leaves its manifold."""

from typing import Any

import jax

from retrax import _linalg
from retrax._arguments import positive_number
from retrax._tree import subtract
from retrax.manifolds.base import Manifold, check_shape
from retrax.typing import Array, Point, Tangent


class Validated(Manifold):
    """What `validated` makes; it is used like the manifold it wraps."""

    manifold: Manifold
    tolerance: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no manifold."""
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"validated takes a manifold, not {self.manifold!r}")
        if self.tolerance is not None:
            self._store(tolerance=positive_number(self.tolerance, "tolerance of validated"))

    @property
    def ambient_shape(self) -> Any:
        """The manifold's."""
        return self.manifold.ambient_shape

    @property
    def isometric(self) -> bool:
        """Whether the manifold's transport is."""
        return self.manifold.isometric

    def each(self, operation: Any, *trees: Any) -> Any:
        """The manifold's: its factors are not validated one by one."""
        return self.manifold.each(operation, *trees)

    def _point(self, operation: str, name: str, x: Point) -> Point:
        if not _hidden(x):
            self.manifold.check_point(x, self.tolerance, f"{name} of {operation}")
        return x

    def _tangent(self, operation: str, name: str, x: Point, u: Tangent) -> Tangent:
        if _hidden(x, u):
            return u
        argument = f"{name} of {operation}"
        self.manifold.each(lambda m, part: check_shape(part, m.ambient_shape, m, argument), u)
        leaves = jax.tree.leaves(u)
        if not _largest(leaves) < float("inf"):
            raise ValueError(f"{argument} contains NaN or infinite entries")
        off = _largest(jax.tree.leaves(subtract(u, self.manifold.project(x, u))))
        tolerance = max(1e-8, 1e3 * max(map(_linalg.epsilon, leaves))) if self.tolerance is None else self.tolerance
        allowed = tolerance * (1 + _largest(leaves))
        if not off <= allowed:
            raise ValueError(
                f"{argument} is not tangent to {self.manifold} at its point: off by {off:.2g}, allowed {allowed:.2g}; "
                "did it come from another point, or is it an ambient gradient?"
            )
        return u

    def inner(self, x: Point, u: Tangent, v: Tangent) -> Array:
        """⟨u, v⟩_x."""
        self._point("inner", "x", x)
        self._tangent("inner", "u", x, u)
        self._tangent("inner", "v", x, v)
        return self.manifold.inner(x, u, v)

    def norm(self, x: Point, u: Tangent) -> Array:
        """‖u‖_x."""
        self._point("norm", "x", x)
        self._tangent("norm", "u", x, u)
        return self.manifold.norm(x, u)

    def project(self, x: Point, z: Tangent) -> Tangent:
        """P_x(z)."""
        self._point("project", "x", x)
        return self._tangent("project", "the result", x, self.manifold.project(x, z))

    def gradient(self, x: Point, ambient_gradient: Tangent) -> Tangent:
        """The Riemannian gradient."""
        self._point("gradient", "x", x)
        return self._tangent("gradient", "the result", x, self.manifold.gradient(x, ambient_gradient))

    def retract(self, x: Point, u: Tangent) -> Point:
        """R_x(u)."""
        self._point("retract", "x", x)
        self._tangent("retract", "u", x, u)
        return self._point("retract", "the result", self.manifold.retract(x, u))

    def transport(self, x: Point, y: Point, u: Tangent) -> Tangent:
        """The tangent vector u at x, carried to y."""
        self._point("transport", "x", x)
        self._point("transport", "y", y)
        self._tangent("transport", "u", x, u)
        return self._tangent("transport", "the result", y, self.manifold.transport(x, y, u))

    def random_point(self, gaussian: Any) -> Point:
        """The manifold's."""
        return self._point("random_point", "the result", self.manifold.random_point(gaussian))

    def random_tangent(self, x: Point, gaussian: Any) -> Tangent:
        """The manifold's."""
        self._point("random_tangent", "x", x)
        return self._tangent("random_tangent", "the result", x, self.manifold.random_tangent(x, gaussian))

    def violation(self, x: Point) -> Array:
        """The manifold's."""
        return self.manifold.violation(x)

    def check_point(self, x: Point, tolerance: float | None = None, name: str = "x0") -> None:
        """The manifold's, with the wrapper's tolerance where none is given."""
        self.manifold.check_point(x, self.tolerance if tolerance is None else tolerance, name)

    def __getattr__(self, name: str) -> Any:
        """`exp`, `log` and `distance`, where the manifold has them, checked; all else is the manifold's own."""
        if name.startswith("_") or name in ("manifold", "tolerance"):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        found = getattr(self.manifold, name)
        return {"exp": self._exp, "log": self._log, "distance": self._distance}.get(name, found)

    def _exp(self, x: Point, u: Tangent) -> Point:
        self._point("exp", "x", x)
        self._tangent("exp", "u", x, u)
        return self._point("exp", "the result", self.manifold.exp(x, u))  # type: ignore[attr-defined]

    def _log(self, x: Point, y: Point) -> Tangent:
        self._point("log", "x", x)
        self._point("log", "y", y)
        return self._tangent("log", "the result", x, self.manifold.log(x, y))  # type: ignore[attr-defined]

    def _distance(self, x: Point, y: Point) -> Array:
        self._point("distance", "x", x)
        self._point("distance", "y", y)
        return self.manifold.distance(x, y)  # type: ignore[attr-defined]


def validated(manifold: Manifold, tolerance: float | None = None) -> Validated:
    """The manifold with every operation's points and tangent vectors checked, for debugging.

    A point off the manifold, a vector that is not tangent at its point, a wrong shape, NaN or infinity raise a
    ValueError that names the operation and the argument. Inside compiled code the numbers cannot be seen, so run
    `minimize(..., driver="eager")`. `tolerance`: how far off a point or vector may be, relative to 1 and to the
    vector's largest entry; None for 1e-8 in double precision and 1000 rounding units in single.
    """
    return Validated(manifold, tolerance)


def _hidden(*trees: Any) -> bool:
    """Whether the numbers are still to be computed, as in code that JAX is tracing."""
    return any(_linalg.is_traced(leaf) for leaf in jax.tree.leaves(trees))


def _largest(leaves: list[Array]) -> float:
    """The largest entry in absolute value; NaN counts as infinity."""
    sizes = [float(_linalg.namespace(leaf).max(_linalg.namespace(leaf).abs(leaf))) for leaf in leaves]
    return max(float("inf") if size != size else size for size in sizes)
