"""The methods: estimator × scaling × step size, followed by one retraction. Each recipe is one expression.

A `Method` is a value whose numbers (η₀, ρ₀, β, ...) are data to the compiler; its parts can be recombined freely:
`Method(RecursiveMomentum(...), RASA(...), power(0.1, -1/3))` is RSRM with RASA's scaling, which nobody has tried.
"""

import math
import numbers
from typing import Any, NamedTuple

from retrax import _html, _linalg, schedules
from retrax._arguments import integer, one_of
from retrax._tree import pytree, scale, static
from retrax.estimators import (
    SVRG,
    AutomaticMomentum,
    Estimate,
    Momentum,
    OneGradientMomentum,
    Plain,
    RecursiveMomentum,
    StormPlus,
)
from retrax.estimators.base import zeros
from retrax.manifolds.base import Manifold, scaled
from retrax.scalings import RASA, AMSGrad, Coordinatewise, Identity, Normalised
from retrax.step_sizes import CubeRoot, DistanceOverGradients, Secant
from retrax.typing import Array, Oracle, Point, Step


class State(NamedTuple):
    """What a method carries from step to step, besides the point."""

    last: Step
    """The last direction d_t, before scaling, with the point x_t it belongs to and the step size η_t."""
    memory: Any
    """The estimator's."""
    scaling: Any
    """The scaling's."""
    step_size: Any
    """The step size's."""


@pytree
class Method:
    """x_{t+1} = R_{x_t}(-η_t scaling(d_t)), with d_t from the estimator.

    `restart_every`: a large batch every so many steps ("epoch": once per pass over the data; None: never again).
    `first_batch_size`: the default size of the batches that start and restart it ("all": the whole data; None: as
    the other batches).
    """

    estimator: Any
    scaling: Any
    step_size: Any
    name: str = static(default="custom")
    restart_every: int | str | None = static(default=None)
    first_batch_size: int | str | None = static(default=None)

    def __post_init__(self) -> None:
        if getattr(self.step_size, "needs_pairs", False) and getattr(self.estimator, "evaluations", 2) < 2:
            raise TypeError(
                f"{type(self.step_size).__name__} measures the smoothness from gradients at two points, but "
                f"{type(self.estimator).__name__} evaluates one; use RecursiveMomentum or SVRG, or give a step size"
            )

    @property
    def evaluations(self) -> int:
        """Points at which `step` evaluates a sample; `restart` needs one."""
        return self.estimator.evaluations

    @property
    def step_is_given(self) -> bool:
        """Whether x moves by a step size that somebody chose, along d itself."""
        return isinstance(self.step_size, schedules.Schedule) and isinstance(self.scaling, Identity)

    def init(self, manifold: Manifold, x: Point) -> State:
        """The state before the first step, which must be a `restart`. Calls no oracle."""
        return State(
            Step(x, scale(0, x), zeros(manifold, x)),
            self.estimator.init(manifold, x),
            self.scaling.init(manifold, x),
            self.step_size.init(manifold, x),
        )

    def restart(self, manifold: Manifold, oracle: Oracle, x: Point, state: State, t: Any) -> tuple[Point, State]:
        """Step t with a fresh estimate from a large batch."""
        estimate, memory = self.estimator.reset(manifold, oracle, x)
        return self._move(manifold, x, estimate, memory, state, t)

    def step(self, manifold: Manifold, oracle: Oracle, x: Point, state: State, t: Any) -> tuple[Point, State]:
        """Step t with a mini-batch."""
        estimate, memory = self.estimator.update(manifold, oracle, x, state.last, state.memory, t)
        return self._move(manifold, x, estimate, memory, state, t)

    def _move(
        self, manifold: Manifold, x: Point, estimate: Estimate, memory: Any, state: State, t: Any
    ) -> tuple[Point, State]:
        direction, scaling_memory = self.scaling.apply(manifold, x, estimate, state.scaling)
        size, step_memory = self.step_size.apply(manifold, x, direction, estimate, state.step_size, t)
        if estimate.moves is not None:
            size = _linalg.namespace(estimate.moves).where(estimate.moves, size, 0 * size)
        moved = manifold.retract(x, scaled(manifold, -size, direction))
        return moved, State(Step(x, estimate.direction, size), memory, scaling_memory, step_memory)

    def info(self, state: State, t: Any) -> dict[str, Any]:
        """What the last step, number t, used: columns of the history."""
        return {"step_size": state.last.size, **self.estimator.info(state.memory, t)}

    def _repr_html_(self) -> str:
        rows = {"estimator": self.estimator, "scaling": self.scaling, "step size": self.step_size}
        rows["SFO of a step"] = f"{self.evaluations} × batch size"
        if self.first_batch_size is not None:
            often = "once" if self.restart_every is None else f"every {self.restart_every}"
            rows["large batches"] = f"{self.first_batch_size}, {often}"
        picture = ""
        if isinstance(self.step_size, schedules.Schedule):
            steps = range(1, 1001, 9)
            picture = _html.curve(steps, [float(self.step_size(t)) for t in steps], "t", "step size")
        return _html.page(self.name, rows, picture)

    def average(self, state: State) -> None:
        """A plain method keeps no average; see `Averaged`."""
        return None


