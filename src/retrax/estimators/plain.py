"""The mini-batch gradient itself."""

from typing import ClassVar

from retrax._tree import pytree
from retrax.estimators.base import Estimate, Memoryless
from retrax.manifolds.base import Manifold
from retrax.typing import Anchored, Oracle, Point


@pytree
class Plain(Memoryless):
    """d_t = grad f_S(x_t)."""

    evaluations: ClassVar[int] = 1

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Anchored, memory: tuple[()], t: float
    ) -> tuple[Estimate, tuple[()]]:
        """d_t = grad f_S(x_t)."""
        return self.reset(oracle, x)
