"""Run times, measured apart from everything else: one run after another, in one process, as the last phase."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrax.experiments.results import SeriesResult, Timing
from retrax.experiments.tuning import Notify, padded, run_once

if TYPE_CHECKING:
    from retrax.problems import Problem

TIMED_RUNS = 3


def measure(problem: "Problem", part: SeriesResult, notify: Notify) -> Timing:
    """The clock of a series' first reported runs, at the records that it has already."""
    records, seeds = len(part.runs.sfo), part.runs.seeds[:TIMED_RUNS]
    method = part.series.method(part.best.rate, tuple(part.best.variant.items()))
    columns, begun = [], _Usage()
    for number, seed in enumerate(seeds):
        notify(number / len(seeds), f"run time, run {number + 1} of {len(seeds)}")
        history = run_once(problem, part.series, method, part.steps, part.every, seed)
        columns.append(padded(history["seconds"], records))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return Timing(f"timing-{part.key}", seeds, np.stack(columns), round(load, 2), round(begun.others(), 2))


class _Usage:
    """How many cores other processes keep busy from now on: the system's processor time without this process's."""

    def __init__(self) -> None:
        self._wall, self._all, self._own = time.perf_counter(), _busy_seconds(), time.process_time()

    def others(self) -> float:
        """Cores, on average; NaN where the system does not tell."""
        wall = time.perf_counter() - self._wall
        used = _busy_seconds() - self._all - (time.process_time() - self._own)
        return max(0.0, used / wall) if used == used else used


def _busy_seconds() -> float:
    """Processor time of all processes since the start, by Linux's account; NaN elsewhere."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system = (int(field) for field in fields[1:4])
        return float(user + nice + system) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return float("nan")
