"""What result files hold, as frozen dataclasses; `encoding` writes and reads them, `storage` keeps them."""

import dataclasses

import numpy as np

from retrax.experiments.series import Series
from retrax.experiments.specs import Budget, Entry, ProblemSpec


@dataclasses.dataclass(frozen=True)
class Machine:
    """The kind of machine; no names of people, machines or folders."""

    processor: str
    cores: int
    system: str
    xla_flags: str


@dataclasses.dataclass(frozen=True)
class Environment:
    """What a result was computed with; numbers depend on the versions, run times on the machine too."""

    versions: dict[str, str]
    machine: Machine


@dataclasses.dataclass(frozen=True)
class Choice:
    """The settings that a series was run with; no rate where the method finds its own."""

    rate: float | None
    variant: dict[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """Settings that were tried in tuning, and how far; `gap` has shape (tuning seeds, records)."""

    rate: float
    variant: dict[str, float]
    share: float
    """The share of the budget at which it was stopped; 1 where it ran to the end."""
    median_final: float
    sfo: np.ndarray
    gap: np.ndarray


@dataclasses.dataclass(frozen=True)
class Tuning:
    """How the settings of a series were chosen."""

    seeds: tuple[int, ...]
    beyond_grid: tuple[float, ...]
    """The step sizes tried because the best one lay at the grid's edge."""
    candidates: tuple[Candidate, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Runs:
    """The reported runs: arrays of shape (seeds, records), NaN after a run has diverged."""

    seeds: tuple[int, ...]
    sfo: np.ndarray
    gap: np.ndarray
    gradient_norm: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Timing:
    """Run times, measured apart: one run after another, with nothing else of ours at work."""

    key: str
    seeds: tuple[int, ...]
    seconds: np.ndarray
    """Shape (seeds, records), at the records of the reported runs; without compiling and measuring."""
    load: float
    """The load average of the last minute when it ended; 1 is this job itself."""
    others: float
    """Cores that other processes kept busy meanwhile; NaN where the system does not tell."""
    wall_seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class SeriesResult:
    """All about one curve."""

    key: str
    series: Series
    steps: int
    every: int
    """Steps between two records."""
    best: Choice
    tuning: Tuning | None
    runs: Runs
    timing: Timing | None = None
    """None until the last phase, in which run times are measured."""
    wall_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Point:
    """What it took to reach ‖grad F‖ ≤ ε: `sfo` of each seed, with the best step size for this ε."""

    epsilon: float
    rate: float
    median: float
    sfo: np.ndarray
    batches: dict[str, int]


@dataclasses.dataclass(frozen=True)
class ComplexityResult:
    """A row of Table 1, measured."""

    key: str
    entry: Entry
    variance: float
    """σ² at the solution."""
    seeds: tuple[int, ...]
    budget: int
    points: tuple[Point, ...]
    exponent: float
    """The slope of log SFO over log ε; NaN where too few ε were reached."""
    interval: tuple[float, float]
    """95 % of the exponents that resampled seeds would have given."""
    tuned_exponent: float
    """The slope with η₀ chosen for each ε instead of one for all, at a smaller budget; NaN where not measured."""
    wall_seconds: float = 0.0


Part = SeriesResult | ComplexityResult | Timing


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel of the figure, and the problem that it is about."""

    key: str
    title: str
    problem: ProblemSpec
    data_note: str
    data_digest: str
    samples: int
    shape: tuple[int, ...]
    manifold: str
    dtype: str
    optimum: float


@dataclasses.dataclass(frozen=True)
class ExperimentSettings:
    """What was asked for."""

    budget: Budget
    criterion: str
    rule: str
    """How step sizes were stopped early in tuning."""
    jobs: int
    schedules: str


@dataclasses.dataclass(frozen=True)
class ExperimentResult:
    """The self-describing result of an experiment."""

    format: int
    fingerprint: str
    experiment: str
    title: str
    figure: str
    quick: bool
    settings: ExperimentSettings
    notes: tuple[str, ...]
    claims: tuple[str, ...]
    panels: tuple[Panel, ...]
    series: tuple[SeriesResult, ...]
    complexity: tuple[ComplexityResult, ...]
    environment: Environment
    wall_seconds: float

    @property
    def timed(self) -> bool:
        """Whether all run times have been measured."""
        return all(part.timing is not None for part in self.series)


Results = dict[str, ExperimentResult]
"""By the experiments' names."""


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The smallest value of F found, kept because finding it takes long; hexadecimal, so that no digit is lost."""

    optimum: str
