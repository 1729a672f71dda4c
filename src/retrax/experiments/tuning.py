"""Runs one series: tunes η₀ (and variants) by successive halving, then runs the best on seeds of its own."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrax.experiments.results import Candidate, Choice, Runs, SeriesResult, Tuning
from retrax.experiments.series import Options, Series
from retrax.experiments.specs import Budget

if TYPE_CHECKING:
    from retrax.methods import Method
    from retrax.problems import Problem
    from retrax.recording import History

CRITERION = "smallest median over the tuning seeds of the final gap at the SFO budget"
BRIEF, KEPT = 1 / 8, 0.4
RULE = (
    "successive halving in two rounds: every step size runs for 1/8 of the budget, the best 40 % of them (3 of 7) for "
    "all of it; the step size just below the best one goes on as well, since longer runs favour smaller ones, and one "
    "that diverged never does"
)
MAX_EXTENSIONS = 2
Pair = tuple[int, float]
"""(number of the variant, η₀)."""
Notify = Callable[[float, str], None]
"""notify(share of the work done, what is being done)."""


def ladder(low: int = -6, high: int = 3) -> tuple[float, ...]:
    """Step sizes ..., 5, 1, 0.5, 0.1, ...: the paper's grid continued both ways, falling."""
    return tuple(float(f"{digit}e{power}") for power in range(high, low - 1, -1) for digit in (5, 1))


