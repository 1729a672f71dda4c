"""The run: one loop, clock, feed and history under `minimize`, `sweep` and whoever advances a run step by step."""

import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from retrax._arguments import integer
from retrax._precision import precision
from retrax.advice import curvature, warning
from retrax.checkpoint import Keeper, RefusedError, Snapshot, check_snapshot, read, write
from retrax.drivers.devices import largest
from retrax.drivers.peers import Peers
from retrax.fingerprint import Fingerprint
from retrax.methods import Method
from retrax.pace import Pace
from retrax.plan import Position
from retrax.problems.base import Problem
from retrax.progress import ProgressLine
from retrax.recording import History, Record, Result, Row, Status, finite, interruption, off_manifold
from retrax.settings import Settings
from retrax.sources import Feed, Stretch
from retrax.sources.prefetch import Prefetch
from retrax.sources.pushed import PushedFeed
from retrax.typing import Point, Step

Reason = tuple[Status, str]
"""How a run ends, and that in words."""

Find = Callable[[Callable[[Snapshot], None]], Snapshot | None]
"""Finds a snapshot that a check, which it is given, does not refuse."""


class _Piece(NamedTuple):
    """One stretch with all it needs."""

    stretch: Stretch
    keep: bool
    after: Position
    payload: Any
    place: Any


@dataclasses.dataclass
class Watch:
    """What looks on while a run goes to its end, and may end it."""

    line: ProgressLine
    keeper: Keeper | None = None
    diverged: Callable[[Row], str | None] = lambda row: None
    converged: Callable[[History], str | None] = lambda history: None
    on_record: Callable[[int, Row], Any] | None = None


