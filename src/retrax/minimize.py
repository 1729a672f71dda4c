"""The front door: `minimize` runs one method on one problem."""

import contextlib
import dataclasses
import math
import numbers
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from retrax import sampling, sources
from retrax.drivers.eager import EagerDriver
from retrax.drivers.jax import JaxDriver, precision
from retrax.methods import Method
from retrax.plan import Plan, Position
from retrax.problems.base import Problem
from retrax.progress import ProgressLine
from retrax.recording import History, Record, Result, Status
from retrax.schedules import is_number
from retrax.typing import Point

DRIVERS: dict[str, type[JaxDriver]] = {"jax": JaxDriver, "eager": EagerDriver}
BUFFER_STEPS = 1024
SECONDS_PER_STRETCH = 0.25


def minimize(
    problem: Problem,
    method: Method,
    *,
    steps: int,
    batch_size: Any = 5,
    first_batch_size: Any = None,
    x0: Point | None = None,
    seed: int = 0,
    record: int | Record | None = None,
    dtype: str | None = None,
    tolerance: float | None = None,
    patience: int = 3,
    loss_bound: float | None = None,
    progress: bool | None = None,
    on_record: Callable[[int, dict[str, float]], Any] | None = None,
    driver: str = "jax",
) -> Result:
    """Minimise a problem by a method and return the last iterate, the history and what it cost.

    steps: how many steps to take. batch_size: samples per step (a number or a function of t). first_batch_size: samples
    in the large batches that start the method, and restart RSVRG, RSRG and RSPIDER; by default 100 for RSRM, all the
    data for those three, `batch_size` for the others. x0: the start (default: a random point from the seed). record:
    measure every so many steps, or a `Record`. dtype: "float32" or "float64" (default: that of x0, else of the data).
    tolerance: stop as converged once the gradient norm stays below it for `patience` records. loss_bound: stop as
    diverged above it. on_record(step, metrics): called after each record; a true result stops the run.
    driver: "jax" (compiled) or "eager" (a NumPy loop, for debugging).
    """
    settings = Settings(problem, method, steps, batch_size, first_batch_size, x0, seed, record, dtype, driver)
    stop_rule = _StopRule(tolerance, patience, loss_bound)
    with precision(settings.dtype):
        run = _Run(settings, stop_rule, on_record)
        with ProgressLine(method.name, settings.plan.steps, progress) as line, _interruptible(run):
            return run.to_the_end(line)


