"""`sweep`: all step sizes and seeds of a method in one compilation, and the best step size among them."""

import dataclasses
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retrax.checkpoint import Checkpoint
from retrax.methods import Method
from retrax.minimizing import check_callback, check_checkpoint, started
from retrax.problems.base import Problem
from retrax.progress import ProgressLine
from retrax.recording import InterruptedRun, Record, Result, TerminatedRun
from retrax.run import Watch
from retrax.schedules import is_number
from retrax.settings import Settings
from retrax.typing import Point

CRITERION = "smallest median over seeds of the final gap (of the final loss where the optimum is not known)"

MethodFactory = Callable[[float], Method]


@dataclasses.dataclass(frozen=True)
class MethodSweep:
    """All runs of one method: `curves["gap"]` has shape (step sizes, seeds, records)."""

    name: str
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...]
    step: np.ndarray
    sfo: np.ndarray
    curves: dict[str, np.ndarray]
    seconds: float
    """Run time of all runs together, without compiling and measuring."""
    compile_seconds: float

    @property
    def column(self) -> str:
        """The column that runs are judged by: "gap" where the optimum is known, else "loss"."""
        return "gap" if "gap" in self.curves else "loss"

    @property
    def final(self) -> np.ndarray:
        """The last record of that column, shape (step sizes, seeds); infinite where a run has diverged."""
        last = self.curves[self.column][..., -1]
        return np.where(np.isfinite(last), last, np.inf)

    @property
    def best(self) -> int:
        """The number of the best step size: the smallest median over seeds of the final gap (or loss)."""
        return int(np.argmin(np.median(self.final, axis=1)))

    @property
    def best_learning_rate(self) -> float:
        """The best step size."""
        return self.learning_rates[self.best]

    def quartiles(self, column: str | None = None, index: int | None = None) -> np.ndarray:
        """Lower quartile, median, upper quartile over seeds, shape (3, records); by default of the best step size."""
        curve = self.curves[column or self.column][self.best if index is None else index]
        return np.percentile(np.where(np.isfinite(curve), curve, np.inf), [25, 50, 75], axis=0, method="nearest")

    def __repr__(self) -> str:
        median = np.median(self.final[self.best])
        return f"MethodSweep({self.name}: best step size {self.best_learning_rate:g}, final {self.column} {median:.3e})"


class Sweep(Mapping[str, MethodSweep]):
    """The results of a sweep by method name; `criterion` says what "best" means."""

    criterion = CRITERION

    def __init__(self, methods: dict[str, MethodSweep]) -> None:
        self._methods = methods

    def __getitem__(self, name: str) -> MethodSweep:
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __repr__(self) -> str:
        return "\n".join(repr(method) for method in self._methods.values())


def sweep(
    problem: Problem,
    methods: MethodFactory | Sequence[MethodFactory] | Mapping[str, MethodFactory],
    learning_rates: Sequence[float],
    seeds: int | Sequence[int] = 5,
    *,
    steps: int,
    batch_size: Any = 5,
    first_batch_size: Any = None,
    x0: Point | None = None,
    record: int | Record | None = None,
    dtype: str | None = None,
    progress: bool | None = None,
    on_record: Callable[[str, int], Any] | None = None,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
) -> Sweep:
    """Run every step size and every seed of each method at once.

    methods: functions from a step size to a method, such as `rx.rsrm` or `lambda lr: rx.rasa(lr, sides="L")`; one,
    several, or a mapping by name. seeds: their number or the seeds themselves; each seed has its own start (unless x0
    is given) and, but for a stream, its own samples, the same for all step sizes and methods. The other arguments are
    those of `minimize`; checkpoints of a method go into a folder of its name. on_record(name, step) is called after
    each record. Ctrl-C raises `InterruptedRun`, whose `result` is the Sweep of what was recorded until then.
    """
    check_checkpoint(checkpoint, resume)
    check_callback(on_record, "on_record must be a function of a method's name and a step")
    rates, numbers_ = _rates(learning_rates), _seeds(seeds)
    results: dict[str, MethodSweep] = {}
    for name, factory in _named(methods, rates[0]).items():
        made = [_method(factory, rate) for rate in rates]
        settings = Settings(
            problem,
            made[0],
            steps=steps,
            batch_size=batch_size,
            first_batch_size=first_batch_size,
            x0=x0,
            record=record,
            dtype=dtype,
            checkpoint_every=None if checkpoint is None else checkpoint.every,
            methods=made,
            seeds=numbers_,
        )
        folder = (
            None if checkpoint is None else dataclasses.replace(checkpoint, directory=Path(checkpoint.directory, name))
        )
        called = None if on_record is None else lambda step, row, name=name: on_record(name, step) and None
        with started(settings, folder, resume) as (run, keeper):
            watch = Watch(ProgressLine(name, settings.plan.steps, progress), keeper, on_record=called)
            try:
                results[name] = _collected(name, rates, numbers_, run.to_the_end(watch))
            except (InterruptedRun, TerminatedRun) as interruption:
                results[name] = _collected(name, rates, numbers_, interruption.result)
                interruption.result = Sweep(results)
                raise
    return Sweep(results)


