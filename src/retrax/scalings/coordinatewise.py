"""RMSProp's scaling, entry by entry in the ambient space."""

from typing import Any

from retrax import _linalg
from retrax._tree import pytree, scale, static, tree_map
from retrax.estimators.base import Estimate, zeros
from retrax.manifolds.base import Manifold
from retrax.manifolds.base import scaled as tree_scaled
from retrax.typing import Array, Point, Tangent


@pytree
class Coordinatewise:
    """v ← βv + (1-β) g∘g, then P_x(d / (√v + ε)).

    The paper's variant of cRMSProp: v lives in the ambient space and is neither projected nor transported (the
    original does both, and its "squares" turn negative). `unbiased` divides v by 1 - βᵗ, as Adam does.
    """

    beta: float
    epsilon: float
    unbiased: bool = static(default=False)

    def init(self, manifold: Manifold, x: Point) -> Any:
        """Zeros; and their weight, where it is wanted."""
        return (scale(0, x), zeros(manifold, x)) if self.unbiased else scale(0, x)

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """Divide by the root of the averaged squares, then project back to the tangent space."""
        last, weight = memory if self.unbiased else (memory, None)
        moment = tree_map(lambda v, g: self.beta * v + (1 - self.beta) * (g * g), last, estimate.gradient)
        if weight is None:
            return manifold.project(x, tree_map(self._divide, estimate.direction, moment)), moment
        weight = self.beta * weight + (1 - self.beta)
        scaled = tree_map(self._divide, estimate.direction, tree_scaled(manifold, 1 / weight, moment))
        return manifold.project(x, scaled), (moment, weight)

    def _divide(self, direction: Array, moment: Array) -> Array:
        return direction / (_linalg.namespace(moment).sqrt(moment) + self.epsilon)
