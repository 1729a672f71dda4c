"""No scaling, and scaling to unit length."""

from typing import Any

from retrax import _linalg
from retrax._tree import pytree
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold, as_factor
from retrax.typing import Point, Tangent


@pytree
class Identity:
    """The direction as it is."""

    def init(self, manifold: Manifold, x: Point) -> tuple[()]:
        """Nothing."""
        return ()

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """The direction as it is."""
        return estimate.direction, memory


@pytree
class Normalised(Identity):
    """d / ‖d‖, and 0 for d = 0: every step has length η (RSPIDER)."""

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """d / ‖d‖."""
        length = manifold.norm(x, estimate.direction)
        xp = _linalg.namespace(length)
        safe = xp.where(length > 0, length, 1 + 0 * length)
        return manifold.each(lambda m, part: part / as_factor(safe, m), estimate.direction), memory
