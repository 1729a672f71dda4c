"""STORM+'s estimator: recursive momentum whose weight comes from the gradients seen so far."""

from typing import Any, ClassVar, NamedTuple

from retrax._tree import pytree, subtract
from retrax.estimators.base import Estimate, EvaluatesAll, zeros
from retrax.manifolds.base import Manifold, plus
from retrax.typing import Anchored, Array, Oracle, Point, Step


class StormPlusMemory(NamedTuple):
    """What the estimator carries."""

    squares: Array
    """Σ ‖g_i‖² over the mini-batch gradients so far."""
    rho: Array
    """The weight of the last step."""


@pytree
class StormPlus(EvaluatesAll):
    """d_t = g_t + (1 - a_t) T(d_{t-1} - grad f_S(x_{t-1})), a_t = (1 + Σ_{i<t} ‖g_i‖²)^(-2/3), g_t = grad f_S(x_t).

    Levy, Kavis & Cevher (2021), Algorithm 1, with a transport. a_t is known before the batch S of step t is drawn. The
    1 in it has the unit of a squared gradient: the method sees the scale of the loss.
    """

    evaluations: ClassVar[int] = 2

    def init(self, manifold: Manifold, x: Point) -> StormPlusMemory:
        """No gradient seen."""
        nothing = zeros(manifold, x)
        return StormPlusMemory(nothing, nothing)

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, StormPlusMemory]:
        """d = grad f_S(x), which is a weight of 1."""
        gradient = oracle(x)
        squares = manifold.inner(x, gradient, gradient)
        return Estimate(gradient, gradient, next_weight=_weight(squares)), StormPlusMemory(squares, 1 + 0 * squares)

    def second_point(self, last: Step, memory: StormPlusMemory) -> Point:
        """x_{t-1}."""
        return last.point

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: StormPlusMemory, t: Any
    ) -> tuple[Estimate, StormPlusMemory]:
        """The recursion with the weight that the gradients before this one give."""
        gradient, previous_gradient = oracle.pair(x, last.point)
        rho, squares = _weight(memory.squares), memory.squares + manifold.inner(x, gradient, gradient)
        carried = manifold.transport(last.point, x, subtract(last.vector, previous_gradient))
        direction = plus(manifold, gradient, 1 - rho, carried)
        elsewhere = Anchored(last.point, previous_gradient)
        estimate = Estimate(
            direction, gradient, elsewhere, oracle.size, one_step_back=True, next_weight=_weight(squares)
        )
        return estimate, StormPlusMemory(squares, rho)

    def info(self, memory: StormPlusMemory, t: Any) -> dict[str, Array]:
        """a_t."""
        return {"rho": memory.rho}


def _weight(squares: Array) -> Array:
    """a_{t+1} = (1 + Σ_{i≤t} ‖g_i‖²)^(-2/3)."""
    return (1 + squares) ** (-2 / 3)