def steps_for(method: "Method", batch_size: int, first_batch_size: int | None, samples: int, epochs: float) -> int:
    """How many steps of a method spend about so many epochs of oracle calls."""
    sfo = epochs * samples
    first = first_batch_size or (samples if method.first_batch_size == "all" else batch_size)
    cost = batch_size * method.evaluations
    if method.restart_every is None:
        return max(1, 1 + round((sfo - first) / cost))
    period = max(1, samples // batch_size) if method.restart_every == "epoch" else int(method.restart_every)
    cycle = first + (period - 1) * cost
    cycles, rest = divmod(sfo, cycle)
    return max(1, int(cycles) * period + (1 + round((rest - first) / cost) if rest >= first else 0))


class Tuner:
    """The runs that tune one series; `candidates[variant, η₀]` is how far each was tried and what came out."""

    def __init__(self, problem: "Problem", series: Series, budget: Budget, notify: Notify) -> None:
        self.problem, self.series, self.budget, self.notify = problem, series, budget, notify
        self.candidates: dict[Pair, Candidate] = {}

    def tune(self, grid: Sequence[float]) -> Pair:
        """The best (variant, η₀). The first variant is tried on the whole grid, the others around its best η₀."""
        self._halve([(0, rate) for rate in grid])
        self._extend([0])
        others = list(range(1, len(self.series.variants)))
        if others:
            near = neighbours(self.best([0])[1])
            self._halve([(variant, rate) for variant in others for rate in near])
            self._extend(others)
        return self.best(range(len(self.series.variants)))

    def best(self, variants: Sequence[int]) -> Pair:
        """The smallest median final gap among these variants' candidates that ran to the end."""
        ended = [pair for pair, tried in self.candidates.items() if pair[0] in variants and tried.share == 1]
        return min(ended, key=self._median)

    def _median(self, pair: Pair) -> float:
        return self.candidates[pair].median_final

    def _halve(self, pairs: list[Pair]) -> None:
        """Run all of them briefly, and the promising ones to the end."""
        if len(pairs) > 2:
            self._try(pairs, BRIEF)
            pairs = survivors(pairs, self._median)
        self._try(pairs, 1.0)

    def _extend(self, variants: Sequence[int]) -> None:
        """Go on beyond the tried step sizes while the best one lies at their edge."""
        for _ in range(MAX_EXTENSIONS):
            wanted = [(v, rate) for v in variants for rate in self._beyond(v)]
            if not wanted:
                return
            self._try(wanted, 1.0)

    def _beyond(self, variant: int) -> tuple[float, ...]:
        tried = sorted(rate for v, rate in self.candidates if v == variant)
        if not any(v == variant and one.share == 1 for (v, _), one in self.candidates.items()):
            return ()
        best = self.best([variant])
        if not math.isfinite(self._median(best)):
            return ()
        rungs = ladder()
        if best[1] == tried[-1]:
            return tuple(rate for rate in rungs if rate > best[1])[-2:]
        if best[1] == tried[0]:
            return tuple(rate for rate in rungs if rate < best[1])[:2]
        return ()

    def _try(self, pairs: list[Pair], share: float) -> None:
        """Run all pairs on all tuning seeds for a share of the budget.

        One run after another and not as a sweep: all of them, and the reported runs, share one compiled program.
        """
        series, seeds = self.series, self.budget.tuning_seeds
        for number, (variant, rate) in enumerate(pairs):
            self.notify(share * number / len(pairs), f"tuning, {len(pairs)} η₀, {share:.3g} of the budget")
            method = series.method(rate, series.variants[variant])
            steps = steps_of(series, method, self.problem, share * self.budget.epochs)
            every = max(1, steps // self.budget.tuning_records)
            runs = side_by_side(
                [run_once(self.problem, series, method, steps, every, seed) for seed in seeds], series, seeds
            )
            self.candidates[variant, rate] = Candidate(
                rate, numbers(series.variants[variant]), share, median_final(runs.gap), runs.sfo, runs.gap
            )


def halving_cost(tried: int) -> float:
    """Runs of full length that successive halving among so many step sizes amounts to."""
    return BRIEF * tried + math.ceil(KEPT * tried) + 1 if tried > 2 else tried if tried > 1 else 0.0


def median_final(gap: np.ndarray) -> float:
    """The median over seeds of the final gap; infinite where runs have diverged."""
    last = gap[:, -1]
    return float(np.median(np.where(np.isfinite(last), last, np.inf)))


def survivors(pairs: list[Pair], median: Callable[[Pair], float]) -> list[Pair]:
    """Those that go on: the best ones, and the step size just below the best; never one that has diverged."""
    ranked = sorted((pair for pair in pairs if math.isfinite(median(pair))), key=median) or pairs[-1:]
    kept = set(ranked[: math.ceil(KEPT * len(pairs))])
    variant, rate = ranked[0]
    kept.update(sorted(pair for pair in ranked if pair[0] == variant and pair[1] < rate)[-1:])
    return [pair for pair in pairs if pair in kept]


def neighbours(rate: float) -> tuple[float, ...]:
    """A step size and the ones next to it, falling."""
    rungs = ladder()
    return rungs[max(0, rungs.index(rate) - 1) : rungs.index(rate) + 2]


def numbers(variant: Options) -> dict[str, float]:
    """A variant as a result holds it."""
    return {name: float(value) for name, value in variant}


def fitted(series: Series, problem: "Problem") -> Series:
    """The series with a first batch no larger than the data."""
    first, samples = series.first_batch_size, len(problem.data)
    return dataclasses.replace(series, first_batch_size=samples) if first and first > samples else series


def run_series(problem: "Problem", series: Series, budget: Budget, notify: Notify) -> SeriesResult:
    """Tune a series on the tuning seeds and run its best on the others; all that a result file holds of it."""
    series = fitted(series, problem)
    grid = budget.grid if series.rates is None else series.rates
    tuned = len(grid) > 1 or len(series.variants) > 1
    tuner = Tuner(problem, series, budget, lambda share, what: notify(0.7 * share, what))
    variant, rate = tuner.tune(grid) if tuned else (0, grid[0] if grid else None)
    method = series.method(rate, series.variants[variant])
    steps = steps_of(series, method, problem, budget.epochs)
    every = max(1, steps // budget.records)
    begin = 0.7 if tuned else 0.0
    histories = []
    for number, seed in enumerate(budget.seeds):
        notify(begin + (1 - begin) * number / len(budget.seeds), f"run {number + 1} of {len(budget.seeds)}")
        histories.append(run_once(problem, series, method, steps, every, seed))
    return SeriesResult(
        key=series.key,
        series=series,
        steps=steps,
        every=every,
        best=Choice(rate, numbers(series.variants[variant])),
        tuning=_tuning_record(tuner, grid) if tuned else None,
        runs=side_by_side(histories, series, budget.seeds),
    )


def steps_of(series: Series, method: "Method", problem: "Problem", epochs: float) -> int:
    """How many steps of a series so many epochs of SFO are."""
    return steps_for(method, series.batch_size, series.first_batch_size, len(problem.data), epochs)


def run_once(problem: "Problem", series: Series, method: "Method", steps: int, every: int, seed: int) -> "History":
    """The history of one run."""
    import retrax as rx

    result = rx.minimize(
        problem,
        method,
        steps=steps,
        batch_size=series.batch_size,
        first_batch_size=series.first_batch_size,
        seed=seed,
        record=rx.Record(every=every),
        average=series.average,
        progress=False,
    )
    return result.history


def side_by_side(histories: "Sequence[History]", series: Series, seeds: tuple[int, ...]) -> Runs:
    """The runs of a series; a diverged run's missing records are NaN."""
    longest = max(histories, key=lambda history: len(history.rows))
    names = ("average_gap" if series.average else "gap", "gradient_norm")
    gap, norm = (np.stack([padded(one[name], len(longest.rows)) for one in histories]) for name in names)
    return Runs(seeds, longest["sfo"].astype(float), gap, norm)


def padded(column: np.ndarray, length: int) -> np.ndarray:
    """The column of a run, with NaN for the records that it did not live to see."""
    return np.concatenate([column, np.full(length - len(column), np.nan)])


def _tuning_record(tuner: Tuner, grid: Sequence[float]) -> Tuning:
    ordered = sorted(tuner.candidates.items(), key=lambda item: (item[0][0], -item[0][1]))
    beyond = {rate for _, rate in tuner.candidates if rate not in grid}
    return Tuning(
        tuner.budget.tuning_seeds, tuple(sorted(beyond, reverse=True)), tuple(candidate for _, candidate in ordered)
    )
