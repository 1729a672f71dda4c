"""What an estimator of grad F is: a way to turn mini-batches into directions."""

from typing import Any, ClassVar, NamedTuple, Protocol

from retrax.manifolds.base import Manifold
from retrax.typing import Anchored, Oracle, Point, Tangent


class Estimate(NamedTuple):
    """The direction d_t, and the plain mini-batch gradient at the same point that scalings take moments of."""

    direction: Tangent
    gradient: Tangent


class Estimator(Protocol):
    """Pure functions; `last` is the previous direction with its base point, kept for every estimator.

    With two evaluations it also has `second_point(last, memory)`: the y of its `oracle.pair(x, y)`, for callers such
    as `retrax.torch` that must evaluate before they ask.
    """

    evaluations: ClassVar[int]
    """Gradients per sample in `update` (1 or 2), so that the SFO count is arithmetic."""

    def init(self, x: Point) -> Any:
        """An empty memory, of the structure that `reset` and `update` return."""
        ...

    def reset(self, oracle: Oracle, x: Point) -> tuple[Estimate, Any]:
        """Start anew from a (usually large) batch."""
        ...

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Anchored, memory: Any, t: Any
    ) -> tuple[Estimate, Any]:
        """The direction at x from a mini-batch and what is remembered."""
        ...


class Memoryless:
    """Estimators that need no more than `last`."""

    def init(self, x: Point) -> tuple[()]:
        """Nothing."""
        return ()

    def reset(self, oracle: Oracle, x: Point) -> tuple[Estimate, tuple[()]]:
        """d = grad f_S(x)."""
        gradient = oracle(x)
        return Estimate(gradient, gradient), ()
