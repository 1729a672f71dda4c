"""Adam's and AMSGrad's scaling with squared norms: one number per factor of a product, or one for all."""

from typing import Any

from retrax import _linalg
from retrax._tree import pytree, static, tree_map
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold, as_factor
from retrax.typing import Array, Point, Tangent


@pytree
class AMSGrad:
    """v ← βv + (1-β)‖g‖², v̂ ← max(v̂, v), then d / (√v̂ + ε).

    One number per factor of a product manifold is RAMSGRAD as in Bécigneul & Ganea (2019), and `maximum=False`
    their RADAM; on a single manifold it is the paper's variant, which adapts the step size only.
    """

    beta: float
    epsilon: float
    maximum: bool = static(default=True)

    def init(self, manifold: Manifold, x: Point) -> tuple[Any, Any]:
        """(v, v̂) = (0, 0) for each factor."""
        zeros = manifold.each(lambda m, point: 0 * _squared_norm(m, point, point), x)
        return zeros, zeros

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """Divide each factor's direction by the root of its number."""
        squares = manifold.each(_squared_norm, x, estimate.gradient)
        moment = tree_map(lambda v, s: self.beta * v + (1 - self.beta) * s, memory[0], squares)
        largest = tree_map(lambda a, b: _linalg.namespace(a).maximum(a, b), memory[1], moment)
        used = largest if self.maximum else moment
        return manifold.each(self._divide, estimate.direction, used), (moment, largest)

    def _divide(self, manifold: Manifold, direction: Array, moment: Array) -> Array:
        return direction / (_linalg.namespace(moment).sqrt(moment) + self.epsilon)


def _squared_norm(manifold: Manifold, x: Array, u: Array) -> Array:
    """⟨u, u⟩_x with as many axes as u, so that it scales u also where there are leading batch axes."""
    return as_factor(manifold.inner(x, u, u), manifold)
