"""Distance over gradients: step sizes from how far a run has come, which ask for no learning rate."""

from typing import Any, NamedTuple

import jax

from retrax import _linalg
from retrax._tree import pytree, scale, static
from retrax.estimators.base import Estimate, zeros
from retrax.manifolds.base import Manifold
from retrax.step_sizes.secant import chord
from retrax.typing import Array, Point, Tangent


class DistanceMemory(NamedTuple):
    """What a distance-over-gradients step size carries."""

    start: Point
    """x_1."""
    farthest: Array
    """r̄_t, the largest distance from the start so far, at least the initial one."""
    squares: Array
    """G_t, the (weighted) sum of the squared lengths of the directions."""


@pytree
class DistanceOverGradients:
    """η_t = r̄_t / √(ζ(r̄_t) G_t): r̄_t = max(ε, max_{s≤t} dist(x_s, x_1)), G_t = Σ_{s≤t} ‖d_s‖² (RDoG).

    With `weighted`, G_t = Σ_{s≤t} (r̄_s²/ζ(r̄_s)) ‖d_s‖² and η_t = r̄_t² / (ζ(r̄_t) √G_t) (RDoWG). d_s is the scaled
    direction, so that beside `Normalised` G_t = t (NRDoG). Dodd, Sharrock & Nemeth (2024), Algorithms 1 to 3.

    `initial_distance` is ε. `curvature` is a lower bound κ of the sectional curvature: ζ(r) = √|κ| r / tanh(√|κ| r)
    for κ < 0, and 1 otherwise. It belongs to the manifold: 0 is right for Euclidean space, spheres and Grassmann
    manifolds; -1/2 for SPD(d), where the curvature of the plane of orthonormal u, v at the identity is -‖uv - vu‖²/4,
    ‖uv - vu‖² ≤ 2 (Böttcher & Wenzel 2008), and for Stiefel(d, r), where it is ‖uvᵀ‖² - ‖sym(uᵀv)‖² (Gauss's equation)
    and ‖sym(uᵀv)‖² ≤ (1 + ‖uvᵀ‖²)/2.

    Distances are the manifold's own; where it has none (Stiefel), ‖P_x(x - x_1)‖, the same to first order. On a
    product they add up as squares do.
    """

    initial_distance: float = 1e-6
    curvature: float = static(default=0.0)
    weighted: bool = static(default=False)

    def init(self, manifold: Manifold, x: Point) -> DistanceMemory:
        """The start, as a copy: PyTorch writes into its parameters."""
        nothing = zeros(manifold, x)
        return DistanceMemory(scale(1, x), nothing + self.initial_distance, nothing)

    def apply(
        self, manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, memory: DistanceMemory, t: Any
    ) -> tuple[Array, DistanceMemory]:
        """η_t, from the distance of x_t and the direction taken there."""
        xp = _linalg.namespace(memory.farthest)
        reached = distance(manifold, x, memory.start)
        farthest = xp.where(reached > memory.farthest, reached, memory.farthest)
        squared = manifold.inner(x, direction, direction)
        if self.weighted:
            weight = self._squared_over_zeta(farthest)
            squared = weight * squared
        elif self.curvature < 0:
            weight = xp.sqrt(self._squared_over_zeta(farthest))
        else:
            weight = farthest
        squares = memory.squares + squared
        return weight / xp.sqrt(_linalg.positive(squares)), DistanceMemory(memory.start, farthest, squares)

    def _squared_over_zeta(self, r: Array) -> Array:
        """r² / ζ(r)."""
        if self.curvature >= 0:
            return r * r
        root = abs(self.curvature) ** 0.5
        return r * _linalg.namespace(r).tanh(root * r) / root


def distance(manifold: Manifold, x: Point, y: Point) -> Array:
    """The distance from x to y: of each factor its own, or the chord's length where it has none."""
    parts = jax.tree.leaves(manifold.each(_own_distance, x, y))
    return parts[0] if len(parts) == 1 else _linalg.safe_sqrt(sum(part * part for part in parts))


def _own_distance(manifold: Any, x: Array, y: Array) -> Array:
    return manifold.distance(x, y) if hasattr(manifold, "distance") else chord(manifold, x, y)
