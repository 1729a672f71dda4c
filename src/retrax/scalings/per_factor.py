"""On a product: steps in each factor according to that factor's own smoothness."""

from typing import Any, NamedTuple

from retrax import _linalg
from retrax._tree import pytree, subtract
from retrax.estimators.base import Estimate
from retrax.manifolds.base import Manifold, scaled
from retrax.manifolds.product import Product
from retrax.typing import Array, Point, Tangent


class FactorMemory(NamedTuple):
    """What is known of each factor, in the order of the product's leaves."""

    smoothness: tuple[Array, ...]
    """L̂_k², up to one number for all k."""
    lengths: tuple[Array, ...]
    """‖v_k‖² of the last step; 0 where the point stayed."""
    pairs: Array
    """Pairs of gradients seen, as a floating number."""


@pytree
class PerFactor:
    """v_k = (L̂ / L̂_k) d_k in each factor k, with L̂_k the smoothness of mini-batches along that factor.

    L̂_k² is a running mean of ‖Δ_k‖² / ‖v_k‖², where Δ = grad f_S(x_t) - T grad f_S(x_{t-1}) on one batch and v is the
    last scaled direction: the step was η v, and η, being the same for all factors, cancels in L̂ / L̂_k, with L̂² the
    mean of the L̂_k². Without it the smoothest factor waits for the least smooth one. A manifold that is not a
    product, and an estimator without pairs, keep their direction.

    For factors that hardly depend on each other, with `rsrm(scaling=PerFactor())`. Where they do (the two sides of a
    factorisation), Δ_k comes from the other factors' movement as well, a factor that moves little seems less smooth
    than it is, and the run can fail.
    """

    weight: float = 0.01

    def init(self, manifold: Manifold, x: Point) -> Any:
        """Nothing known."""
        if not isinstance(manifold, Product):
            return ()
        nothing = _squares(manifold, x, subtract(x, x))
        return FactorMemory(nothing, nothing, nothing[0])

    def apply(self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any) -> tuple[Tangent, Any]:
        """The direction, factor by factor."""
        if not isinstance(manifold, Product):
            return estimate.direction, memory
        smoothness, pairs = self._measured(manifold, x, estimate, memory)
        mean = sum(smoothness) / len(smoothness)
        parts = zip(manifold.leaves, smoothness, manifold.split(estimate.direction), strict=True)
        direction = manifold.join([scaled(m, _share(mean, one), part) for m, one, part in parts])
        lengths = _squares(manifold, x, direction)
        if estimate.moves is not None:
            xp = _linalg.namespace(pairs)
            lengths = tuple(xp.where(estimate.moves, one, 0 * one) for one in lengths)
        return direction, FactorMemory(smoothness, lengths, pairs)

    def _measured(
        self, manifold: Product, x: Point, estimate: Estimate, memory: FactorMemory
    ) -> tuple[tuple[Array, ...], Array]:
        """L̂_k² with the pair at hand, and the number of pairs."""
        back = estimate.elsewhere
        if back is None or not estimate.one_step_back:
            return memory.smoothness, memory.pairs
        xp = _linalg.namespace(memory.pairs)
        difference = subtract(estimate.gradient, manifold.transport(back.point, x, back.vector))
        moved = sum(memory.lengths) > 0
        pairs = memory.pairs + xp.where(moved, 1 + 0 * memory.pairs, 0 * memory.pairs)
        weight = _linalg.at_least(2 / (pairs + 1), self.weight)

        def learned(known: Array, squared: Array, length: Array) -> Array:
            found = known + weight * (squared / _linalg.positive(length) - known)
            return xp.where(moved & (length > 0) & (squared > 0), found, known)

        squares = _squares(manifold, x, difference)
        return tuple(map(learned, memory.smoothness, squares, memory.lengths)), pairs


def _squares(manifold: Product, x: Point, u: Tangent) -> tuple[Array, ...]:
    """‖u_k‖² in each factor."""
    return tuple(manifold.split(manifold.each(lambda m, point, part: m.inner(point, part, part), x, u)))


def _share(mean: Array, squared: Array) -> Array:
    """L̂ / L̂_k; 1 for a factor of which nothing is known."""
    ratio = _linalg.safe_sqrt(mean / _linalg.positive(squared))
    return _linalg.namespace(mean).where(squared > 0, ratio, 1 + 0 * ratio)
