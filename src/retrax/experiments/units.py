"""The units of work of an experiment: a unit is what is computed, kept and resumed as a whole."""

import dataclasses
from typing import ClassVar

from retrax.experiments import complexity, environment, storage, timing, tuning, workloads
from retrax.experiments.results import ComplexityResult, SeriesResult, Timing
from retrax.experiments.series import Series
from retrax.experiments.specs import ENTRIES, Budget, Complexity, Entry, Experiment, ProblemSpec
from retrax.experiments.tuning import Notify
from retrax.experiments.workloads import Place

DEFAULT_SEEDS, QUICK_SEEDS = 5, 3
QUICK_TUNING_SEEDS = 2
FIRST_TUNING_SEED = 10_000
"""Far above the reported seeds 0, 1, ...: nothing is judged on a seed that it was tuned on."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the user asked for, beside the experiments' names."""

    quick: bool = False
    seeds: int | None = None
    epochs: float | None = None

    def budget(self, experiment: Experiment, panel: str = "") -> Budget:
        """The budget of an experiment, or of one of its panels, under these wishes."""
        experiment = experiment.home_of(panel)
        count = self.seeds or (QUICK_SEEDS if self.quick else DEFAULT_SEEDS)
        epochs = self.epochs or (experiment.quick_epochs if self.quick else experiment.epochs)
        tuning_count = QUICK_TUNING_SEEDS if self.quick else experiment.tuning_seeds
        records = (min(experiment.records, 20), min(experiment.tuning_records, 4))
        return Budget(
            epochs,
            experiment.grid,
            tuple(range(count)),
            tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + tuning_count)),
            *(records if self.quick else (experiment.records, experiment.tuning_records)),
        )


@dataclasses.dataclass(frozen=True)
class SeriesUnit:
    """A series of an experiment."""

    kind: ClassVar[type[SeriesResult]] = SeriesResult
    experiment: Experiment
    series: Series
    budget: Budget
    place: Place

    @property
    def key(self) -> str:
        """A name for files."""
        return self.series.key

    @property
    def label(self) -> str:
        """A name for people."""
        return self.series.label

    @property
    def problem(self) -> ProblemSpec:
        """The problem it is run on."""
        return self.experiment.problem_of(self.series.panel)

    batch_size: ClassVar[int] = 10
    """Of the run of RSGD that stands for all in estimates."""

    @property
    def records(self) -> int:
        """Of a run."""
        return self.budget.records

    @property
    def sfo(self) -> float:
        """Of a run."""
        return self.budget.epochs * workloads.described(self.problem, self.place).count

    @property
    def weight(self) -> float:
        """Roughly how long it takes, in runs."""
        grid = self.budget.grid if self.series.rates is None else self.series.rates
        tried = tuning.halving_cost(len(grid)) + tuning.halving_cost(3 * (len(self.series.variants) - 1))
        return tried * len(self.budget.tuning_seeds) + len(self.budget.seeds)

    def content(self) -> tuple[object, ...]:
        """All that its numbers depend on."""
        return self.series, self.budget, self.problem

    def compute(self, notify: Notify) -> SeriesResult:
        """Run it."""
        problem = workloads.build(self.problem, self.place, self.series.problem_options)
        return tuning.run_series(problem, self.series, self.budget, notify)


@dataclasses.dataclass(frozen=True)
class ComplexityUnit:
    """A method of Table 1."""

    kind: ClassVar[type[ComplexityResult]] = ComplexityResult
    experiment: Experiment
    complexity: Complexity
    entry: Entry
    budget: Budget
    quick: bool
    place: Place

    @property
    def key(self) -> str:
        """A name for files."""
        return f"sfo-{self.entry.key}"

    @property
    def label(self) -> str:
        """A name for people."""
        return f"{self.entry.label}, SFO to ε"

    @property
    def problem(self) -> ProblemSpec:
        """The problem it is run on."""
        return dataclasses.replace(self.complexity.problem, data=f"online-{self.entry.noise}")

    @property
    def sfo(self) -> float:
        """Of a run."""
        return int(self.entry.share * (self.complexity.quick_budget if self.quick else self.complexity.budget))

    @property
    def batch_size(self) -> int:
        """Of its runs; those of restarting methods vary."""
        return 100 if self.entry.restarting else self.entry.batch_size

    @property
    def records(self) -> int:
        """Of a run."""
        return 100 * len(complexity.LENGTHS)

    @property
    def weight(self) -> float:
        """Roughly how long it takes, in runs."""
        tuned = complexity.TUNING_SHARE * len(complexity.RATES) * len(self.budget.tuning_seeds)
        return sum(complexity.LENGTHS) * (tuned + len(self.budget.seeds))

    def content(self) -> tuple[object, ...]:
        """All that its numbers depend on."""
        return self.entry, self.complexity.tolerances, self.sfo, self.budget.seeds, self.budget.tuning_seeds

    def compute(self, notify: Notify) -> ComplexityResult:
        """Run it."""
        problem, budget = workloads.build(self.problem, self.place), self.budget
        return complexity.measure(
            problem, self.entry, self.complexity.tolerances, int(self.sfo), budget.seeds, budget.tuning_seeds, notify
        )


@dataclasses.dataclass(frozen=True)
class TimingUnit:
    """The run time of a series whose runs are there."""

    kind: ClassVar[type[Timing]] = Timing
    experiment: Experiment
    part: SeriesResult
    place: Place

    @property
    def key(self) -> str:
        """A name for files."""
        return f"timing-{self.part.key}"

    @property
    def label(self) -> str:
        """A name for people."""
        return f"{self.part.series.label}, run time"

    @property
    def problem(self) -> ProblemSpec:
        """The problem it is run on."""
        return self.experiment.problem_of(self.part.series.panel)

    batch_size: ClassVar[int] = 10

    @property
    def records(self) -> int:
        """Of a run."""
        return len(self.part.runs.sfo)

    @property
    def sfo(self) -> float:
        """Of a run."""
        return float(self.part.runs.sfo[-1])

    @property
    def weight(self) -> float:
        """Roughly how long it takes, in runs."""
        return float(min(timing.TIMED_RUNS, len(self.part.runs.seeds)))

    def content(self) -> tuple[object, ...]:
        """All that its numbers depend on, and the machine."""
        return self.part.series, self.part.steps, self.part.best, self.problem, environment.machine()

    def compute(self, notify: Notify) -> Timing:
        """Run it."""
        problem = workloads.build(self.problem, self.place, self.part.series.problem_options)
        return timing.measure(problem, self.part, notify)


Unit = SeriesUnit | ComplexityUnit | TimingUnit


def units_of(experiment: Experiment, asked: Asked, place: Place) -> list[Unit]:
    """The units of an experiment."""
    units: list[Unit] = [
        SeriesUnit(experiment, series, asked.budget(experiment, series.panel), place) for series in experiment.series
    ]
    if experiment.complexity is not None:
        budget = asked.budget(experiment)
        units += [
            ComplexityUnit(experiment, experiment.complexity, entry, budget, asked.quick, place) for entry in ENTRIES
        ]
    return units


def fingerprint(unit: Unit) -> str:
    """A digest of all that a unit's numbers depend on: settings, data and code."""
    data = workloads.described(unit.problem, unit.place)
    return storage.fingerprint([storage.FORMAT, environment.versions(), data.digest, unit.content()])
