"""Variance reduction by a fixed anchor."""

from typing import ClassVar

from retrax._tree import pytree, scale, subtract
from retrax.estimators.base import Estimate, EvaluatesAll
from retrax.manifolds.base import Manifold
from retrax.typing import Anchored, Oracle, Point, Step


@pytree
class SVRG(EvaluatesAll):
    """d_t = grad f_S(x_t) - T(grad f_S(x̄) - ḡ): x̄ the anchor, ḡ its large-batch gradient (Zhang et al. 2016)."""

    evaluations: ClassVar[int] = 2
    keeps_last: ClassVar[bool] = False

    def init(self, manifold: Manifold, x: Point) -> Anchored:
        """An anchor at x with a zero gradient, to be replaced by the first `reset`."""
        return Anchored(x, scale(0, x))

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, Anchored]:
        """Make x the anchor."""
        gradient = oracle(x)
        return Estimate(gradient, gradient), Anchored(x, gradient)

    def second_point(self, last: Step, memory: Anchored) -> Point:
        """The anchor x̄."""
        return memory.point

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: Anchored, t: float
    ) -> tuple[Estimate, Anchored]:
        """Correct the mini-batch gradient by its error at the anchor."""
        gradient, at_anchor = oracle.pair(x, memory.point)
        correction = manifold.transport(memory.point, x, subtract(at_anchor, memory.vector))
        elsewhere = Anchored(memory.point, at_anchor)
        return Estimate(subtract(gradient, correction), gradient, elsewhere, oracle.size), memory
