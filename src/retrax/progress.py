"""A progress line for one run, shown on a terminal only unless asked for."""

import contextlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

_SECONDS_BETWEEN_LINES = 1.0
_SECONDS_OF_SILENCE = 2.0


class ProgressLine:
    """A context manager; `moved` after each stretch of steps, `measured` after each record.

    A bar where rich is installed (extra "experiments"), else a line now and then.
    """

    def __init__(self, name: str, steps: int | None, show: bool | None) -> None:
        self._bar: Any = None
        self._name, self._steps = name, steps
        self._next_line = float("inf")
        self._shown = sys.stderr.isatty() if show is None else show
        if self._shown and not importlib.util.find_spec("rich"):
            self._next_line = time.monotonic()
        elif self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True))
            self._task = self._bar.add_task(name, total=steps, note="")

    def __enter__(self) -> "ProgressLine":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Around what a first call compiles: says so, should it last."""
        text = f"{self._name}: compiling its steps; retrax.cache(directory) would keep them for the next process"
        timer = threading.Timer(_SECONDS_OF_SILENCE, self._say, [text])
        timer.daemon = True
        if self._shown:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def moved(self, step: int) -> None:
        """Show how far the run is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def measured(self, row: dict[str, Any]) -> None:
        """Show how good the run is; of a sweep, its best."""
        shown = "gap" if "gap" in row else "loss"
        finite = np.ravel(row[shown])[np.isfinite(np.ravel(row[shown]))]
        note = f"{shown} {finite.min():.3e}" if finite.size else f"{shown} nan"
        if self._bar is not None:
            self._bar.update(self._task, completed=row["step"], note=note)
        elif time.monotonic() >= self._next_line or (self._next_line < float("inf") and row["step"] == self._steps):
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            of = "" if self._steps is None else f" of {self._steps}"
            print(f"{self._name}: step {row['step']}{of}, {note}", file=sys.stderr, flush=True)
