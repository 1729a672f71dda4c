"""The front door: `minimize` runs one method on one problem."""

import contextlib
import dataclasses
import math
import numbers
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from retrax.checkpoint import Checkpoint, Keeper, Snapshot
from retrax.drivers import sharded
from retrax.drivers.jax import precision
from retrax.methods import Method
from retrax.plan import Plan, Position
from retrax.problems.base import Problem
from retrax.progress import ProgressLine
from retrax.recording import History, Record, Result, Status
from retrax.settings import Settings, integer
from retrax.sources import Stretch
from retrax.sources.base import Feed
from retrax.sources.prefetch import Prefetch
from retrax.typing import Point

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
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    driver: str = "jax",
) -> Result:
    """Minimise a problem by a method and return the last iterate, the history and what it cost.

    steps: how many steps to take. batch_size: samples per step (a number or a function of t). first_batch_size: samples
    in the large batches that start the method, and restart RSVRG, RSRG and RSPIDER; by default 100 for RSRM, all the
    data for those three, `batch_size` for the others. x0: the start (default: a random point from the seed). record:
    measure every so many steps, or a `Record`. dtype: "float32" or "float64" (default: that of x0, else of the data).
    tolerance: stop as converged once the gradient norm stays below it for `patience` records. loss_bound: stop as
    diverged above it. on_record(step, metrics): called after each record; a true result stops the run.
    checkpoint: write checkpoints as `Checkpoint` says. resume: continue from the newest one, to the same bits as a run
    that was never interrupted; start afresh if there is none. Ctrl-C and SIGTERM end the run after a moment: it writes
    its checkpoint and returns what it has. driver: "jax" (compiled) or "eager" (a NumPy loop, for debugging).
    """
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"checkpoint must be a retrax.Checkpoint(directory, every=...), not {checkpoint!r}")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=retrax.Checkpoint(directory, every=...)")
    if on_record is not None and not callable(on_record):
        raise TypeError(f"on_record must be a function of a step and its metrics, not {on_record!r}")
    every = None if checkpoint is None else checkpoint.every
    settings = Settings(problem, method, steps, batch_size, first_batch_size, x0, seed, record, dtype, driver, every)
    stop_rule = _StopRule(tolerance, patience, loss_bound)
    with precision(settings.dtype):
        keeper = None if checkpoint is None else Keeper(checkpoint, settings)
        saved = None if keeper is None else keeper.open(resume)
        run = _Run(settings, stop_rule, on_record, keeper, saved)
        with ProgressLine(method.name, settings.plan.steps, progress) as line, _interruptible(run):
            return run.to_the_end(line)


@dataclasses.dataclass(frozen=True)
class _StopRule:
    tolerance: float | None
    patience: int
    loss_bound: float | None

    def __post_init__(self) -> None:
        for value, name in ((self.tolerance, "tolerance"), (self.loss_bound, "loss_bound")):
            if value is not None and not (isinstance(value, numbers.Real) and not math.isnan(value)):
                raise ValueError(f"{name} must be a number, not {value!r}")
        integer(self.patience, "patience", least=1)

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


class _Piece(NamedTuple):
    """One stretch with all it needs."""

    stretch: Stretch
    keep: bool
    after: Position
    payload: Any
    place: Any


def _pieces(plan: Plan, feed: Feed, position: Position) -> Iterator[_Piece]:
    """The stretches from `position` on, until the plan or the samples end."""
    for stretch, keep, after in plan.stretches(position):
        count, payload = feed.payload(stretch, plan.longest(stretch.batch_size))
        complete = count == stretch.count
        if not complete:
            stretch, after = plan.shortened(after, stretch, count)
        if count > 0:
            yield _Piece(stretch, keep, after, payload, feed.place())
        if not complete:
            return


