"""Recursive momentum from one gradient a step: the second one is that of the step before."""

from typing import Any, ClassVar

from retrax._tree import pytree, scale
from retrax.estimators.base import Estimate, EvaluatesAll
from retrax.manifolds.base import Manifold, plus
from retrax.schedules import Schedule
from retrax.typing import Array, Oracle, Point, Step, Tangent


@pytree
class OneGradientMomentum(EvaluatesAll):
    """d_t = (1 - ρ) T d_{t-1} + ρ g_t + γ (1 - ρ)(g_t - T g_{t-1}), with g_t = grad f_{S_t}(x_t).

    RSRM's recursion has the difference of gradients on one batch, at two evaluations a sample. Here g_{t-1} is what
    the step before has evaluated, on its own batch, and the difference, noisier, has a weight γ: γ = 0 is momentum.
    Yuan, Liu, Wu, Zhou & Gu (2024), the approximate form of MARS with γ_t = γ, there in Euclidean space and clipped.
    """

    rho: Schedule
    gamma: float
    evaluations: ClassVar[int] = 1

    def init(self, manifold: Manifold, x: Point) -> Tangent:
        """No gradient seen. The memory is g_{t-1}, at the point of the last step."""
        return scale(0, x)

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, Tangent]:
        """d = grad f_S(x)."""
        gradient = oracle(x)
        return Estimate(gradient, gradient), gradient

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: Tangent, t: Any
    ) -> tuple[Estimate, Tangent]:
        """The recursion, with one transport for what comes from the last point."""
        gradient, rho = oracle(x), self.rho(t)
        carried = manifold.transport(last.point, x, plus(manifold, last.vector, -self.gamma, memory))
        direction = plus(manifold, scale(rho + self.gamma * (1 - rho), gradient), 1 - rho, carried)
        return Estimate(direction, gradient), gradient

    def info(self, memory: Tangent, t: Any) -> dict[str, Array]:
        """ρ_t."""
        return {"rho": self.rho(t)}
