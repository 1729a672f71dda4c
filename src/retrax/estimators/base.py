"""What an estimator of grad F is: a way to turn mini-batches into directions."""

from typing import Any, ClassVar, NamedTuple, Protocol

from retrax._tree import scale
from retrax.manifolds.base import Manifold
from retrax.typing import Anchored, Array, Oracle, Point, Step, Tangent


class Squares(NamedTuple):
    """Squared norms that an estimator has found on its way, so that a step size need not measure them again."""

    difference: Array
    """‖grad f_S(x) - T grad f_S(y)‖², with y the point of `elsewhere`."""
    gradient: Array
    direction: Array


class Estimate(NamedTuple):
    """What was measured at a point, for scalings and step sizes to see; what is not read costs nothing."""

    direction: Tangent
    """d_t."""
    gradient: Tangent
    """The plain mini-batch gradient at the same point, of which scalings take moments."""
    elsewhere: Anchored | None = None
    """The second gradient of a pair, on the samples of `gradient`, with its base point; not transported."""
    samples: int = 1
    """Of which `gradient` and `elsewhere` are means."""
    one_step_back: bool = False
    """Whether `elsewhere` is the point that the last step was taken from."""
    moves: Array | None = None
    """Whether the direction is worth a step; where it is not, the point stays. None: always."""
    squares: Squares | None = None
    """Of the vectors above, where they were measured anyway."""
    next_weight: Array | None = None
    """ρ_{t+1}, where the estimator finds it from what it has seen up to now."""


class Estimator(Protocol):
    """Pure functions; `last` is the previous step, kept for every estimator.

    With two evaluations it also has `second_point(last, memory)`: the y of its `oracle.pair(x, y)`, for callers such
    as `retrax.torch` that must evaluate before they ask.
    """

    evaluations: ClassVar[int]
    """Points at which a sample is evaluated in `update`: 1 or 2."""
    keeps_last: ClassVar[bool]
    """Whether `update` or `second_point` looks at `last`; where not, callers need not keep it."""

    def draws(self, batch_size: int) -> int:
        """The samples that a step with this batch size is handed."""
        ...

    def cost(self, drawn: int) -> int:
        """The gradients (SFO) that `update` evaluates on so many samples."""
        ...

    def init(self, manifold: Manifold, x: Point) -> Any:
        """An empty memory, of the structure that `reset` and `update` return."""
        ...

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, Any]:
        """Start anew from a (usually large) batch."""
        ...

    def update(
        self, manifold: Manifold, oracle: Oracle, x: Point, last: Step, memory: Any, t: Any
    ) -> tuple[Estimate, Any]:
        """The direction at x from a mini-batch and what is remembered."""
        ...

    def info(self, memory: Any, t: Any) -> dict[str, Array]:
        """Figures of the last step that are worth a column in the history, such as its "rho"."""
        ...


def zeros(manifold: Manifold, x: Point) -> Array:
    """0, one for each leading batch index of x, in its dtype: for memories that hold numbers."""
    nothing = scale(0, x)
    return manifold.inner(x, nothing, nothing)


class EvaluatesAll:
    """Estimators that evaluate every sample of a batch at each of their points, and have nothing to show."""

    evaluations: ClassVar[int]
    keeps_last: ClassVar[bool] = True

    def draws(self, batch_size: int) -> int:
        """So many."""
        return batch_size

    def cost(self, drawn: int) -> int:
        """One for each sample and point."""
        return drawn * self.evaluations

    def info(self, memory: Any, t: Any) -> dict[str, Array]:
        """Nothing."""
        return {}


class Memoryless(EvaluatesAll):
    """Estimators that need no more than `last`."""

    def init(self, manifold: Manifold, x: Point) -> tuple[()]:
        """Nothing."""
        return ()

    def reset(self, manifold: Manifold, oracle: Oracle, x: Point) -> tuple[Estimate, tuple[()]]:
        """d = grad f_S(x)."""
        gradient = oracle(x)
        return Estimate(gradient, gradient), ()