class _Run:
    """A run in progress: counters, point, state and history."""

    def __init__(
        self,
        settings: Settings,
        stop_rule: _StopRule,
        on_record: Callable[[int, dict[str, float]], Any] | None,
        keeper: Keeper | None,
        saved: Snapshot | None,
    ) -> None:
        self.settings, self.plan, self.stop_rule, self.on_record = settings, settings.plan, stop_rule, on_record
        self.keeper, self.problem, self.source = keeper, settings.problem, settings.problem.source
        self.driver = settings.make_driver()
        self.position = Position()
        self.x, self.state = self.driver.start(settings.x0)
        self.output = self.x
        self.good = self.x, self.output
        self.place: Any = None
        self.seconds = 0.0
        self.compile_seconds = 0.0
        self.compiled: set[tuple[bool, int]] = set()
        self.interrupted = False
        rows = [] if saved is None else self._restore(saved)
        self.feed = self.source.feed(settings.seed, settings.dtype, settings.record.samples, self.place)
        payload, exact = self.feed.evaluation()
        self.mean = self.driver.mean_over(payload)
        self.history = History(rows, exact=exact)

    def to_the_end(self, line: ProgressLine) -> Result:
        """Run until a reason to stop."""
        self._compile(Stretch(1, 1, self.plan.large_batch_size(1), True, 0))
        if self.plan.steps > 1 and self.plan.restart_every != 1:
            self._compile(Stretch(2, 1, self.plan.batch_size(2), False, 0))
        reason = self._measure(line) if not self.history.rows else self._converged()
        pieces: Iterator[_Piece] = _pieces(self.plan, self.feed, self.position)
        if self.source.resident:
            return self._loop(pieces, line, reason)
        with contextlib.closing(Prefetch(pieces, stop=lambda: self.interrupted)) as ahead:
            return self._loop(ahead, line, reason)

    def _loop(self, pieces: Iterator[_Piece], line: ProgressLine, reason: tuple[Status, str] | None) -> Result:
        while reason is None and self.position.step < self.plan.steps and self._advance(pieces):
            if self.plan.records_at(self.position.step):
                reason = self._measure(line)
            if reason is None and self.plan.checkpoints_at(self.position.step):
                self._save()
            if self._asked_to_stop():
                break
        return self._end(reason, line)

    def _asked_to_stop(self) -> bool:
        """Whether to stop here. Processes agree on that, and on the length of the next stretches."""
        if self.settings.several_processes:
            interrupted, self.plan.pace = sharded.largest(self.interrupted, self.plan.pace)
            self.interrupted = bool(interrupted)
        return self.interrupted

    def _any(self, flag: Any) -> bool:
        return any(sharded.largest(bool(flag))) if self.settings.several_processes else bool(flag)

    def _end(self, reason: tuple[Status, str] | None, line: ProgressLine) -> Result:
        step = self.position.step
        if reason is None and step == self.plan.steps:
            reason = Status.MAX_STEPS, f"took all {step} steps"
        elif reason is None and self.interrupted:
            reason = Status.INTERRUPTED, f"interrupted after step {step}"
        ended = reason is None
        status, detail = reason or (Status.STREAM_ENDED, f"the stream ended after step {step}")
        if status is not Status.DIVERGED:
            self._save()
        if ended and self.history.rows[-1]["step"] != step:
            self._measure(line)
        return self._result(status, detail)

    def _advance(self, pieces: Iterator[_Piece]) -> bool:
        """The next stretch; False if there is none."""
        start = time.perf_counter()
        piece = next(pieces, None)
        if piece is None:
            return False
        stretch = piece.stretch
        start += self._compile(stretch)
        if piece.keep:
            self.output = self.x
        if stretch.restart:
            self.x, self.state = self.driver.restart(self.x, self.state, piece.payload, stretch.first)
        else:
            self.x, self.state = self.driver.advance(self.x, self.state, piece.payload, stretch.first, stretch.count)
        self.driver.wait((self.x, self.state))
        self.position, self.place = piece.after, piece.place
        seconds = time.perf_counter() - start
        self.seconds += seconds
        if not stretch.restart:
            self.plan.pace = max(1, min(10**6, int(SECONDS_PER_STRETCH * stretch.count / max(seconds, 1e-9))))
        return True

    def _compile(self, stretch: Stretch) -> float:
        """Compile, outside the clock, what such a stretch needs, if that is new; returns the seconds it took."""
        kind = stretch.restart, stretch.batch_size
        if kind in self.compiled:
            return 0.0
        start = time.perf_counter()
        blank = self.feed.blank(stretch, self.plan.longest(stretch.batch_size))
        compile_it = self.driver.compile_restart if stretch.restart else self.driver.compile_advance
        compile_it(self.x, self.state, blank)
        self.compiled.add(kind)
        seconds = time.perf_counter() - start
        self.compile_seconds += seconds
        return seconds

    def _save(self) -> None:
        if self.keeper is None:
            return
        carried = self.driver.to_numpy((self.x, self.state, self.output, self.good))
        names = list(self.history)
        facts = {
            "fingerprint": self.keeper.fingerprint,
            "position": dataclasses.asdict(self.position),
            "place": self.place,
            "seconds": self.seconds,
            "history": names,
        }
        arrays = [*jax.tree.leaves(carried), *(self.history[name] for name in names)]
        self.keeper.save(self.position.step, Snapshot(arrays, facts))

    def _restore(self, saved: Snapshot) -> list[dict[str, float]]:
        """Take up where a checkpoint ends; returns the rows of its history."""
        leaves, structure = jax.tree.flatten((self.x, self.state, self.output, self.good))
        carried = jax.tree.unflatten(structure, saved.arrays[: len(leaves)])
        self.x, self.state, self.output, self.good = self.driver.load(carried)
        facts = saved.facts
        self.position, self.seconds, self.place = Position(**facts["position"]), facts["seconds"], facts["place"]
        if self.place is None:
            raise ValueError(
                "this stream cannot be wound forward, so the run cannot be resumed; "
                "see retrax.Stream(..., deterministic=True), or give a stream with get_state and set_state"
            )
        columns = [column.tolist() for column in saved.arrays[len(leaves) :]]
        return [dict(zip(facts["history"], row, strict=True)) for row in zip(*columns, strict=True)]

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
        if self.history.exact and self.problem.optimum is not None:
            row["gap"] = row["loss"] - self.problem.optimum
        self.history.append(row)
        line.update(self.position.step, row)
        reason = self.stop_rule.diverged(row)
        if reason is not None:
            previous = self.history.rows[-2]["step"] if len(self.history.rows) > 1 else 0
            self.x, self.output = self.good
            return Status.DIVERGED, f"{reason} between steps {previous:.0f} and {row['step']:.0f}; x is of the former"
        self.good = self.x, self.output
        if self.on_record is not None and self._any(self.on_record(self.position.step, dict(row))):
            return Status.STOPPED, f"on_record stopped the run after step {self.position.step}"
        return self._converged()

    def _converged(self) -> tuple[Status, str] | None:
        if not self.stop_rule.converged(self.history):
            return None
        step = self.history.rows[-1]["step"]
        return Status.CONVERGED, (
            f"gradient norm ≤ {self.stop_rule.tolerance:g} in {self.stop_rule.patience} records, at step {step:.0f}"
        )

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