class AveragedState(NamedTuple):
    """A method's state, and the average of its iterates so far."""

    state: State
    mean: Point

    @property
    def last(self) -> Step:
        """The last step."""
        return self.state.last


class Around:
    """Something around a method, which it holds as `method`: a method itself, with the other's properties."""

    method: Any

    @property
    def estimator(self) -> Any:
        """The method's."""
        return self.method.estimator

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    @property
    def step_is_given(self) -> bool:
        """The method's."""
        return self.method.step_is_given

    @property
    def restart_every(self) -> int | str | None:
        """The method's."""
        return self.method.restart_every

    @property
    def first_batch_size(self) -> int | str | None:
        """The method's."""
        return self.method.first_batch_size


@pytree
class Averaged(Around):
    """A method that also keeps the Riemannian average of its iterates, weighted towards the end.

    x̄_1 = x_1, x̄_t = Exp_x̄(w_t Log_x̄(x_t)) with w_t = 3/(t+2): iterate number t has a weight that grows like t²
    (Tripuraneni, Flammarion, Bach & Jordan 2018; the weights are Shamir & Zhang's, 2013, polynomial-decay averaging).
    Where a manifold lacks `exp` or `log`, x̄ moves by R_x̄(w_t P_x̄(x_t - x̄)), the same to first order.
    """

    method: Method

    def init(self, manifold: Manifold, x: Point) -> AveragedState:
        """The method's state, and the start as the average."""
        return AveragedState(self.method.init(manifold, x), x)

    def restart(self, manifold: Manifold, oracle: Oracle, x: Point, state: AveragedState, t: Any) -> Any:
        """The method's restart."""
        return self._averaged(manifold, *self.method.restart(manifold, oracle, x, state.state, t), state.mean, t)

    def step(self, manifold: Manifold, oracle: Oracle, x: Point, state: AveragedState, t: Any) -> Any:
        """The method's step."""
        return self._averaged(manifold, *self.method.step(manifold, oracle, x, state.state, t), state.mean, t)

    def _averaged(self, manifold: Manifold, x: Point, state: State, mean: Point, t: Any) -> tuple[Point, AveragedState]:
        return x, AveragedState(state, manifold.each(_towards, mean, x, manifold.each(lambda m: 3 / (t + 2))))

    def info(self, state: AveragedState, t: Any) -> dict[str, Any]:
        """The method's."""
        return self.method.info(state.state, t)

    def average(self, state: AveragedState) -> Point:
        """The average of the iterates."""
        return state.mean


def _towards(manifold: Any, mean: Array, x: Array, weight: Any) -> Array:
    """The point a fraction `weight` of the way from `mean` to x."""
    if hasattr(manifold, "exp") and hasattr(manifold, "log"):
        return manifold.exp(mean, weight * manifold.log(mean, x))
    return manifold.retract(mean, weight * manifold.project(mean, x - mean))