def _rates(learning_rates: Any) -> tuple[float, ...]:
    if is_number(learning_rates):
        raise TypeError(f"learning_rates must be several step sizes, such as [{learning_rates!r}], not one number")
    if not isinstance(learning_rates, Iterable) or isinstance(learning_rates, str | bytes | type):
        raise TypeError(f"learning_rates must be several step sizes, such as [0.1, 0.01], not {learning_rates!r}")
    rates = tuple(learning_rates)
    for rate in rates:
        if not is_number(rate):
            raise TypeError(f"learning_rates must be numbers, not {type(rate).__name__}: {rate!r}")
    if not rates:
        raise ValueError("a sweep needs at least one step size and one seed")
    return tuple(float(rate) for rate in rates)


def _seeds(seeds: Any) -> tuple[int, ...]:
    if isinstance(seeds, numbers.Integral) and not isinstance(seeds, bool):
        seeds = range(int(seeds))
    if not isinstance(seeds, Sequence | np.ndarray) or isinstance(seeds, str):
        raise TypeError(f"seeds must be their number or a sequence of them, not {seeds!r}")
    if not len(seeds):
        raise ValueError("a sweep needs at least one step size and one seed")
    return tuple(seeds)


def _named(methods: Any, rate: float) -> dict[str, MethodFactory]:
    if isinstance(methods, Method):
        raise TypeError(
            f"sweep needs functions from a step size to a method, such as retrax.rsrm, not a method with a step size: "
            f"{methods.name}"
        )
    if isinstance(methods, Mapping):
        for name in methods:
            if not isinstance(name, str) or not name:
                raise TypeError(f"sweep names its methods by words, as in {{'RSRM': retrax.rsrm}}, not {name!r}")
        return dict(methods)
    if not callable(methods) and not isinstance(methods, Iterable):
        raise TypeError(f"sweep needs functions from a step size to a method, such as retrax.rsrm, not {methods!r}")
    factories = [methods] if callable(methods) else list(methods)
    return {_method(factory, rate).name: factory for factory in factories}


def _method(factory: Any, rate: float) -> Method:
    if not callable(factory):
        raise TypeError(f"sweep needs functions from a step size to a method, such as retrax.rsrm, not {factory!r}")
    method = factory(rate)
    if not isinstance(method, Method):
        raise TypeError(f"sweep needs functions from a step size to a method; {factory!r} returned {method!r}")
    return method


def _collected(name: str, rates: tuple[float, ...], seeds: tuple[int, ...], result: Result) -> MethodSweep:
    """The runs of one method, from a history whose columns have an axis of runs."""
    history = result.history
    shape = (len(rates), len(seeds), len(history.rows))
    counters = ("step", "sfo", "seconds")
    curves = {column: history[column].T.reshape(shape) for column in history if column not in counters}
    return MethodSweep(
        name=name,
        learning_rates=rates,
        seeds=seeds,
        step=history["step"],
        sfo=history["sfo"],
        curves=curves,
        seconds=result.seconds,
        compile_seconds=result.compile_seconds,
    )
