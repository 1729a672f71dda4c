"""What a scaling is: a way to reshape a direction before the step.

Second moments are arrays of the ambient space; they are never transported.
"""

from typing import Any, Protocol

from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold
from retrax.typing import Point, Tangent


class Scaling(Protocol):
    """Pure functions with a memory of their own."""

    def init(self, manifold: Manifold, x: Point) -> Any:
        """An empty memory."""
        ...

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """The scaled direction, tangent at x, and the new memory."""
        ...
