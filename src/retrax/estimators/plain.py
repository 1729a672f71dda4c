"""The mini-batch gradient itself."""

from typing import ClassVar

from retrax._tree import pytree
from retrax.estimators.base import Estimate, Memoryless
from retrax.manifolds.base import Manifold
from retrax.typing import Oracle, Point, Step


@pytree
class Plain(Memoryless):
    """d_t = grad f_S(x_t)."""

    evaluations: ClassVar[int] = 1
    keeps_last: ClassVar[bool] = False

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: tuple[()], t: float
    ) -> tuple[Estimate, tuple[()]]:
        """d_t = grad f_S(x_t)."""
        return self.reset(manifold, oracle, x)
