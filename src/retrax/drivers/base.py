"""What a driver is, and what a driver of any kind needs: a run's figures, and means over what a feed hands over."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from retrax._tree import subtract
from retrax.methods import State
from retrax.problems.base import Objective
from retrax.sources import Payload
from retrax.typing import Array, Point

Figures = dict[str, Any]
"""What a record holds, apart from counters: numbers, or arrays with one for each run of a sweep."""


class Driver(Protocol):
    """Runs one method on one problem, inside `precision(dtype)`; a sweep's has a leading axis of runs everywhere."""

    def start(self, x0: Point) -> tuple[Point, State]:
        """The first point where the driver works, and the method's empty state."""
        ...

    def restart(self, x: Point, state: State, payload: Payload, first: int) -> tuple[Point, State]:
        """Step number `first`, from a large batch."""
        ...

    def advance(self, x: Point, state: State, payload: Payload, first: int, count: int) -> tuple[Point, State]:
        """`count` steps from step `first` on."""
        ...

    def mean_over(self, payload: Payload) -> Any:
        """F over the samples that records are measured on: for `measure`."""
        ...

    def measure(self, mean: Any, with_error: bool, x: Point, state: State, step: int) -> Figures:
        """A record's figures after `step` steps."""
        ...

    def compile_restart(self, x: Point, state: State, payload: Payload) -> None:
        """Compile ahead, so that the clock sees only running."""
        ...

    def compile_advance(self, x: Point, state: State, payload: Payload) -> None:
        """Compile ahead, so that the clock sees only running."""
        ...

    def wait(self, tree: Any) -> None:
        """Until the device has finished."""
        ...

    def load(self, tree: Any) -> Any:
        """Points and states from NumPy copies."""
        ...

    def to_numpy(self, tree: Any) -> Any:
        """NumPy copies."""
        ...

    def average(self, state: State) -> Point | None:
        """The average of the iterates, where the run keeps one."""
        ...


class Means(NamedTuple):
    """F where a record asks for it; one and the same, unless it had to be computed at each point beforehand."""

    here: Any
    last: Any
    """At the point before the last step, for the estimator's error."""
    average: Any
    """At the average of the iterates."""


def figures(
    objective: Objective, method: Any, means: Means, with_error: bool, x: Point, state: State, t: Any
) -> dict[str, Array]:
    """What a record holds after step t."""
    manifold, last = objective.manifold, state.last
    loss, gradient = means.here(x)
    row = {
        "loss": loss,
        "gradient_norm": manifold.norm(x, gradient),
        "violation": manifold.violation(x),
        "direction_norm": manifold.norm(last.point, last.vector),
    }
    if with_error:
        difference = subtract(last.vector, means.last.gradient(last.point))
        row["estimator_error"] = manifold.norm(last.point, difference)
    average = method.average(state)
    if average is not None:
        row["average_loss"] = means.average(average)[0]
    return row | method.info(state, _at_least_one(t))


def _at_least_one(t: Any) -> Any:
    """The schedules of a run that has not begun are those of its first step."""
    return max(t, 1.0) if isinstance(t, float) else t.clip(1)


_OF_POINTS = frozenset({"loss", "gradient_norm", "violation", "direction_norm", "estimator_error", "average_loss"})
"""The figures that `figures` finds itself; the others are what the method tells of its last step."""


def as_of(step: int, row: dict[str, Any]) -> dict[str, Any]:
    """With NaN for what is told of a step before the first one; in a program JAX may have been asked to refuse NaN."""
    if step > 0:
        return row
    return {name: value if name in _OF_POINTS else value * np.nan for name, value in row.items()}
