"""The step size c / L̂, where L̂ is the smoothness of mini-batches: pairs of gradients on one batch measure it."""

import math
from typing import Any, ClassVar, NamedTuple

from retrax import _linalg
from retrax._tree import pytree, subtract, tree_map
from retrax.estimators.base import Estimate, Squares, zeros
from retrax.manifolds.base import Manifold
from retrax.typing import Anchored, Array, Point, Tangent

_ROUNDINGS = 32
"""A difference of gradients counts from so many rounding errors of a gradient on."""

USUAL_SAMPLES, MOST_BOLDNESS = 5, 5.0


class SecantMemory(NamedTuple):
    """What the secant step size carries."""

    smoothness: Array
    """L̂², the running mean of ‖Δ‖² / ‖step‖²; 0 before the first pair."""
    size: Array
    """η of the last step."""
    length: Array
    """‖step‖ = η ‖direction‖ of the last step."""
    pairs: Array
    """Pairs seen, as a floating number."""


@pytree
class Secant:
    """η_t = min(2 η_{t-1}, c / L̂_t), where L̂² is a running mean of ‖grad f_S(x) - T grad f_S(y)‖² / ‖x - y‖².

    Both gradients are on one batch, so L̂ is the smoothness *of mini-batches*, the number that Theorem 1 of the paper
    asks for. c is `safety` for batches of up to 5 samples and grows like √b from there, to five times that: the noise
    of the difference, which is what limits the step, falls like 1/√b where L̂ itself does not. The mean gives pair
    number k the weight max(`weight`, 2/(k+1)). The first step, for which there is no pair, has the length
    `first_length`.
    """

    safety: float = 0.1
    first_length: float = 1e-3
    weight: float = 0.01
    needs_pairs: ClassVar[bool] = True

    def init(self, manifold: Manifold, x: Point) -> SecantMemory:
        """No pair seen, no step taken."""
        return SecantMemory(*(zeros(manifold, x),) * 4)

    def apply(
        self, manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, memory: SecantMemory, t: Any
    ) -> tuple[Array, SecantMemory]:
        """c / L̂, at most twice the last step size."""
        xp = _linalg.namespace(memory.size)
        if estimate.elsewhere is None:
            norm, smoothness, pairs = manifold.norm(x, direction), memory.smoothness, memory.pairs
        else:
            norm, smoothness, pairs = self._measured(manifold, x, direction, estimate, memory)
        first = self.first_length / _linalg.positive(norm)
        bound = self.safety * _boldness(estimate.samples) / _linalg.positive(xp.sqrt(smoothness))
        grown = xp.where(2 * memory.size < bound, 2 * memory.size, bound)
        size = xp.where(pairs > 0, xp.where(memory.length > 0, grown, memory.size), first)
        length = size * norm
        if estimate.moves is not None:  # a point at rest has no secant
            length = xp.where(estimate.moves, length, 0 * length)
        return size, SecantMemory(smoothness, size, length, pairs)

    def _measured(
        self, manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, memory: SecantMemory
    ) -> tuple[Array, Array, Array]:
        """‖direction‖, and L̂² and the number of pairs with the pair at hand."""
        xp = _linalg.namespace(memory.size)
        back: Anchored = estimate.elsewhere  # type: ignore[assignment]
        squared, gradient, norm = _squares(manifold, x, direction, estimate, back)
        length = memory.length if estimate.one_step_back else chord(manifold, x, back.point)
        found = squared / _linalg.positive(length) ** 2
        # A difference at the resolution of the numbers tells nothing.
        resolution = _ROUNDINGS * _linalg.epsilon(squared)
        seen = (length > 0) & (squared > resolution**2 * gradient)
        pairs = memory.pairs + xp.where(seen, 1 + 0 * found, 0 * found)
        weight = _linalg.at_least(2 / (pairs + 1), self.weight)
        smoothness = xp.where(seen, memory.smoothness + weight * (found - memory.smoothness), memory.smoothness)
        return _linalg.safe_sqrt(norm), smoothness, pairs


def _boldness(samples: int) -> float:
    """By how much longer steps may be with pairs of so many samples than with pairs of `USUAL_SAMPLES`."""
    return min(MOST_BOLDNESS, math.sqrt(max(1.0, samples / USUAL_SAMPLES)))


def _squares(manifold: Manifold, x: Point, direction: Tangent, estimate: Estimate, back: Anchored) -> Squares:
    """‖Δ‖², ‖gradient‖² and ‖direction‖²: the estimator's own, or measured."""
    if estimate.squares is not None:
        scaled = direction is not estimate.direction
        return (
            estimate.squares._replace(direction=manifold.inner(x, direction, direction)) if scaled else estimate.squares
        )
    difference = subtract(estimate.gradient, manifold.transport(back.point, x, back.vector))
    products = manifold.gram(x, (difference, estimate.gradient, direction))
    return Squares(*(products[..., i, i] for i in range(3)))


def chord(manifold: Manifold, x: Point, y: Point) -> Array:
    """The length of the step from y to x to first order, for any manifold: ‖P_x(x - y)‖."""
    return manifold.norm(x, tree_map(_linalg.formed, manifold.project(x, subtract(x, y))))
