"""What a step size is: a part with a memory of its own that sees what was measured."""

from typing import Any, Protocol

from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent


class StepSize(Protocol):
    """Pure functions with a memory of their own. Every `Schedule` is one, with nothing to remember.

    One that needs the second gradient of a pair says `needs_pairs = True`, and is refused beside an estimator that
    evaluates one point only.
    """

    def init(self, manifold: Manifold, x: Point) -> Any:
        """An empty memory."""
        ...

    def apply(
        self, manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, memory: Any, t: Any
    ) -> tuple[Array, Any]:
        """(η_t, the new memory) for a step from x along -direction, the scaled one.

        η_t is one number, or one for each leading batch index of x.
        """
        ...
