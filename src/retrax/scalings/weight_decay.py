"""Decoupled weight decay: a pull towards small points beside whatever scaling the direction has."""

from typing import Any

from retrax._tree import add, pytree, scale
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold
from retrax.typing import Point, Tangent


@pytree
class WeightDecay:
    """scaling(d) + λ grad(‖x‖²/2): the decay is not scaled with the gradients (Loshchilov & Hutter 2019, AdamW).

    In Euclidean space a step then shrinks x by η λ x. On a manifold the pull is the Riemannian gradient of ‖x‖²/2:
    towards the origin in hyperbolic space, towards small matrices in SPD, and nothing at all on spheres, Stiefel and
    Grassmann manifolds, whose points all have the same norm.
    """

    scaling: Any
    rate: float

    def init(self, manifold: Manifold, x: Point) -> Any:
        """The scaling's."""
        return self.scaling.init(manifold, x)

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """The scaling's direction, and the pull."""
        direction, memory = self.scaling.apply(manifold, x, estimate, memory)
        return add(direction, scale(self.rate, manifold.gradient(x, x))), memory
