"""Runs one series: tunes η₀ (and variants) by a sweep, then runs the best singly for an honest clock."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrax.experiments.results import Candidate, Choice, Runs, SeriesResult, Tuning
from retrax.experiments.series import Options, Series
from retrax.experiments.specs import Budget

if TYPE_CHECKING:
    from retrax.methods import Method
    from retrax.problems import Problem

CRITERION = "smallest median over the tuning seeds of the final gap at the SFO budget"
MAX_EXTENSIONS = 2
Notify = Callable[[float, str], None]
"""notify(share of the work done, what is being done)."""


def ladder(low: int = -6, high: int = 3) -> tuple[float, ...]:
    """Step sizes ..., 5, 1, 0.5, 0.1, ...: the paper's grid continued both ways, falling."""
    return tuple(float(f"{digit}e{power}") for power in range(high, low - 1, -1) for digit in (5, 1))


def steps_for(method: "Method", batch_size: int, first_batch_size: int | None, samples: int, sfo: float) -> int:
    """How many steps of a method spend about `sfo` oracle calls."""
    first = first_batch_size or (samples if method.first_batch_size == "all" else batch_size)
    cost = batch_size * method.evaluations
    if method.restart_every is None:
        return max(1, 1 + round((sfo - first) / cost))
    period = max(1, samples // batch_size) if method.restart_every == "epoch" else int(method.restart_every)
    cycle = first + (period - 1) * cost
    cycles, rest = divmod(sfo, cycle)
    return max(1, int(cycles) * period + (1 + round((rest - first) / cost) if rest >= first else 0))


class Tuner:
    """The sweeps of one series; `curves[variant, η₀]` has shape (seeds, records)."""

    def __init__(self, problem: "Problem", series: Series, budget: Budget, steps: int, notify: Notify) -> None:
        self.problem, self.series, self.budget, self.steps, self.notify = problem, series, budget, steps, notify
        self.curves: dict[tuple[int, float], np.ndarray] = {}
        self.sfo: list[int] = []

    def tune(self, grid: Sequence[float]) -> tuple[int, float]:
        """The best (variant, η₀). The first variant is tried on the whole grid, the others around its best η₀."""
        self._sweep([(0, rate) for rate in grid])
        self._extend([0])
        others = list(range(1, len(self.series.variants)))
        if others:
            near = neighbours(self.best([0])[1])
            self._sweep([(variant, rate) for variant in others for rate in near])
            self._extend(others)
        return self.best(range(len(self.series.variants)))

    def best(self, variants: Sequence[int]) -> tuple[int, float]:
        """The smallest median final gap among these variants."""
        return min((pair for pair in self.curves if pair[0] in variants), key=self.median_final)

    def median_final(self, pair: tuple[int, float]) -> float:
        """The median over seeds of the final gap; infinite where runs have diverged."""
        last = self.curves[pair][:, -1]
        return float(np.median(np.where(np.isfinite(last), last, np.inf)))

    def _extend(self, variants: Sequence[int]) -> None:
        """Go on beyond the tried step sizes while the best one lies at their edge."""
        for _ in range(MAX_EXTENSIONS):
            wanted = [(v, rate) for v in variants for rate in self._beyond(v)]
            if not wanted:
                return
            self._sweep(wanted)

    def _beyond(self, variant: int) -> tuple[float, ...]:
        tried = sorted(rate for v, rate in self.curves if v == variant)
        best = self.best([variant])[1]
        if not math.isfinite(self.median_final((variant, best))):
            return ()
        rungs = ladder()
        if best == tried[-1]:
            return tuple(rate for rate in rungs if rate > best)[-2:]
        if best == tried[0]:
            return tuple(rate for rate in rungs if rate < best)[:2]
        return ()

    def _sweep(self, pairs: list[tuple[int, float]]) -> None:
        """All pairs and tuning seeds in one vmapped compilation; the sweep's step sizes are the pairs' numbers."""
        import retrax as rx

        def method(index: float) -> "Method":
            variant, rate = pairs[int(index)]
            return self.series.method(rate, self.series.variants[variant])

        runs = f"{len(pairs)} η₀ × {len(self.budget.tuning_seeds)} seeds"
        self.notify(0.0, f"tuning, {runs}")
        result = rx.sweep(
            self.problem,
            {self.series.label: method},
            range(len(pairs)),
            self.budget.tuning_seeds,
            steps=self.steps,
            batch_size=self.series.batch_size,
            first_batch_size=self.series.first_batch_size,
            record=rx.Record(points=min(self.budget.tuning_records, self.steps)),
            on_record=lambda _, step: self.notify(step / self.steps, f"tuning, {runs}"),
        )[self.series.label]
        self.sfo = result.sfo.tolist()
        for index, pair in enumerate(pairs):
            self.curves[pair] = result.curves["gap"][index].astype(np.float32)


def neighbours(rate: float) -> tuple[float, ...]:
    """A step size and the ones next to it, falling."""
    rungs = ladder()
    return rungs[max(0, rungs.index(rate) - 1) : rungs.index(rate) + 2]


def run_series(problem: "Problem", series: Series, budget: Budget, notify: Notify) -> SeriesResult:
    """Tune a series and run its best; everything that a result file holds of it."""
    samples = len(problem.data)
    if series.first_batch_size is not None and series.first_batch_size > samples:
        series = dataclasses.replace(series, first_batch_size=samples)
    grid = series.rates or budget.grid
    sample_method = series.method(grid[0], series.variants[0])
    steps = steps_for(sample_method, series.batch_size, series.first_batch_size, samples, budget.epochs * samples)
    tuner = Tuner(problem, series, budget, steps, lambda share, what: notify(0.5 * share, what))
    tuned = len(grid) > 1 or len(series.variants) > 1
    variant, rate = tuner.tune(grid) if tuned else (0, grid[0])
    return SeriesResult(
        key=series.key,
        series=series,
        steps=steps,
        best=Choice(rate, numbers(series.variants[variant])),
        tuning=_tuning_record(tuner, series, grid) if tuned else None,
        runs=run_singly(problem, series, budget, steps, series.variants[variant], rate, notify),
    )


def numbers(variant: Options) -> dict[str, float]:
    """A variant as a result holds it."""
    return {name: float(value) for name, value in variant}


def _tuning_record(tuner: Tuner, series: Series, grid: Sequence[float]) -> Tuning:
    return Tuning(
        criterion=CRITERION,
        seeds=tuner.budget.tuning_seeds,
        sfo=tuple(tuner.sfo),
        beyond_grid=tuple(sorted({rate for _, rate in tuner.curves if rate not in grid}, reverse=True)),
        candidates=tuple(
            Candidate(rate, numbers(series.variants[variant]), tuner.median_final((variant, rate)), gap)
            for (variant, rate), gap in sorted(tuner.curves.items(), key=lambda item: (item[0][0], -item[0][1]))
        ),
    )


def run_singly(
    problem: "Problem", series: Series, budget: Budget, steps: int, variant: Options, rate: float, notify: Notify
) -> Runs:
    """One run after another, each with the machine to itself; a diverged run's missing records are NaN."""
    import retrax as rx

    histories = []
    for number, seed in enumerate(budget.seeds):
        begun = 0.5 + 0.5 * number / len(budget.seeds)
        notify(begun, f"η₀={rate:g}, run {number + 1} of {len(budget.seeds)}")
        result = rx.minimize(
            problem,
            series.method(rate, variant),
            steps=steps,
            batch_size=series.batch_size,
            first_batch_size=series.first_batch_size,
            seed=seed,
            record=rx.Record(points=min(budget.records, steps)),
            progress=False,
        )
        if result.status is rx.Status.INTERRUPTED:
            raise KeyboardInterrupt
        histories.append(result.history)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    longest = max(histories, key=lambda history: len(history.rows))
    length = len(longest.rows)

    def column(name: str) -> np.ndarray:
        return np.stack([_padded(history[name], length) for history in histories])

    return Runs(budget.seeds, round(load, 1), longest["sfo"], column("gap"), column("gradient_norm"), column("seconds"))


def _padded(column: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([column, np.full(length - len(column), np.nan)]).astype(np.float32)
