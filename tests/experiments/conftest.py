"""A tiny experiment that runs in seconds, and hand-made results for what is derived from results."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from retrax.experiments import environment, problems, series, specs
from retrax.experiments.specs import Experiment, ProblemSpec

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
    problems.SYNTHETIC["tiny"] = tiny_data


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The tiny experiment, known by its name for the length of a test."""
    monkeypatch.setitem(specs.EXPERIMENTS, "tiny", TINY)
    monkeypatch.setitem(problems.SYNTHETIC, "tiny", tiny_data)
    return TINY


class Silent:
    """A display that remembers what it was told."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.finished: list[str] = []

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


@pytest.fixture
def silent() -> Silent:
    """A display for tests."""
    return Silent()


def made_series(key: str, finals: list[float], *, rate: float = 0.1, in_paper: bool = True, **more) -> dict:
    """A series whose runs fall geometrically from 1 to the given final gaps in 11 records, 0.1 s apart."""
    shares = np.linspace(0, 1, 11)
    gap = [[final**share for share in shares] for final in finals]
    seconds = more.pop("seconds", 1.0)
    spec = {
        "key": key,
        "label": more.pop("label", key.upper()),
        "panel": more.pop("panel", ""),
        "in_paper": in_paper,
        "batch_size": 10,
        "first_batch_size": None,
        "note": "",
    }
    return {
        "key": key,
        "series": spec,
        "steps": 1000,
        "best": {"rate": rate, "variant": more.pop("variant", {})},
        "tuning": {"beyond_grid": more.pop("beyond_grid", [])},
        "runs": {
            "seeds": list(range(len(finals))),
            "load": 0.5,
            "sfo": [1000 * index for index in range(11)],
            "seconds": [[seconds * share for share in shares]] * len(finals),
            "gap": more.pop("gap", gap),
        },
        "wall_seconds": 1.0,
    }


def made_result(*parts: dict, claims: tuple[str, ...] = (), **more) -> dict:
    """A result made of such series."""
    return {
        "format": 1,
        "fingerprint": "f",
        "experiment": more.pop("name", "pca-syn1"),
        "title": "Made by <hand> & not run",
        "figure": "Fig. 0",
        "quick": False,
        "settings": {
            "epochs": 1.0,
            "grid": [1.0, 0.1],
            "seeds": [0, 1, 2],
            "tuning_seeds": [0],
            "criterion": "c",
            "jobs": 1,
            "schedules": "s",
        },
        "notes": ["Note."],
        "claims": list(claims),
        "panels": more.pop(
            "panels",
            [
                {
                    "key": "",
                    "title": "Panel",
                    "data_note": "made",
                    "samples": 1000,
                    "shape": [4, 2],
                    "manifold": "Grassmann",
                    "dtype": "float64",
                    "optimum": -1.0,
                }
            ],
        ),
        "series": list(parts),
        "complexity": more.pop("complexity", []),
        "environment": {"versions": environment.versions(), "machine": environment.machine()},
        "wall_seconds": 3.0,
    }


@pytest.fixture
def paper_like() -> dict:
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
