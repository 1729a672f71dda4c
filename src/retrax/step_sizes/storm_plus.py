"""STORM+'s step size: the cube root of what the directions have weighed so far."""

from typing import Any

from retrax import _linalg
from retrax._tree import pytree
from retrax.estimators.base import Estimate, zeros
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent


@pytree
class CubeRoot:
    """η_t = (Σ_{i≤t} ‖d_i‖² / a_{i+1})^(-1/3), where a_{i+1} is the weight that the estimator gives the next gradient.

    Levy, Kavis & Cevher (2021), Algorithm 1 (STORM+); d_i is the scaled direction. It remembers the sum.
    """

    def init(self, manifold: Manifold, x: Point) -> Array:
        """Nothing seen."""
        return zeros(manifold, x)

    def apply(
        self, manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, memory: Array, t: Any
    ) -> tuple[Array, Array]:
        """η_t, with step t's direction in the sum."""
        if estimate.next_weight is None:
            raise TypeError(
                "CubeRoot needs an estimator that says how it will weigh the next gradient; use it with StormPlus"
            )
        weighed = memory + manifold.inner(x, direction, direction) / estimate.next_weight
        return _linalg.positive(weighed) ** (-1 / 3), weighed