def rsgd(learning_rate: Any) -> Method:
    """Riemannian SGD: x_{t+1} = R(-η_t grad f_S(x_t)), η_t = η₀ t^(-1/2). Bonnabel (2013).

    Choose it as the baseline. Cost: b SFO a step.
    """
    return Method(Plain(), Identity(), schedules.step_size(learning_rate, -1 / 2), "RSGD")


def csgd_m(learning_rate: Any, momentum: Any = 0.999) -> Method:
    """Constrained SGD with momentum: d_t = β T d_{t-1} + (1-β) grad f_S(x_t). Kumar Roy, Mhammedi & Harandi (2018).

    β = 0.999 is what the paper prints; 0.9 is the usual choice and often better. Cost: b SFO a step.
    """
    return Method(
        Momentum(schedules.momentum(momentum, "momentum")),
        Identity(),
        schedules.step_size(learning_rate, -1 / 2),
        "cSGD-M",
    )


def crmsprop(learning_rate: Any, beta: float = 0.9, epsilon: float = 1e-8) -> Method:
    """Constrained RMSProp, the paper's variant: entrywise scaling in the ambient space, then projection.

    Kumar Roy, Mhammedi & Harandi (2018), modified as in the paper's experiments section. Cost: b SFO a step.
    """
    return Method(
        Plain(),
        Coordinatewise(*_adaptation(beta, epsilon)),
        schedules.step_size(learning_rate, -1 / 2),
        "cRMSProp",
    )


def ramsgrad(learning_rate: Any, momentum: Any = 0.999, beta: float = 0.9, epsilon: float = 1e-8) -> Method:
    """RAMSGRAD: momentum, divided by the root of the running maximum of the averaged ‖grad f_S‖².

    One number per factor of a product manifold, as in Bécigneul & Ganea (2019); on one manifold this is the paper's
    variant. β's as the paper prints them (the reverse of Adam's habit). Cost: b SFO a step.
    """
    return _adam_like(learning_rate, momentum, beta, epsilon, maximum=True, name="RAMSGRAD")


def radam(learning_rate: Any, momentum: Any = 0.9, beta: float = 0.999, epsilon: float = 1e-8) -> Method:
    """RADAM: as `ramsgrad`, with the averaged ‖grad f_S‖² itself instead of its running maximum.

    Bécigneul & Ganea (2019), in its original form: one number per factor of a product. Cost: b SFO a step.
    """
    return _adam_like(learning_rate, momentum, beta, epsilon, maximum=False, name="RADAM")


def _adam_like(learning_rate: Any, momentum: Any, beta: float, epsilon: float, *, maximum: bool, name: str) -> Method:
    return Method(
        Momentum(schedules.momentum(momentum, "momentum")),
        AMSGrad(*_adaptation(beta, epsilon), maximum=maximum),
        schedules.step_size(learning_rate, -1 / 2),
        name,
    )


def rasa(learning_rate: Any, sides: str = "LR", beta: float = 0.9, epsilon: float = 1e-8) -> Method:
    """RASA: adapts the row ("L") and column ("R") subspaces. Kasai, Jawanpuria & Mishra (2019).

    For matrix manifolds whose rows or columns differ much in scale. Cost: b SFO a step.
    """
    one_of(sides, "sides", "L", "R", "LR")
    return Method(
        Plain(),
        RASA(*_adaptation(beta, epsilon), sides=sides),
        schedules.step_size(learning_rate, -1 / 2),
        f"RASA-{sides}",
    )


