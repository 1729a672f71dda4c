"""Figures derived from a result: quartiles, what it took to reach a share of the start gap, ranks."""

import dataclasses
import math

import numpy as np

from retrax.experiments.results import ComplexityResult, ExperimentResult, Runs, SeriesResult

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)


@dataclasses.dataclass(frozen=True)
class Curve:
    """One series of a result, with its runs as arrays of shape (seeds, records)."""

    key: str
    label: str
    panel: str
    in_paper: bool
    batch_size: int
    rate: float | None
    """None where the method finds its own step size."""
    variant: dict[str, float]
    beyond_grid: bool
    """Whether the best η₀ lies outside the grid it was first looked for in."""
    sfo: np.ndarray
    gap: np.ndarray
    time: np.ndarray
    """The median run time at each record; NaN where it has not been measured."""
    seconds_per_step: float

    @property
    def quartiles(self) -> np.ndarray:
        """Lower quartile, median, upper quartile over seeds, (3, records); infinite where most runs have diverged."""
        return quartiles(self.gap)

    @property
    def final(self) -> tuple[float, float, float]:
        """Quartiles of the final gap."""
        low, median, high = self.quartiles[:, -1]
        return float(low), float(median), float(high)

    @property
    def start(self) -> float:
        """The median gap at the start."""
        return float(self.quartiles[1, 0])

    def reached(self, target: float) -> tuple[float, float]:
        """(SFO, seconds) at which each run's gap first was `target` times its start gap: medians, maybe infinite."""
        below = self.gap <= target * self.gap[:, :1]
        first, ever = below.argmax(axis=1), below.any(axis=1)
        sfo = np.where(ever, self.sfo[first], np.inf)
        seconds = np.where(ever, self.time[first], np.inf)
        return float(np.median(sfo)), float(np.median(seconds))

    def median_at_sfo(self, limit: float) -> float:
        """The median gap at the last record not after this SFO."""
        return self._median_at(self.sfo, limit)

    def median_at_time(self, limit: float) -> float:
        """The median gap at the last record not after this run time."""
        return self._median_at(self.time, limit)

    def _median_at(self, axis: np.ndarray, limit: float) -> float:
        index = int(np.searchsorted(axis, limit, side="right")) - 1
        return float(self.quartiles[1, max(0, index)])


def overlap(one: Curve, other: Curve) -> bool:
    """Whether the quartile bands of the final gaps overlap."""
    return one.final[0] <= other.final[2] and other.final[0] <= one.final[2]


def quartiles(runs: np.ndarray) -> np.ndarray:
    """Quartiles over the first axis; runs that have diverged count as infinitely bad."""
    values = np.where(np.isfinite(runs), runs, np.inf)
    return np.percentile(values, [25, 50, 75], axis=0, method="nearest")


def curves(result: ExperimentResult, panel: str | None = None) -> list[Curve]:
    """The series of a result (of one panel), in the order of the spec."""
    return [curve_of(part) for part in result.series if panel is None or part.series.panel == panel]


def curve_of(part: SeriesResult) -> Curve:
    """The curve of one series; the gaps of scaled data, in PCA and joint diagonalization, over the scale's square."""
    series, runs, tuning = part.series, part.runs, part.tuning
    scale = float(dict(series.problem_options).get("scale", 1.0))
    return Curve(
        key=series.key,
        label=series.label,
        panel=series.panel,
        in_paper=series.in_paper,
        batch_size=series.batch_size,
        rate=part.best.rate,
        variant=part.best.variant,
        beyond_grid=tuning is not None and part.best.rate in tuning.beyond_grid,
        sfo=runs.sfo,
        gap=runs.gap / scale**2,
        time=run_time(part),
        seconds_per_step=run_time(part)[-1] / part.steps,
    )


def run_time(part: SeriesResult) -> np.ndarray:
    """The median run time at each record; NaN where it was not measured, or where most timed runs had diverged."""
    if part.timing is None:
        return np.full(len(part.runs.sfo), np.nan)
    return np.median(part.timing.seconds, axis=0)


def until(result: ExperimentResult, share: float) -> ExperimentResult:
    """The result as it would stand had the runs ended at this share of the budget (tuning stays as it was)."""
    return dataclasses.replace(result, series=tuple(_until(part, share) for part in result.series))


def _until(part: SeriesResult, share: float) -> SeriesResult:
    runs, last = part.runs, int(np.searchsorted(part.runs.sfo, share * part.runs.sfo[-1], side="right"))
    gap, norm = runs.gap[:, :last], runs.gradient_norm[:, :last]
    timing = part.timing
    if timing is not None:
        timing = dataclasses.replace(timing, seconds=timing.seconds[:, :last])
    steps = round(part.steps * float(runs.sfo[last - 1] / runs.sfo[-1]))
    return dataclasses.replace(
        part, steps=max(1, steps), runs=Runs(runs.seeds, runs.sfo[:last], gap, norm), timing=timing
    )


SHARES = (0.1, 0.5, 1.0)
"""The shares of the budget at which the order of the methods is shown."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of an experiment's table."""

    curve: Curve
    ranks: tuple[int, ...]
    """By the median gap at each of SHARES, 1 is best."""
    targets: tuple[tuple[float, float], ...]
    """(SFO, seconds) for each of TARGETS."""


def table(result: ExperimentResult, panel: str | None = None) -> list[Row]:
    """One row per series, best at the end first."""
    found = curves(result, panel)
    ranks = [_ranks(found, share) for share in SHARES]
    rows = [
        Row(curve, tuple(rank[curve.key] for rank in ranks), tuple(curve.reached(target) for target in TARGETS))
        for curve in found
    ]
    return sorted(rows, key=lambda row: row.ranks[-1])


def _ranks(found: list[Curve], share: float) -> dict[str, int]:
    ranked = sorted(found, key=lambda curve: curve.median_at_sfo(share * curve.sfo[-1]))
    return {curve.key: rank for rank, curve in enumerate(ranked, 1)}


def number(value: float, digits: int = 3) -> str:
    """A number for a table: 1.23e-04, 12 300, or a dash where there is none."""
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-2 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def exponent_text(part: ComplexityResult) -> str:
    """A measured exponent with its interval; a dash where too few ε were reached."""
    if math.isnan(part.exponent):
        return "–"
    low, high = part.interval
    return f"{part.exponent:.2f} [{low:.2f}, {high:.2f}]"


def microseconds(curve: Curve) -> str:
    """The run time of a step."""
    return number(1e6 * curve.seconds_per_step)


def rate_text(curve: Curve) -> str:
    """The chosen step size and variant, with a star where the grid had to be extended."""
    variant = "".join(f", {_SYMBOLS.get(name, name)}={value:g}" for name, value in curve.variant.items())
    return "none needed" if curve.rate is None else f"{curve.rate:g}{'*' if curve.beyond_grid else ''}{variant}"


def setting_text(curve: Curve) -> str:
    """What the curve was run with, as a label has it."""
    return "no η₀" if curve.rate is None else f"η₀={rate_text(curve)}"


_SYMBOLS = {"rho": "ρ₀"}
