"""Contenders take turns: one repetition of each, round after round, so that a busy moment slows all of them alike."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Run = Callable[[], float]
"""One repetition: takes some steps and returns seconds per step, by its own clock."""


class UnavailableError(Exception):
    """A contender cannot run here; the message says why."""


@dataclasses.dataclass(frozen=True)
class Contender:
    """A name and a way to set the contender up; setting up is outside the clock."""

    name: str
    build: Callable[[], Run]
    note: str = ""
    baseline: bool = False
    """Ratios are relative to this one."""


@dataclasses.dataclass
class Timing:
    """All repetitions of one contender. `first` is the warm-up: setting up, compiling and one repetition."""

    name: str
    note: str
    first_seconds: float
    seconds: list[float]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median, upper quartile, in seconds."""
        low, middle, high = np.percentile(self.seconds, [25, 50, 75])
        return float(low), float(middle), float(high)

    @property
    def median(self) -> float:
        """The median repetition, in seconds."""
        return self.quartiles[1]

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        low, middle, high = self.quartiles
        return {
            "name": self.name,
            "note": self.note,
            "median_us": middle * 1e6,
            "lower_quartile_us": low * 1e6,
            "upper_quartile_us": high * 1e6,
            "first_seconds": self.first_seconds,
            "repetitions_us": [second * 1e6 for second in self.seconds],
        }


def measure(contenders: Sequence[Contender], repetitions: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Warm every contender up, then interleave the repetitions. Ratios are medians of the ratios of each round."""
    runs: list[tuple[Contender, Run]] = []
    timings: list[Timing] = []
    skipped: dict[str, str] = {}
    for contender in contenders:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = contender.build()
                run()
        except Exception as error:  # what cannot run, or fails, is a note below the table
            skipped[contender.name] = str(error) or type(error).__name__
            say(f"  skipped {contender.name}: {error}")
            continue
        runs.append((contender, run))
        timings.append(Timing(contender.name, contender.note, time.perf_counter() - start, []))
    for _ in range(repetitions):
        for (_, run), timing in zip(runs, timings, strict=True):
            timing.seconds.append(run())
    for timing in timings:
        say(f"  {timing.name}: {timing.median * 1e6:.4g} µs")
    rows = [timing.as_dict() for timing in timings]
    _add_ratios(rows, [contender for contender, _ in runs], timings)
    return {"rows": rows, "skipped": skipped}


def _add_ratios(rows: list[dict[str, Any]], contenders: list[Contender], timings: list[Timing]) -> None:
    """The contender's time over the baseline's, round by round."""
    baselines = [timing for contender, timing in zip(contenders, timings, strict=True) if contender.baseline]
    if not baselines:
        return
    reference = np.array(baselines[0].seconds)
    for row, timing in zip(rows, timings, strict=True):
        low, middle, high = np.percentile(np.array(timing.seconds) / reference, [25, 50, 75])
        row |= {"ratio": float(middle), "ratio_quartiles": [float(low), float(high)], "baseline": baselines[0].name}


def timed(function: Callable[[], Any], steps: int) -> Run:
    """A repetition by wall clock."""

    def run() -> float:
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) / steps

    return run


def ratio_of(result: dict[str, Any], name: str, other: str) -> float | None:
    """Median over rounds of time(name) / time(other); None where either did not run."""
    found = {row["name"]: np.array(row["repetitions_us"]) for row in result["rows"]}
    if name not in found or other not in found:
        return None
    return float(np.median(found[name] / found[other]))