def rsrm(learning_rate: Any = None, rho: Any = None, *, scaling: Any = None) -> Method:
    """RSRM, Riemannian stochastic recursive momentum (Han & Gao 2021), with nothing to tune or as the paper has it.

    d_t = grad f_S(x_t) + (1 - ρ_t) T(d_{t-1} - grad f_S(x_{t-1})), x_{t+1} = R(-η_t d_t).
    `rsrm()` finds η_t (`step_sizes.Secant`) and ρ_t (`estimators.AutomaticMomentum`) from the gradients it evaluates
    anyway. `rsrm(0.1)` is Algorithm 1 with the paper's schedules, η_t = η₀ t^(-1/3) and ρ_t = ρ₀ t^(-2/3), ρ₀ = 0.1;
    `rsrm(0.1, rho="auto")` and `rsrm(rho=0.1)` leave one of the two to the method.
    Variance reduction without restarts: the first choice where samples are many or arrive in a stream.
    Cost: 2b SFO a step, and one first batch (100 by default). See `schedules.rsrm_theory` for Theorem 1's constants.
    """
    if rho is None:
        rho = "auto" if learning_rate is None else 0.1
    automatic = isinstance(rho, str) and rho == "auto"
    return Method(
        AutomaticMomentum() if automatic else RecursiveMomentum(schedules.momentum(rho, "rho", -2 / 3)),
        Identity() if scaling is None else scaling,
        Secant() if learning_rate is None else schedules.step_size(learning_rate, -1 / 3),
        "RSRM (untuned)" if learning_rate is None and automatic else "RSRM",
        first_batch_size=100,
    )


def mars(learning_rate: Any, rho: Any = 0.05, gamma: float = 0.025, *, scaling: Any = None) -> Method:
    """MARS on manifolds: RSRM's recursion from one gradient a step, d_t = T d + ρ(g_t - T d) + γ(1-ρ)(g_t - T g_{t-1}).

    g_{t-1} is the gradient of the step before, on its own batch. Yuan, Liu, Wu, Zhou & Gu (2024), the approximate form.
    Momentum that looks a little ahead: choose it where a second gradient of a sample buys less than a fresh sample, as
    in networks. η_t = η₀ t^(-1/2). Cost: b SFO a step.
    """
    if not schedules.is_number(gamma):
        raise TypeError(f"gamma must be a number, not {type(gamma).__name__}: {gamma!r}")
    return Method(
        OneGradientMomentum(schedules.momentum(rho, "rho"), gamma),
        Identity() if scaling is None else scaling,
        schedules.step_size(learning_rate, -1 / 2),
        "MARS",
    )


def rsvrg(learning_rate: Any, restart_every: int | str = "epoch") -> Method:
    """RSVRG: d_t = grad f_S(x_t) - T(grad f_S(x̄) - ḡ) with an anchor x̄ renewed every `restart_every` steps.

    Zhang, Reddi & Sra (2016); Sato, Kasai & Mishra (2019). For finite sums that can be passed over many times.
    Constant step size. Cost: 2b SFO a step, and a large batch (by default all the data) at each restart.
    """
    return _restarting(SVRG(), Identity(), learning_rate, restart_every, "RSVRG")


def rsrg(learning_rate: Any, restart_every: int | str = "epoch") -> Method:
    """RSRG: the recursive estimator (ρ ≡ 0), started anew from a large batch every `restart_every` steps.

    Kasai, Sato & Mishra (2018). Constant step size. Cost: 2b SFO a step, and a large batch at each restart.
    """
    return _restarting(RecursiveMomentum(schedules.constant(0.0)), Identity(), learning_rate, restart_every, "RSRG")


def rspider(learning_rate: Any, restart_every: int | str = "epoch") -> Method:
    """RSPIDER: RSRG with steps of fixed length, x_{t+1} = R(-η d_t / ‖d_t‖).

    Zhou, Yuan & Feng (2019); Zhang, Zhang & Sra (2018). Cost: 2b SFO a step, and a large batch at each restart.
    """
    return _restarting(
        RecursiveMomentum(schedules.constant(0.0)), Normalised(), learning_rate, restart_every, "RSPIDER"
    )


def _restarting(estimator: Any, scaling: Any, learning_rate: Any, restart_every: int | str, name: str) -> Method:
    if not (isinstance(restart_every, str) and restart_every == "epoch"):
        restart_every = integer(restart_every, "restart_every, unless it is 'epoch',", least=1)
    return Method(
        estimator,
        scaling,
        schedules.step_size(learning_rate, 0.0),
        name,
        restart_every=restart_every,
        first_batch_size="all",
    )


