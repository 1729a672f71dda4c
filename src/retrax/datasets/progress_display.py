"""Progress on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .loading import Progress

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def reporting(label: str) -> Iterator[Progress]:
    """A progress(done, total) function that shows `label` and how far it is."""
    if sys.stderr.isatty() and importlib.util.find_spec("rich"):
        with _bar(label) as report:
            yield report
    else:
        yield _lines(label)


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _lines(label: str) -> Progress:
    last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= SECONDS_BETWEEN_LINES:
            last = now
            share = f"{100 * done // total} %" if total else f"{done} bytes"
            print(f"{label}: {share}", file=sys.stderr, flush=True)

    return report
