"""RMSProp's scaling, entry by entry in the ambient space."""

from retrax import _linalg
from retrax._tree import pytree, scale, tree_map
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent


@pytree
class Coordinatewise:
    """v ← βv + (1-β) g∘g, then P_x(d / (√v + ε)).

    The paper's variant of cRMSProp: v lives in the ambient space and is neither projected nor transported (the
    original does both, and its "squares" turn negative).
    """

    beta: float
    epsilon: float

    def init(self, manifold: Manifold, x: Point) -> Point:
        """Zeros."""
        return scale(0, x)

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Point) -> tuple[Tangent, Point]:
        """Divide by the root of the averaged squares, then project back to the tangent space."""
        moment = tree_map(lambda v, g: self.beta * v + (1 - self.beta) * g * g, memory, estimate.gradient)
        scaled = tree_map(self._divide, estimate.direction, moment)
        return manifold.project(x, scaled), moment

    def _divide(self, direction: Array, moment: Array) -> Array:
        return direction / (_linalg.namespace(moment).sqrt(moment) + self.epsilon)
