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
    their RADAM; on a single manifold it is the paper's variant, which adapts the step size only. `unbiased` divides v
    by 1 - βᵗ, the weight that its squares have so far (Kingma & Ba 2015): without it the first steps are 1/√(1-β) times
    as long as later ones.
    """

    beta: float
    epsilon: float
    maximum: bool = static(default=True)
    unbiased: bool = static(default=False)

    def init(self, manifold: Manifold, x: Point) -> tuple[Any, ...]:
        """(v, v̂) = (0, 0) for each factor; and the weight of v, where it is wanted."""
        zeros = manifold.each(lambda m, point: 0 * _squared_norm(m, point, point), x)
        return (zeros,) * (3 if self.unbiased else 2)

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """Divide each factor's direction by the root of its number."""
        squares = manifold.each(_squared_norm, x, estimate.gradient)
        moment = tree_map(lambda v, s: self.beta * v + (1 - self.beta) * s, memory[0], squares)
        weights = tree_map(lambda w: self.beta * w + (1 - self.beta), memory[2]) if self.unbiased else None
        mean = moment if weights is None else tree_map(lambda v, w: v / w, moment, weights)
        largest = tree_map(lambda a, b: _linalg.namespace(a).maximum(a, b), memory[1], mean)
        kept = (moment, largest) if weights is None else (moment, largest, weights)
        return manifold.each(self._divide, estimate.direction, largest if self.maximum else mean), kept

    def _divide(self, manifold: Manifold, direction: Array, moment: Array) -> Array:
        return direction / (_linalg.namespace(moment).sqrt(moment) + self.epsilon)


def _squared_norm(manifold: Manifold, x: Array, u: Array) -> Array:
    """⟨u, u⟩_x with as many axes as u, so that it scales u also where there are leading batch axes."""
    return as_factor(manifold.inner(x, u, u), manifold)
