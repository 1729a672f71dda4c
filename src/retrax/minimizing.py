"""The front door: `minimize` runs one method on one problem to its end."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from retrax._arguments import integer, is_real, one_of, real
from retrax._precision import precision
from retrax.checkpoint import Checkpoint, Keeper
from retrax.methods import Method
from retrax.problems.base import Problem
from retrax.progress import ProgressLine
from retrax.recording import History, InterruptedRun, Record, Result, Row, TerminatedRun, off_manifold
from retrax.run import Run, Watch
from retrax.settings import Settings
from retrax.typing import Point


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
    average: bool = False,
    tolerance: float | None = None,
    patience: int = 3,
    confidence: float = 0.95,
    loss_bound: float | None = None,
    progress: bool | None = None,
    on_record: Callable[[int, dict[str, float]], Any] | None = None,
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    on_interrupt: str = "raise",
    driver: str = "jax",
) -> Result:
    """Minimise a problem by a method and return the last iterate, the history and what it cost.

    steps: how many steps to take. batch_size: samples per step (a number or a function of t). first_batch_size: samples
    in the large batches that start the method, and restart RSVRG, RSRG and RSPIDER; by default 100 for RSRM, all the
    data for those three, `batch_size` for the others. x0: the start (default: a random point from the seed). record:
    measure every so many steps, or a `Record`. dtype: "float32" or "float64" (default: that of x0, else of the data).
    average: also keep the average of the iterates, weighted towards the end (`methods.Averaged` says how), as
    `result.average`, with its loss and gap in the history. tolerance: stop as converged once the gradient norm stays
    below it for `patience` records; where that norm is not of all the data and the method estimates its error e
    (`rsrm()` does), once ‖d‖ + e/√(1 - confidence) does, a bound of the norm that holds with this confidence.
    loss_bound: stop as diverged above it. on_record(step, metrics): called after each record; a true result stops the
    run.
    checkpoint: write checkpoints as `Checkpoint` says. resume: continue from the newest one, to the same bits as a run
    that was never interrupted; start afresh if there is none. Ctrl-C and SIGTERM end the run after a moment: it writes
    its checkpoint and raises `InterruptedRun` (a KeyboardInterrupt) or `TerminatedRun` (a SystemExit), whose `result`
    is what it had; on_interrupt="return" returns that instead. driver: "jax" (compiled) or "eager" (a NumPy loop, for
    debugging).
    """
    check_checkpoint(checkpoint, resume)
    check_callback(on_record, "on_record must be a function of a step and its metrics")
    one_of(on_interrupt, "on_interrupt", "raise", "return")
    settings = Settings(
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
        checkpoint_every=None if checkpoint is None else checkpoint.every,
    )
    if settings.plan.steps is None:
        raise ValueError("steps is missing: how many steps to take")
    stop_rule = _StopRule(tolerance, patience, loss_bound, confidence, off_manifold(np.empty(0, settings.dtype)))
    line = ProgressLine(method.name, settings.plan.steps, progress)
    with started(settings, checkpoint, resume) as (run, keeper):
        try:
            return run.to_the_end(Watch(line, keeper, stop_rule.diverged, stop_rule.converged, on_record))
        except (InterruptedRun, TerminatedRun) as interruption:
            if on_interrupt == "raise":
                raise
            return interruption.result


@contextlib.contextmanager
def started(settings: Settings, checkpoint: Checkpoint | None, resume: bool) -> Iterator[tuple[Run, Keeper | None]]:
    """A run, from its newest checkpoint if it is to resume, and the keeper of its checkpoints."""
    if checkpoint is None:
        yield Run.of(settings), None
        return
    with precision(settings.dtype):
        keeper = Keeper(checkpoint, settings)
    with contextlib.closing(keeper):
        yield Run.of(settings, lambda fits: keeper.open(resume, fits)), keeper


def check_checkpoint(checkpoint: Any, resume: bool) -> None:
    """Refuse what is not a `Checkpoint`, and resuming without one."""
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"checkpoint must be a retrax.Checkpoint(directory, every=...), not {checkpoint!r}")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=retrax.Checkpoint(directory, every=...)")


def check_callback(function: Any, expected: str) -> None:
    """Refuse what cannot be called."""
    if function is not None and not callable(function):
        raise TypeError(f"{expected}, not {type(function).__name__}")


@dataclasses.dataclass(frozen=True)
class _StopRule:
    tolerance: float | None
    patience: int
    loss_bound: float | None
    confidence: float
    off_manifold: float

    def __post_init__(self) -> None:
        for value, name in ((self.tolerance, "tolerance"), (self.loss_bound, "loss_bound")):
            if value is not None:
                real(value, name)
        integer(self.patience, "patience", least=1)
        if not (is_real(self.confidence) and 0 < self.confidence < 1):
            raise ValueError(f"confidence must lie between 0 and 1, not {self.confidence!r}; try 0.95")

    def diverged(self, row: Row) -> str | None:
        """Why this record says that the run has diverged."""
        loss, violation = row["loss"], row["violation"]
        if not math.isfinite(loss):
            return f"the loss became {loss}"
        if not violation <= self.off_manifold:
            return f"the point left the manifold (violation {violation:.2g})"
        if not math.isfinite(row["direction_norm"]):
            return f"the direction's norm became {row['direction_norm']}"
        if self.loss_bound is not None and loss > self.loss_bound:
            return f"the loss {loss:.6g} exceeded loss_bound={self.loss_bound:g}"
        return None

    def converged(self, history: History) -> str | None:
        """Why the last `patience` records say that the run has converged."""
        if self.tolerance is None or len(history.rows) < self.patience:
            return None
        recent = history.rows[-self.patience :]
        estimated = not history.exact and "estimated_error" in history
        norms = [self._bound(row) if estimated else row["gradient_norm"] for row in recent]
        if not all(norm <= self.tolerance for norm in norms):
            return None
        how = f", with confidence {self.confidence:g}," if estimated else ""
        return f"gradient norm ≤ {self.tolerance:g}{how} in {self.patience} records, at step {recent[-1]['step']:.0f}"

    def _bound(self, row: Row) -> float:
        """‖d‖ + k e: since E‖d - grad F‖² = e², the norm exceeds it with a probability of at most 1/k² (Chebyshev)."""
        return row["direction_norm"] + row["estimated_error"] / math.sqrt(1 - self.confidence)