class Run:
    """A run that can be continued: `advance` it by steps or by given batches, look at its `result()`, save and load it.

    The arguments are those of `minimize`, which takes a run to its end. `steps` may be left out: a run without a
    planned end records only where `record` says so. Data that arrive bit by bit are announced by
    `retrax.Pushed(example)` and handed over by `advance(batches=...)`; samples too few for a batch wait for more.
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        *,
        steps: int | None = None,
        batch_size: Any = 5,
        first_batch_size: Any = None,
        x0: Point | None = None,
        seed: int = 0,
        record: int | Record | None = None,
        dtype: str | None = None,
        average: bool = False,
        driver: str = "jax",
    ) -> None:
        self._begin(
            Settings(
                problem,
                method,
                steps=steps,
                batch_size=batch_size,
                first_batch_size=first_batch_size,
                x0=x0,
                seed=seed,
                record=record,
                dtype=dtype,
                average=average,
                driver=driver,
            )
        )

    @classmethod
    def of(cls, settings: Settings, find: Find = lambda fits: None) -> "Run":
        """A run from checked arguments, where the snapshot ends that `find` finds, if there is one."""
        run = cls.__new__(cls)
        run._begin(settings, find)
        return run

    def _begin(self, settings: Settings, find: Find = lambda fits: None) -> None:
        self.settings, self.plan = settings, settings.plan
        self._source = settings.problem.source
        self._position = Position()
        self._place: Any = None
        self._seconds = self._compile_seconds = 0.0
        self._compiled: set[tuple[bool, int]] = set()
        self._signal: int | None = None
        # Who knows how fast samples arrive from a stream.
        self._pace = Pace(1 if self._source.size is None else 64)
        with precision(settings.dtype):
            self._driver = settings.make_driver()
            self._x, self._state = self._driver.start(settings.x0)
            self._output = self._x
            self._good = self._x, self._output
            saved = find(self._check_carried)
            rows = [] if saved is None else self._restore(saved)
            self._feed: Feed = self._make_feed(saved is not None)
            self._mean: Any = None
            exact = True
            if self.plan.record_every is not None:
                payload, exact = self._feed.evaluation()
                self._mean = self._driver.mean_over(payload)
        self.history = History(rows, exact=exact)

    # --- what one sees ----------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """The number of steps taken."""
        return self._position.step

    @property
    def sfo(self) -> int:
        """Stochastic first-order oracle calls spent."""
        return self._position.sfo

    @property
    def x(self) -> Point:
        """The point where the run is."""
        return self._driver.to_numpy(self._x)

    def result(self) -> Result:
        """The result so far; its last record is of the point where the run is, if the run records at all."""
        with precision(self.settings.dtype):
            if self._mean is not None and not self._is_measured():
                self._measure()
            return self._result(Status.RUNNING, f"running, {self.step} steps taken")

    # --- steps ------------------------------------------------------------------------------------------------------

    def advance(self, steps: int | None = None, *, batches: Any = None) -> int:
        """Take so many steps, or those that the given samples suffice for; returns the number of steps taken.

        Records are taken where they are due; a stream that ends, or samples that run out, end the steps.
        """
        if steps is None and batches is None:
            raise TypeError("advance needs a number of steps, or batches=samples")
        last = None if steps is None else self.step + integer(steps, "steps", least=1)
        if batches is not None:
            if not isinstance(self._feed, PushedFeed):
                raise ValueError("batches can be handed over where the problem's data are retrax.Pushed(example)")
            self._feed.push(batches)
        before = self.step
        with precision(self.settings.dtype):
            for piece in self._pieces(last):
                self._take(piece)
                if self.plan.records_at(self.step):
                    self._measure()
        return self.step - before

    def _pieces(self, last: int | None = None) -> Iterator[_Piece]:
        """The stretches from here on, until step `last`, the plan or the samples end."""
        plan, feed = self.plan, self._feed
        keep_output = self.settings.seeds is None
        for stretch, keep, after in plan.stretches(self._position, last, lambda: self._pace.steps, keep_output):
            count, payload = feed.payload(stretch, plan.longest(stretch.batch_size))
            complete = count == stretch.count
            if not complete:
                stretch, after = plan.shortened(after, stretch, count)
            if count > 0:
                yield _Piece(stretch, keep, after, payload, feed.place())
            if not complete:
                return

    def _take(self, piece: _Piece) -> None:
        """The steps of one stretch, on the clock."""
        start = time.perf_counter()
        stretch = piece.stretch
        start += self._compile(stretch)
        if piece.keep:
            self._output = self._x
        if stretch.restart:
            self._x, self._state = self._driver.restart(self._x, self._state, piece.payload, stretch.first)
        else:
            self._x, self._state = self._driver.advance(
                self._x, self._state, piece.payload, stretch.first, stretch.count
            )
        self._driver.wait((self._x, self._state))
        self._position, self._place = piece.after, piece.place
        seconds = time.perf_counter() - start
        self._seconds += seconds
        if not stretch.restart:
            self._pace.took(stretch.count, seconds)

    def _compile(self, stretch: Stretch) -> float:
        """Compile, outside the clock, what such a stretch needs, if that is new; returns the seconds it took."""
        kind = stretch.restart, stretch.batch_size
        if kind in self._compiled:
            return 0.0
        start = time.perf_counter()
        blank = self._feed.blank(stretch, self.plan.longest(stretch.batch_size))
        compile_it = self._driver.compile_restart if stretch.restart else self._driver.compile_advance
        compile_it(self._x, self._state, blank)
        self._compiled.add(kind)
        seconds = time.perf_counter() - start
        self._compile_seconds += seconds
        return seconds

    # --- to the end -------------------------------------------------------------------------------------------------

    def to_the_end(self, watch: Watch) -> Result:
        """Run until a reason to stop. An interruption is raised, with the result so far, once all is saved."""
        peers = Peers(self.settings.several_processes)
        with precision(self.settings.dtype), watch.line as line, self._interruptible(), peers:
            line.moved(self.step)
            with line.compiling():
                self._compile(Stretch(1, 1, self.plan.large_batch_size(1), True, 0))
                if self.plan.steps != 1 and self.plan.restart_every != 1:
                    self._compile(Stretch(2, 1, self.plan.batch_size(2), False, 0))
                reason = self._look(watch) if not self.history.rows else self._converged(watch)
            if self._source.resident:
                return self._loop(self._pieces(), watch, reason)
            with contextlib.closing(Prefetch(self._pieces(), stop=lambda: self._signal is not None)) as ahead:
                return self._loop(ahead, watch, reason)

    def _loop(self, pieces: Iterator[_Piece], watch: Watch, reason: Reason | None) -> Result:
        while reason is None and self.step != self.plan.steps:
            start = time.perf_counter()
            piece = next(pieces, None)
            if piece is None:
                break
            self._seconds += time.perf_counter() - start  # drawing samples, and waiting for them, is part of a run
            self._take(piece)
            watch.line.moved(self.step)
            if self.plan.records_at(self.step):
                reason = self._look(watch)
            if reason is None and self.plan.checkpoints_at(self.step):
                self._save(watch.keeper)
            if self._asked_to_stop():
                break
        return self._end(watch, reason)

    def _end(self, watch: Watch, reason: Reason | None) -> Result:
        # What is saved lacks the record that only this end asks for: the run that goes on has none here.
        snapshot = None if watch.keeper is None else self._snapshot(watch.keeper.fingerprint)
        if reason is None and not self._is_measured():
            reason = self._look(watch)  # the last record is always of the point that is returned
        if reason is None and self.step == self.plan.steps:
            reason = Status.MAX_STEPS, f"took all {self.step} steps"
        elif reason is None and self._signal is not None:
            reason = Status.INTERRUPTED, f"interrupted after step {self.step}"
        status, detail = reason or (Status.STREAM_ENDED, f"the stream ended after step {self.step}")
        if watch.keeper is not None and snapshot is not None and status is not Status.DIVERGED:
            watch.keeper.save(self.step, lambda: snapshot)
        if watch.keeper is not None and watch.keeper.trouble is not None:
            detail = f"{detail}; {watch.keeper.trouble}"
        result = dataclasses.replace(self._result(status, detail), warning=self._warning(status))
        if self._signal is not None and status is Status.INTERRUPTED:
            raise interruption(self._signal, result)
        return result

    def _asked_to_stop(self) -> bool:
        """Whether to stop here. Processes agree on that, and on the length of the next stretches."""
        if self.settings.several_processes:
            number, self._pace.steps = largest(self._signal or 0, self._pace.steps)
            self._signal = number or None
        return self._signal is not None

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
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
            self._signal = number
            restore()

        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, stop)
        try:
            yield
        finally:
            restore()

    # --- measuring --------------------------------------------------------------------------------------------------

    def _is_measured(self) -> bool:
        return bool(self.history.rows) and self.history.rows[-1]["step"] == self.step

    def _measure(self) -> Row:
        """Record where the run is."""
        start = time.perf_counter()
        with_error = self.settings.record.estimator_error
        figures = self._driver.measure(self._mean, with_error, self._x, self._state, self.step)
        if not self.history.rows:
            self._compile_seconds += time.perf_counter() - start
        row: Row = {"step": self.step, "sfo": self.sfo, "seconds": self._seconds, **figures}
        if self.history.exact and self.settings.problem.optimum is not None:
            for column, loss in (("gap", "loss"), ("average_gap", "average_loss")):
                if loss in row:
                    row[column] = row[loss] - self.settings.problem.optimum
        self.history.append(row)
        return row

    def _look(self, watch: Watch) -> Reason | None:
        """Record where the run is; returns a reason to stop, if there is one."""
        row = self._measure()
        watch.line.measured(row)
        reason = watch.diverged(row)
        if reason is not None:
            previous = self.history.rows[-2]["step"] if len(self.history.rows) > 1 else 0
            self._x, self._output = self._good
            return Status.DIVERGED, f"{reason} between steps {previous:.0f} and {row['step']:.0f}; x is of the former"
        self._good = self._x, self._output
        if watch.on_record is not None and self._any(watch.on_record(self.step, dict(row))):
            return Status.STOPPED, f"on_record stopped the run after step {self.step}"
        return self._converged(watch)

    def _converged(self, watch: Watch) -> Reason | None:
        reason = watch.converged(self.history)
        return None if reason is None else (Status.CONVERGED, reason)

    def _any(self, flag: Any) -> bool:
        return any(largest(bool(flag))) if self.settings.several_processes else bool(flag)

    def _result(self, status: Status, detail: str) -> Result:
        to_numpy = self._driver.to_numpy
        average = self._driver.average(self._state)
        return Result(
            x=to_numpy(self._x),
            output=to_numpy(self._output),
            history=History(self.history.rows, exact=self.history.exact),
            sfo=self.sfo,
            steps=self.step,
            status=status,
            detail=detail,
            seconds=self._seconds,
            compile_seconds=self._compile_seconds,
            average=None if average is None else to_numpy(average),
        )

    def _warning(self, status: Status) -> str:
        """What the result of a single run that took all its steps should warn of."""
        if self._mean is None or self.settings.seeds is not None or status is not Status.MAX_STEPS:
            return ""
        last: Step = self._driver.to_numpy(self._state.last)

        def loss(point: Point) -> float:
            return self._driver.measure(self._mean, False, self._driver.load(point), self._state, self.step)["loss"]

        manifold = self.settings.problem.manifold
        given = self.settings.method.step_is_given
        return warning(self.history, (lambda: float(last.size) * curvature(manifold, loss, last)) if given else None)

    # --- saving -----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that the run carries into one file, which is either whole or not there."""
        write(path, self._snapshot(Fingerprint(self.settings)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], problem: Problem, method: Method, **arguments: Any) -> "Run":
        """Take up a saved run: with the same arguments as when it was made, or it is refused."""
        settings = Settings(problem, method, **arguments)
        saved = read(path)

        def find(fits: Callable[[Snapshot], None]) -> Snapshot:
            check_snapshot(saved, Fingerprint(settings), settings.plan.steps)
            fits(saved)
            return saved

        return cls.of(settings, find)

    def _save(self, keeper: Keeper | None) -> None:
        if keeper is not None:
            keeper.save(self.step, lambda: self._snapshot(keeper.fingerprint))

    def _snapshot(self, fingerprint: Fingerprint) -> Snapshot:
        carried = self._driver.to_numpy((self._x, self._state, self._output, self._good))
        names = list(self.history)
        facts = {
            "fingerprint": fingerprint.at(self.step),
            "unchecked": fingerprint.unchecked,
            "position": dataclasses.asdict(self._position),
            "place": self._place,
            "seconds": self._seconds,
            "history": names,
        }
        return Snapshot([*jax.tree.leaves(carried), *(self.history[name] for name in names)], facts)

    def _check_carried(self, saved: Snapshot) -> None:
        """Refuse arrays that are not those of this run, and points that are not on the manifold."""
        own = jax.tree.leaves((self._x, self._state, self._output, self._good))
        arrays, names = saved.arrays, saved.facts["history"]
        kinds = [[(tuple(a.shape), np.dtype(a.dtype)) for a in some] for some in (own, arrays[: len(own)])]
        if kinds[0] != kinds[1]:
            raise RefusedError("its arrays are not those of such a run")
        columns = arrays[len(own) :]
        if len(columns) != len(names) or len({len(column) if column.ndim else -1 for column in columns}) > 1:
            raise RefusedError("its history is not a table")
        if names and not {"step", "sfo", "seconds", "loss", "violation", "direction_norm"} <= set(names):
            raise RefusedError("its history lacks columns")
        if self.settings.seeds is None:  # of a sweep, some runs may have diverged
            self._check_points(saved)

    def _check_points(self, saved: Snapshot) -> None:
        leaves, structure = jax.tree.flatten((self._x, self._state, self._output, self._good))
        x, _, output, good = jax.tree.unflatten(structure, saved.arrays[: len(leaves)])
        manifold = self.settings.problem.manifold
        with np.errstate(all="ignore"):  # huge numbers overflow on the way to being refused
            for point in (x, output, *good):
                if not finite(point) or not float(manifold.violation(point)) <= off_manifold(point):
                    raise RefusedError(f"its points do not lie on {manifold}")

    def _make_feed(self, resumed: bool) -> Feed:
        try:
            return self.settings.make_feed(self._place)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            if not resumed:
                raise
            raise RefusedError(f"the checkpoint's place in the data makes no sense: {error!r}") from error

    def _restore(self, saved: Snapshot) -> list[Row]:
        """Take up where a checkpoint ends; returns the rows of its history."""
        leaves, structure = jax.tree.flatten((self._x, self._state, self._output, self._good))
        carried = jax.tree.unflatten(structure, saved.arrays[: len(leaves)])
        self._x, self._state, self._output, self._good = self._driver.load(carried)
        facts = saved.facts
        self._position, self._seconds, self._place = Position(**facts["position"]), facts["seconds"], facts["place"]
        if self._place is None and self._position.step:
            raise ValueError(
                "this stream cannot be wound forward, so the run cannot be resumed; "
                "see retrax.Stream(..., deterministic=True), or give a stream with get_state and set_state"
            )
        columns = [list(column) if column.ndim > 1 else column.tolist() for column in saved.arrays[len(leaves) :]]
        return [dict(zip(facts["history"], row, strict=True)) for row in zip(*columns, strict=True)]
