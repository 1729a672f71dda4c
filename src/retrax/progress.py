"""A progress line for one run, shown on a terminal only unless asked for."""

import sys
from types import TracebackType
from typing import Any

import numpy as np


class ProgressLine:
    """A context manager; `moved` after each stretch of steps, `measured` after each record."""

    def __init__(self, name: str, steps: int | None, show: bool | None) -> None:
        self._bar: Any = None
        if show is None:
            show = sys.stderr.isatty()
        if show:
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

    def moved(self, step: int) -> None:
        """Show how far the run is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def measured(self, row: dict[str, Any]) -> None:
        """Show how good the run is; of a sweep, its best."""
        if self._bar is not None:
            shown = "gap" if "gap" in row else "loss"
            finite = np.ravel(row[shown])[np.isfinite(np.ravel(row[shown]))]
            best = f"{finite.min():.3e}" if finite.size else "nan"
            self._bar.update(self._task, completed=row["step"], note=f"{shown} {best}")