class Settings:
    """The arguments of a run, checked before anything is compiled."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        steps: int,
        batch_size: Any,
        first_batch_size: Any,
        x0: Point | None,
        seed: int,
        record: int | Record | None,
        dtype: str | None,
        driver: str,
    ) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(f"problem must be a retrax.Problem, not {type(problem).__name__}")
        if not isinstance(method, Method):
            hint = "; call it with a step size, as in retrax.rsrm(0.1)" if callable(method) else ""
            raise TypeError(f"method must be a retrax method such as retrax.rsrm(0.1), not {method!r}{hint}")
        if driver not in DRIVERS:
            raise ValueError(f"driver must be one of {', '.join(map(repr, DRIVERS))}, not {driver!r}")
        self.problem, self.method, self.driver = problem, method, driver
        self.seed = _integer(seed, "seed", least=0)
        self.record = record if isinstance(record, Record) else Record(every=record)
        self.x0 = problem.initial_point(self.seed) if x0 is None else x0
        problem.manifold.check_point(jax.tree.map(_as_array, self.x0))
        self.dtype = _dtype(dtype, x0, problem)
        self.plan = self._plan(_integer(steps, "steps", least=1), batch_size, first_batch_size)
        _check_functions(problem, self.x0, self.dtype)

    def _plan(self, steps: int, batch_size: Any, first_batch_size: Any) -> Plan:
        source, method = self.problem.source, self.method
        small = _size_schedule(batch_size, "batch_size")
        large = _size_schedule(self._first_batch_size(first_batch_size, small), "first_batch_size")
        if source.size is not None and large(1) > source.size:
            raise ValueError(
                f"first_batch_size={large(1)} is drawn without replacement, but there are only {source.size} samples"
            )
        restart_every = method.restart_every
        if restart_every == "epoch":
            if source.size is None:
                raise ValueError(f"{method.name} on a stream has no epoch: give restart_every as a number of steps")
            restart_every = max(1, source.size // small(1))
        length = min(BUFFER_STEPS, 2 ** math.ceil(math.log2(steps)))
        return Plan(
            steps=steps,
            batch_size=small,
            constant_batch=is_number(batch_size),
            large_batch_size=large,
            restart_every=restart_every,  # type: ignore[arg-type]
            evaluations=method.evaluations,
            record_every=self.record.interval(steps),
            checkpoint_every=None,
            seed=self.seed,
            length=length,
            pace=64,
        )

    def _first_batch_size(self, given: Any, small: Callable[[int], int]) -> Any:
        if given is not None:
            return given
        size, default = self.problem.source.size, self.method.first_batch_size
        if default is None:
            return small(1)
        if default == "all":
            if size is None:
                raise ValueError(f"{self.method.name} on a stream needs first_batch_size: a stream has no 'all'")
            return size
        return default if size is None else min(int(default), size)


@dataclasses.dataclass(frozen=True)
class _StopRule:
    tolerance: float | None
    patience: int
    loss_bound: float | None

    def __post_init__(self) -> None:
        for value, name in ((self.tolerance, "tolerance"), (self.loss_bound, "loss_bound")):
            if value is not None and not (isinstance(value, numbers.Real) and not math.isnan(value)):
                raise ValueError(f"{name} must be a number, not {value!r}")
        _integer(self.patience, "patience", least=1)

    def diverged(self, row: dict[str, float]) -> str | None:
        """Why this record says that the run has diverged."""
        loss = row["loss"]
        if not math.isfinite(loss):
            return f"the loss became {loss}"
        if not math.isfinite(row["direction_norm"]):
            return f"the direction's norm became {row['direction_norm']}"
        if self.loss_bound is not None and loss > self.loss_bound:
            return f"the loss {loss:.6g} exceeded loss_bound={self.loss_bound:g}"
        return None

    def converged(self, history: History) -> bool:
        """Whether the last `patience` records lie below the tolerance."""
        if self.tolerance is None or len(history.rows) < self.patience:
            return False
        return all(row["gradient_norm"] <= self.tolerance for row in history.rows[-self.patience :])


class _Run:
    """A run in progress: counters, point, state and history."""

    def __init__(
        self, settings: Settings, stop_rule: _StopRule, on_record: Callable[[int, dict[str, float]], Any] | None
    ) -> None:
        self.settings, self.plan, self.stop_rule, self.on_record = settings, settings.plan, stop_rule, on_record
        self.problem, self.source = settings.problem, settings.problem.source
        self.driver = DRIVERS[settings.driver](self.problem, settings.method, settings.dtype)
        self.position = Position()
        self.x, self.state = self.driver.start(settings.x0)
        self.output = self.good_x = self.x
        self.seconds = 0.0
        self.compile_seconds = 0.0
        self.interrupted = False
        self.mean, exact = self._evaluation()
        self.history = History(exact=exact)

    def _evaluation(self) -> tuple[Any, bool]:
        """What records are measured on: all the data, or a fixed sample of it."""
        samples, size = self.settings.record.samples, self.source.size
        if samples is None or samples >= size:
            return self.driver.mean_over(None), True
        return self.driver.mean_over(sampling.evaluation_indices(self.settings.seed, samples, size)), False

    def to_the_end(self, line: ProgressLine) -> Result:
        """Run until a reason to stop."""
        self._compile()
        self._measure(line)
        for stretch, keep, after in self.plan.stretches(self.position):
            if keep:
                self.output = self.x
            self._advance(stretch)
            self.position = after
            if self.plan.records_at(after.step):
                reason = self._measure(line)
                if reason is not None:
                    return self._result(*reason)
            if self.interrupted:
                return self._result(Status.INTERRUPTED, f"interrupted after step {after.step}")
        return self._result(Status.MAX_STEPS, f"took all {self.plan.steps} steps")

    def _payload(self, stretch: sources.Stretch) -> Any:
        return self.source.payload(self.settings.seed, stretch, self.plan.length)

    def _compile(self) -> None:
        """Compile what the run will need, outside the clock."""
        start = time.perf_counter()
        seen: set[tuple[bool, int]] = set()
        kinds = [(True, self.plan.large_batch_size(1))]
        if self.plan.steps > 1 and self.plan.restart_every != 1:
            kinds.append((False, self.plan.batch_size(2)))
        for restart, size in kinds:
            if (restart, size) in seen:
                continue
            payload = self._payload(sources.Stretch(1, 1, size, restart, 0))
            compile_one = self.driver.compile_restart if restart else self.driver.compile_advance
            compile_one(self.x, self.state, payload)
        self.compile_seconds += time.perf_counter() - start

    def _advance(self, stretch: sources.Stretch) -> None:
        start = time.perf_counter()
        payload = self._payload(stretch)
        if stretch.restart:
            self.x, self.state = self.driver.restart(self.x, self.state, payload, stretch.first)
        else:
            self.x, self.state = self.driver.advance(self.x, self.state, payload, stretch.first, stretch.count)
        self.driver.wait((self.x, self.state))
        seconds = time.perf_counter() - start
        self.seconds += seconds
        if not stretch.restart:
            self.plan.pace = max(1, int(SECONDS_PER_STRETCH * stretch.count / max(seconds, 1e-9)))

    def _measure(self, line: ProgressLine) -> tuple[Status, str] | None:
        """Record where the run is; returns a reason to stop, if there is one."""
        start = time.perf_counter()
        figures = self.driver.measure(self.mean, self.settings.record.estimator_error, self.x, self.state)
        if not self.history.rows:
            self.compile_seconds += time.perf_counter() - start
        row: dict[str, float] = {
            "step": self.position.step,
            "sfo": self.position.sfo,
            "seconds": self.seconds,
            **figures,
        }
        if self.problem.optimum is not None:
            row["gap"] = row["loss"] - self.problem.optimum
        self.history.append(row)
        line.update(self.position.step, row)
        reason = self.stop_rule.diverged(row)
        if reason is not None:
            previous = self.history.rows[-2]["step"] if len(self.history.rows) > 1 else 0
            self.x = self.good_x
            return Status.DIVERGED, f"{reason} between steps {previous:.0f} and {row['step']:.0f}; x is of the former"
        self.good_x = self.x
        if self.on_record is not None and self.on_record(self.position.step, dict(row)):
            return Status.STOPPED, f"on_record stopped the run after step {self.position.step}"
        if self.stop_rule.converged(self.history):
            return Status.CONVERGED, (
                f"gradient norm ≤ {self.stop_rule.tolerance:g} in {self.stop_rule.patience} records, "
                f"at step {self.position.step}"
            )
        return None

    def _result(self, status: Status, detail: str) -> Result:
        return Result(
            x=self.driver.to_numpy(self.x),
            output=self.driver.to_numpy(self.output),
            history=self.history,
            sfo=self.position.sfo,
            steps=self.position.step,
            status=status,
            detail=detail,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
        )


@contextlib.contextmanager
def _interruptible(run: _Run) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run at the next stretch; a second one acts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)
        previous.clear()

    def stop(number: int, frame: Any) -> None:
        run.interrupted = True
        restore()

    for number in (signal.SIGINT, signal.SIGTERM):
        previous[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        restore()


def _as_array(leaf: Any) -> Any:
    return leaf if hasattr(leaf, "__array_namespace__") or hasattr(leaf, "dtype") else np.asarray(leaf)


def _integer(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return int(value)


def _size_schedule(value: Any, name: str) -> Callable[[int], int]:
    """A batch size as a function of the step: from a number, or a function of t that returns one."""
    if is_number(value):
        size = _integer(value, name, least=1)
        return lambda t: size
    if callable(value):
        return lambda t: _integer(_whole(value(t)), f"{name}({t})", least=1)
    raise TypeError(f"{name} must be a number or a function of t, not {type(value).__name__}")


def _whole(value: Any) -> Any:
    """A schedule's value, rounded up to a whole number of samples."""
    return math.ceil(value) if isinstance(value, numbers.Real) and math.isfinite(value) else value


