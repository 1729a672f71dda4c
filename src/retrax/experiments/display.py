"""Progress of a run of experiments: a live display on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, TextIO

from retrax.experiments import summary
from retrax.experiments.results import ComplexityResult, Part, Timing
from retrax.experiments.specs import Experiment
from retrax.experiments.units import Unit


class PlainDisplay:
    """One line for each finished unit. Also the base of the live display: it keeps the account."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._begun = time.monotonic()
        self._total = self._done = 0.0
        self._units = self._finished = 0

    def __enter__(self) -> "PlainDisplay":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self, experiment: Experiment, units: list[Unit], kept: int) -> None:
        """An experiment begins."""
        self._begun = time.monotonic()
        self._units, self._finished = len(units), kept
        self._total, self._done = sum(unit.weight for unit in units), 0.0
        continuing = f", {kept} of them kept from before" if kept else ""
        if kept:
            self._total *= (len(units) - kept) / len(units)
        self.line(f"{experiment.name}: {experiment.title}; {len(units)} units{continuing}")

    def update(self, unit: Unit, share: float, what: str) -> None:
        """A unit is so far; not worth a line."""

    def finish(self, unit: Unit, part: Part) -> None:
        """A unit is finished."""
        self._finished += 1
        self._done += unit.weight
        self.line(f"  [{self._finished}/{self._units}] {describe(unit, part)}{self._left()}")

    def end(self, experiment: Experiment) -> None:
        """The experiment is finished."""

    def line(self, text: str) -> None:
        """A line of text."""
        print(text, file=self._stream, flush=True)

    def _left(self) -> str:
        if not 0 < self._done < self._total:
            return ""
        seconds = (time.monotonic() - self._begun) * (self._total / self._done - 1)
        return f", about {duration(seconds)} left"


class LiveDisplay(PlainDisplay):
    """A bar with the unit at work, what it does, and the time left."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[units]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            transient=True,
        )
        self._task: Any = None

    def __enter__(self) -> "LiveDisplay":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, experiment: Experiment, units: list[Unit], kept: int) -> None:
        """An experiment begins."""
        super().begin(experiment, units, kept)
        self._task = self._progress.add_task(experiment.name, total=self._total, left="", units="")
        self._show(f"{experiment.name}: starting", self._done)

    def update(self, unit: Unit, share: float, what: str) -> None:
        """Move the bar by a share of the unit."""
        self._show(f"{unit.experiment.name}: {unit.label}, {what}", self._done + share * unit.weight)

    def finish(self, unit: Unit, part: Part) -> None:
        """A unit is finished."""
        super().finish(unit, part)
        self._show(f"{unit.experiment.name}", self._done)

    def end(self, experiment: Experiment) -> None:
        """The experiment is finished: its bar goes."""
        if self._task is not None:
            self._progress.remove_task(self._task)

    def line(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def _show(self, text: str, done: float) -> None:
        elapsed = time.monotonic() - self._begun
        left = f"{duration(elapsed * (self._total / done - 1))} left" if 0 < done < self._total else ""
        units = f"{self._finished}/{self._units}"
        self._progress.update(self._task, description=text, completed=done, units=units, left=left)


def open_display() -> PlainDisplay:
    """The display that suits standard error."""
    return LiveDisplay() if sys.stderr.isatty() else PlainDisplay()


def describe(unit: Unit, part: Part) -> str:
    """What came out of a unit, in a few words."""
    took = f"({duration(part.wall_seconds)})"
    if isinstance(part, ComplexityResult):
        return f"{unit.label}: exponent {summary.exponent_text(part)}, theory {part.entry.exponent:.3g} {took}"
    if isinstance(part, Timing):
        return f"{unit.label}: {duration(float(part.seconds[:, -1].max()))} a run {took}"
    curve = summary.curve_of(part)
    return f"{unit.label}: {summary.setting_text(curve)}, final gap {summary.number(curve.final[1])} {took}"


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
