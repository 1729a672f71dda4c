"""Exponential averaging of transported gradients."""

from typing import ClassVar

from retrax._tree import pytree
from retrax.estimators.base import Estimate, Memoryless
from retrax.manifolds.base import Manifold, plus, scaled
from retrax.schedules import Schedule
from retrax.typing import Oracle, Point, Step


@pytree
class Momentum(Memoryless):
    """d_t = β_t T d_{t-1} + (1 - β_t) grad f_S(x_t), started at d_1 = grad f_S(x_1) (Kumar Roy et al. 2018)."""

    beta: Schedule
    evaluations: ClassVar[int] = 1

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: tuple[()], t: float
    ) -> tuple[Estimate, tuple[()]]:
        """Eq. (3) of the paper."""
        gradient = oracle(x)
        beta = self.beta(t)
        carried = manifold.transport(last.point, x, last.vector)
        direction = plus(manifold, scaled(manifold, beta, carried), 1 - beta, gradient)
        return Estimate(direction, gradient), ()