def _dtype(dtype: str | None, x0: Point | None, problem: Problem) -> str:
    if dtype is not None:
        name = str(np.dtype(dtype)) if isinstance(dtype, str | type | np.dtype) else str(dtype)
        if name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {dtype!r}")
        return name
    candidates = [] if x0 is None else jax.tree.leaves(x0)
    if problem.source.size is not None:
        candidates += jax.tree.leaves(problem.source.data)
    for leaf in candidates:
        if str(getattr(leaf, "dtype", "")) in ("float32", "float64"):
            return str(leaf.dtype)
    return "float32"


def _check_functions(problem: Problem, x0: Point, dtype: str) -> None:
    """The loss must return one number and the gradient must look like a point: found out without computing."""
    with precision(dtype):
        point = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), dtype), x0)
        batch = problem.source.example(dtype)
        loss = jax.eval_shape(problem.objective.loss, point, batch)
        if getattr(loss, "shape", None) != ():
            raise ValueError(
                f"loss must return one number, the mean over the batch; it returned "
                f"{'shape ' + str(loss.shape) if hasattr(loss, 'shape') else loss}"
            )
        gradient = jax.eval_shape(problem.objective.gradient, point, batch)
        shapes = [jax.tree.map(lambda a: tuple(a.shape), tree) for tree in (gradient, point)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"the gradient has shape {shapes[0]}, but a point has {shapes[1]}")
