"""Figures derived from a result: quartiles, what it took to reach a share of the start gap, ranks."""

import dataclasses
import math

import numpy as np

from retrax.experiments.results import ExperimentResult, SeriesResult

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)


@dataclasses.dataclass(frozen=True)
class Curve:
    """One series of a result, with its runs as arrays of shape (seeds, records)."""

    key: str
    label: str
    panel: str
    in_paper: bool
    batch_size: int
    rate: float
    variant: dict[str, float]
    beyond_grid: bool
    """Whether the best η₀ lies outside the grid it was first looked for in."""
    steps: int
    sfo: np.ndarray
    seconds: np.ndarray
    gap: np.ndarray

    @property
    def quartiles(self) -> np.ndarray:
        """Lower quartile, median, upper quartile over seeds, (3, records); infinite where most runs have diverged."""
        return quartiles(self.gap)

    @property
    def time(self) -> np.ndarray:
        """The median run time at each record."""
        return np.nanmedian(self.seconds, axis=0)

    @property
    def final(self) -> tuple[float, float, float]:
        """Quartiles of the final gap."""
        low, median, high = self.quartiles[:, -1]
        return float(low), float(median), float(high)

    @property
    def start(self) -> float:
        """The median gap at the start."""
        return float(self.quartiles[1, 0])

    @property
    def seconds_per_step(self) -> float:
        """The median run time of a step."""
        return float(self.time[-1]) / self.steps

    def reached(self, target: float) -> tuple[float, float]:
        """(SFO, seconds) at which each run's gap first was `target` times its start gap: medians, maybe infinite."""
        below = self.gap <= target * self.gap[:, :1]
        first, ever = below.argmax(axis=1), below.any(axis=1)
        sfo = np.where(ever, self.sfo[first], np.inf)
        seconds = np.where(ever, self.seconds[np.arange(len(first)), first], np.inf)
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


def quartiles(runs: np.ndarray) -> np.ndarray:
    """Quartiles over the first axis; runs that have diverged count as infinitely bad."""
    values = np.where(np.isfinite(runs), runs, np.inf)
    return np.percentile(values, [25, 50, 75], axis=0, method="nearest")


def curves(result: ExperimentResult, panel: str | None = None) -> list[Curve]:
    """The series of a result (of one panel), in the order of the spec."""
    return [curve_of(part) for part in result.series if panel is None or part.series.panel == panel]


def curve_of(part: SeriesResult) -> Curve:
    """The curve of one series."""
    series, runs, tuning = part.series, part.runs, part.tuning
    return Curve(
        key=series.key,
        label=series.label,
        panel=series.panel,
        in_paper=series.in_paper,
        batch_size=series.batch_size,
        rate=part.best.rate,
        variant=part.best.variant,
        beyond_grid=tuning is not None and part.best.rate in tuning.beyond_grid,
        steps=part.steps,
        sfo=runs.sfo,
        seconds=runs.seconds,
        gap=runs.gap,
    )


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of an experiment's table."""

    curve: Curve
    rank: int
    """By the median final gap, 1 is best."""
    targets: tuple[tuple[float, float], ...]
    """(SFO, seconds) for each of TARGETS."""


def table(result: ExperimentResult, panel: str | None = None) -> list[Row]:
    """One row per series, best first."""
    ranked = sorted(curves(result, panel), key=lambda curve: curve.final[1])
    return [
        Row(curve, rank, tuple(curve.reached(target) for target in TARGETS)) for rank, curve in enumerate(ranked, 1)
    ]


def number(value: float, digits: int = 3) -> str:
    """A number for a table: 1.23e-04, 12 300, or a dash where there is none."""
    if not math.isfinite(value):
        return "–"
    if value != 0 and not 1e-2 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def rate_text(curve: Curve) -> str:
    """The chosen step size, the chosen variant, and a star where the grid had to be extended."""
    variant = "".join(f", {_SYMBOLS.get(name, name)}={value:g}" for name, value in curve.variant.items())
    return f"{curve.rate:g}{'*' if curve.beyond_grid else ''}{variant}"


_SYMBOLS = {"rho": "ρ₀"}
