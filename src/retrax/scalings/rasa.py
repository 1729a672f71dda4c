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

    The maximum is taken of the moments, not of their roots; ε is added to them before the power. A vector is a matrix
    of one column: it has the row side only, with the power -1/2, for sides "L" and "LR" alike.
    """

    beta: float
    epsilon: float
    sides: str = static(default="LR")

    def _axes(self, manifold: Manifold) -> tuple[int | None, ...]:
        """The axis that each side's mean of squares runs along; None: the squares themselves, of a vector."""
        if len(manifold.ambient_shape) == 1:
            return (None,)
        return tuple({"L": -1, "R": -2}[side] for side in self.sides)

    def init(self, manifold: Manifold, x: Point) -> Any:
        """(moment, maximum) = (0, 0) for each side of each factor."""
        return manifold.each(self._init_factor, x)

    def _init_factor(self, manifold: Manifold, x: Array) -> Any:
        sizes = len(manifold.ambient_shape)
        if sizes not in (1, 2) or (sizes == 1 and self.sides == "R"):
            raise ValueError(
                f"RASA scales the rows and columns of matrices, or with sides='L' the entries of vectors; {manifold} "
                f"has points of shape {manifold.ambient_shape}, and sides is {self.sides!r}; use crmsprop there"
            )
        return tuple((0 * _mean(x, axis),) * 2 for axis in self._axes(manifold))

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """Scale, then project back to the tangent space."""
        new_memory = manifold.each(self._moments, estimate.gradient, memory)
        scaled = manifold.each(self._scale, estimate.direction, new_memory)
        return manifold.project(x, scaled), new_memory

    def _moments(self, manifold: Manifold, gradient: Array, memory: Any) -> Any:
        xp = _linalg.namespace(gradient)
        moments = []
        for axis, (moment, largest) in zip(self._axes(manifold), memory, strict=True):
            new = self.beta * moment + (1 - self.beta) * _mean(gradient * gradient, axis)
            moments.append((new, xp.maximum(largest, new)))
        return tuple(moments)

    def _scale(self, manifold: Manifold, direction: Array, memory: Any) -> Array:
        power = -1 / (2 * len(memory))
        for _, largest in memory:
            direction = direction * (largest + self.epsilon) ** power
        return direction


def _mean(values: Array, axis: int | None) -> Array:
    """Along an axis, which is kept; None: each value by itself."""
    return values if axis is None else _linalg.namespace(values).mean(values, axis=axis, keepdims=True)
