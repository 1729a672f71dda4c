"""A tiny experiment that runs in seconds, and hand-made results for what is derived from results."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from retrax.experiments import environment, series, specs, storage, workloads
from retrax.experiments.results import (
    Choice,
    ComplexityResult,
    ExperimentResult,
    ExperimentSettings,
    Panel,
    Point,
    Runs,
    SeriesResult,
    Timing,
    Tuning,
)
from retrax.experiments.series import Series
from retrax.experiments.specs import EXPERIMENTS, Budget, Experiment, ProblemSpec

# Before JAX computes anything: on two cores XLA's pool has been seen to wait for itself for ever.
environment.single_threaded_operations()

TINY = Experiment(
    "tiny",
    "A tiny PCA",
    "no figure",
    ProblemSpec("pca", "tiny", 2),
    (
        series.rsrm(20),
        series.RSGD,
        dataclasses.replace(series.compared(20)[8], variants=((("rho", 0.1),), (("rho", 0.5),))),
    ),
    epochs=5,
    quick_epochs=2,
    claims=("rsrm_best", "rho_default", "runtime_best"),
    grid=(0.5, 0.1, 0.01),
    records=10,
    tuning_records=5,
    notes=("A note.",),
)


def tiny_data() -> tuple[np.ndarray, str]:
    """200 samples in 6 dimensions."""
    scales = np.array([2.0, 1.5, 0.5, 0.3, 0.2, 0.1])
    return np.random.default_rng(5).standard_normal((200, 6)) * scales, "tiny <data>"


def register_tiny() -> None:
    """Add the experiment, as anyone would add one."""
    specs.EXPERIMENTS["tiny"] = TINY
    workloads.SYNTHETIC["tiny"] = tiny_data


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The tiny experiment, known by its name for the length of a test."""
    monkeypatch.setitem(specs.EXPERIMENTS, "tiny", TINY)
    monkeypatch.setitem(workloads.SYNTHETIC, "tiny", tiny_data)
    return TINY


class Silent:
    """A display that remembers what it was told."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.finished: list[str] = []
        self.said: list[str] = []

    def begin(self, experiment, units, kept):
        """An experiment begins."""
        self.kept.append(kept)

    def update(self, unit, share, what):
        """A unit is so far."""
        assert 0 <= share <= 1
        assert what

    def finish(self, unit, part):
        """A unit is finished."""
        self.finished.append(unit.key)

    def end(self, experiment):
        """The experiment is finished."""

    def line(self, text):
        """Something to say."""
        self.said.append(text)


@pytest.fixture
def silent() -> Silent:
    """A display for tests."""
    return Silent()


SHARES = np.linspace(0, 1, 11)


def made_series(key: str, finals: list[float], *, gap=None, seconds: float | None = 1.0, others=0.0, **more):
    """A series whose runs fall geometrically from 1 to the given final gaps in 11 records, `seconds` in all."""
    gaps = np.array([[final**share for share in SHARES] for final in finals]) if gap is None else np.array(gap, float)
    records = gaps.shape[1]
    spec = Series(key, more.pop("label", key.upper()), "rsgd", panel=more.pop("panel", ""))
    spec = dataclasses.replace(spec, in_paper=more.pop("in_paper", True))
    tuning = Tuning((10_000,), tuple(more.pop("beyond_grid", ())), ())
    runs = Runs(tuple(range(len(gaps))), 1000.0 * np.arange(records), gaps, gaps)
    timing = None
    if seconds is not None:
        timing = Timing(f"timing-{key}", (0,), seconds * np.linspace(0, 1, records)[None], 1.0, others)
    best = Choice(more.pop("rate", 0.1), more.pop("variant", {}))
    assert not more
    return SeriesResult(key, spec, 1000, 100, best, tuning, runs, timing, 1.0)


def made_complexity(key: str, exponent: float, *, spread: float = 0.05, constant: float = 10.0, reached: int = 15):
    """A row of Table 1 that needs `constant` ε^exponent oracle calls, for the first `reached` of 15 ε."""
    entry = next(entry for entry in specs.ENTRIES if entry.key == key)
    tolerances = EXPERIMENTS["table1"].complexity.tolerances
    needed = [constant * epsilon**exponent if k < reached else math.inf for k, epsilon in enumerate(tolerances)]
    points = tuple(Point(e, 0.5, sfo, np.array([sfo] * 3), {"b": 1}) for e, sfo in zip(tolerances, needed, strict=True))
    interval = (exponent - spread, exponent + spread)
    return ComplexityResult(f"sfo-{key}", entry, 1.0, (0, 1, 2), 10**7, points, exponent, interval, -2.0)


def made_panel(key: str = "", title: str = "Panel") -> Panel:
    """A panel about nothing."""
    return Panel(key, title, TINY.problem, "made", "0", 1000, (4, 2), "Grassmann", "float64", -1.0)


def made_result(*parts, claims: tuple[str, ...] = (), name="pca-syn1", panels=None, complexity=()) -> ExperimentResult:
    """A result made of such series."""
    return ExperimentResult(
        format=storage.FORMAT,
        fingerprint="f",
        experiment=name,
        title="Made by <hand> & not run",
        figure="Fig. 0",
        quick=False,
        settings=ExperimentSettings(Budget(1.0, (1.0, 0.1), (0, 1, 2), (10_000,), 10, 5), "c", "r", 1, "s"),
        notes=("Note.",),
        claims=tuple(claims),
        panels=(made_panel(),) if panels is None else tuple(panels),
        series=tuple(parts),
        complexity=tuple(complexity),
        environment=environment.current(),
        wall_seconds=3.0,
    )


def with_series(result: ExperimentResult, *parts: SeriesResult) -> ExperimentResult:
    """The result with these series in the place of those of the same key."""
    changed = {part.key: part for part in parts}
    return dataclasses.replace(result, series=tuple(changed.get(part.key, part) for part in result.series))


@pytest.fixture
def paper_like() -> ExperimentResult:
    """A result with all the paper's methods, RSRM best."""
    finals = {"rsrm": 1e-4, "rsgd": 1e-2, "csgd-m": 5e-2, "crmsprop": 1.1e-2, "ramsgrad": 9e-3}
    finals |= {"rasa-l": 1.2e-2, "rasa-r": 1.3e-2, "rasa-lr": 1e-2}
    parts = [made_series(key, [0.9 * final, final, 1.1 * final]) for key, final in finals.items()]
    parts.append(made_series("rsrm-rho", [9e-5, 9e-5, 9e-5], in_paper=False, variant={"rho": 0.3}))
    return made_result(
        *parts, claims=("rsrm_best", "adaptive_like_sgd", "runtime_best", "rho_default", "cost_per_step")
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for results that does not exist yet."""
    return tmp_path / "results"
