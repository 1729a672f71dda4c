"""RASA's scaling of the row and column subspaces of a matrix manifold (Kasai, Jawanpuria & Mishra 2019)."""

from typing import Any

from retrax import _linalg
from retrax._tree import pytree, static
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent


@pytree
class RASA:
    """Row moments l ← βl + (1-β) diag(ggᵀ)/r and column moments c ← βc + (1-β) diag(gᵀg)/d, each with its running
    maximum l̂, ĉ; then P_x(l̂^(-1/2) d) for sides "L", P_x(d ĉ^(-1/2)) for "R", P_x(l̂^(-1/4) d ĉ^(-1/4)) for "LR".

    The maximum is taken of the moments, not of their roots; ε is added to them before the power.
    """

    beta: float
    epsilon: float
    sides: str = static(default="LR")

    @property
    def _axes(self) -> tuple[int, ...]:
        """The axis that each side's mean of squares runs along."""
        return tuple({"L": -1, "R": -2}[side] for side in self.sides)

    def init(self, manifold: Manifold, x: Point) -> Any:
        """(moment, maximum) = (0, 0) for each side of each factor."""
        return manifold.each(self._init_factor, x)

    def _init_factor(self, manifold: Manifold, x: Array) -> Any:
        if len(manifold.ambient_shape) != 2:
            raise ValueError(
                f"RASA scales rows and columns, so it needs matrices; {manifold} has points of shape "
                f"{manifold.ambient_shape}; use crmsprop or ramsgrad there"
            )
        mean = _linalg.namespace(x).mean
        return tuple((0 * mean(x, axis=axis, keepdims=True),) * 2 for axis in self._axes)

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """Scale, then project back to the tangent space."""
        new_memory = manifold.each(self._moments, estimate.gradient, memory)
        scaled = manifold.each(self._scale, estimate.direction, new_memory)
        return manifold.project(x, scaled), new_memory

    def _moments(self, manifold: Manifold, gradient: Array, memory: Any) -> Any:
        xp = _linalg.namespace(gradient)
        moments = []
        for axis, (moment, largest) in zip(self._axes, memory, strict=True):
            new = self.beta * moment + (1 - self.beta) * xp.mean(gradient * gradient, axis=axis, keepdims=True)
            moments.append((new, xp.maximum(largest, new)))
        return tuple(moments)

    def _scale(self, manifold: Manifold, direction: Array, memory: Any) -> Array:
        power = -1 / (2 * len(memory))
        for _, largest in memory:
            direction = direction * (largest + self.epsilon) ** power
        return direction