def rdog(initial_distance: float = 1e-6, curvature: float = 0.0) -> Method:
    """RDoG, Riemannian distance over gradients: RSGD with η_t = r̄_t / √(ζ(r̄_t) Σ_{s≤t} ‖grad f_S(x_s)‖²).

    r̄_t is the largest distance from the start so far, at least `initial_distance`; `curvature` is a lower bound of the
    sectional curvature, and ζ corrects for it (see `step_sizes.DistanceOverGradients`). Dodd, Sharrock & Nemeth (2024),
    Algorithm 1. Choose it where no step size is known and samples are cheap; `average=True` of `minimize` gives the
    averaged iterate that its theory is about. Cost: b SFO a step, and one distance.
    """
    return Method(Plain(), Identity(), _distance(initial_distance, curvature), "RDoG")


def rdowg(initial_distance: float = 1e-6, curvature: float = 0.0) -> Method:
    """RDoWG, distance over weighted gradients: η_t = w_t / √(Σ_{s≤t} w_s ‖grad f_S(x_s)‖²) with w_t = r̄_t²/ζ(r̄_t).

    As `rdog`, but forgets the gradients from before the run got anywhere: its steps are larger, up to the edge of
    stability. Dodd, Sharrock & Nemeth (2024), Algorithm 3. Cost: b SFO a step, and one distance.
    """
    return Method(Plain(), Identity(), _distance(initial_distance, curvature, weighted=True), "RDoWG")


def nrdog(initial_distance: float = 1e-6, curvature: float = 0.0) -> Method:
    """NRDoG, normalised RDoG: x_{t+1} = R(-η_t g_t/‖g_t‖), η_t = r̄_t / √(ζ(r̄_t) t): RDoG on unit gradients.

    The scale of the loss does not matter at all. Dodd, Sharrock & Nemeth (2024), Algorithm 2. Cost: b SFO a step, and
    one distance.
    """
    return Method(Plain(), Normalised(), _distance(initial_distance, curvature), "NRDoG")


def _distance(initial_distance: Any, curvature: Any, *, weighted: bool = False) -> DistanceOverGradients:
    for value, name in ((initial_distance, "initial_distance"), (curvature, "curvature")):
        if not schedules.is_number(value):
            raise TypeError(f"{name} must be a number, not {type(value).__name__}: {value!r}")
    if isinstance(initial_distance, numbers.Real) and not (
        math.isfinite(initial_distance) and float(initial_distance) > 0
    ):
        raise ValueError(f"initial_distance must be positive and finite, not {initial_distance!r}; try 1e-6")
    if _linalg.is_traced(curvature):
        raise TypeError("curvature is part of the program, not data: give it as a Python number")
    if not math.isfinite(curvature):
        raise ValueError(f"curvature must be a finite lower bound of the sectional curvature, not {curvature!r}")
    return DistanceOverGradients(initial_distance, float(curvature), weighted)


def storm_plus() -> Method:
    """STORM+ with transports: recursive momentum that sets its weight a_t and its step size by itself.

    d_t = grad f_S(x_t) + (1 - a_t) T(d_{t-1} - grad f_S(x_{t-1})), a_t = (1 + Σ_{i<t} ‖g_i‖²)^(-2/3) with the
    mini-batch gradients g_i, η_t = (Σ_{i≤t} ‖d_i‖²/a_{i+1})^(-1/3). Levy, Kavis & Cevher (2021), Algorithm 1, there in
    Euclidean space.
    Nothing to choose, but the scale of the loss matters: bring gradients to order one. Cost: 2b SFO a step.
    """
    return Method(StormPlus(), Identity(), CubeRoot(), "STORM+")


def _adaptation(beta: float, epsilon: float) -> tuple[float, float]:
    for value, name in ((beta, "beta"), (epsilon, "epsilon")):
        if not schedules.is_number(value):
            raise TypeError(f"{name} must be a number, not {type(value).__name__}: {value!r}")
    if isinstance(beta, numbers.Real) and not 0 <= beta < 1:
        raise ValueError(f"beta must lie in [0, 1), not {beta!r}")
    if isinstance(epsilon, numbers.Real) and not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be positive, not {epsilon!r}")
    return beta, epsilon
