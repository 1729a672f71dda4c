"""The recursive momentum estimator, RSRM's heart; with ρ ≡ 0 it is the estimator of RSRG and RSPIDER."""

from typing import Any, ClassVar

from retrax._tree import pytree, subtract
from retrax.estimators.base import Estimate, Memoryless
from retrax.manifolds.base import Manifold, plus
from retrax.schedules import Schedule
from retrax.typing import Anchored, Array, Oracle, Point, Step


@pytree
class RecursiveMomentum(Memoryless):
    """d_t = grad f_S(x_t) + (1 - ρ_t) T(d_{t-1} - grad f_S(x_{t-1})): both gradients on the same batch S.

    ρ = 1 is the plain gradient, ρ = 0 the recursive one (the paper's text after eq. (5) has it reversed).
    """

    rho: Schedule
    evaluations: ClassVar[int] = 2

    def second_point(self, last: Step, memory: tuple[()]) -> Point:
        """x_{t-1}."""
        return last.point

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: tuple[()], t: float
    ) -> tuple[Estimate, tuple[()]]:
        """Line 5 of Algorithm 1."""
        gradient, previous_gradient = oracle.pair(x, last.point)
        correction = manifold.transport(last.point, x, subtract(last.vector, previous_gradient))
        direction = plus(manifold, gradient, 1 - self.rho(t), correction)
        elsewhere = Anchored(last.point, previous_gradient)
        return Estimate(direction, gradient, elsewhere, oracle.size, one_step_back=True), ()

    def info(self, memory: tuple[()], t: Any) -> dict[str, Array]:
        """ρ_t."""
        return {"rho": self.rho(t)}
