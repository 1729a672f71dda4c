"""The problems: data, a start and the indices of the mini-batches, the same for every contender."""

import dataclasses
import os
import pathlib
from typing import Any

import numpy as np

import retrax as rx
from retrax.datasets import synthetic

TWO_POINT_BATCH, ONE_POINT_BATCH = 5, 10
"""Both cost 10 SFO a step."""

PCA_STEP, JOINT_STEP, CENTROID_STEP = 0.1, 0.001, 0.1
"""η₀ of the step-cost runs: moderate, so that iterations inside a step are what they are in practice."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One problem."""

    kind: str
    label: str
    data: np.ndarray
    problem: rx.Problem
    step_size: float
    note: str = ""

    @property
    def start(self) -> np.ndarray:
        """The first iterate."""
        return np.asarray(self.problem.initial_point(0))

    def indices(self, steps: int, batch: int) -> np.ndarray:
        """Mini-batches for `steps` steps."""
        return np.random.default_rng(1).integers(0, len(self.data), (steps, batch)).astype(np.int32)


def pca(d: int, r: int = 10, n: int = 10_000, dtype: Any = np.float64, **choices: str) -> Case:
    """PCA on Gr(d, r)."""
    data = synthetic.pca(n, d, r).astype(dtype)
    return Case("pca", f"PCA on Gr({d},{r})", data, rx.problems.PCA(data, r, **choices), PCA_STEP)


def joint_diagonalization(n: int = 2414, d: int = 43) -> Case:
    """Joint diagonalization on St(d, d): YALEB's Gabor covariances where RETRAX_DATA leads to them, else synthetic."""
    data, note = _joint_matrices(n, d)
    d = data.shape[-1]
    problem = rx.problems.JointDiagonalization(data)
    return Case("joint", f"joint diagonalization on St({d},{d})", data, problem, JOINT_STEP, note)


def centroid(d: int, n: int = 2000) -> Case:
    """The centroid on SPD(d)."""
    data = synthetic.spd(n, d)
    return Case("centroid", f"centroid on SPD({d})", data, rx.problems.Centroid(data), CENTROID_STEP)


def _joint_matrices(n: int, d: int) -> tuple[np.ndarray, str]:
    if os.environ.get("RETRAX_DATA") and (n, d) == (2414, 43):
        from retrax.datasets.features import load_covariances

        cache = pathlib.Path(__file__).parent / "results" / "features"
        matrices, note = load_covariances("yaleb", "gabor", cache=cache)
        return np.asarray(matrices), f"YALEB: {note}"
    return nearly_diagonalizable(n, d), "synthetic: one rotation, random spectra, 10 % noise"


def nearly_diagonalizable(n: int, d: int, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    """SPD matrices Q diag(λᵢ) Qᵀ with one Q, log-normal spectra λᵢ, and a symmetric disturbance."""
    generator = np.random.default_rng(seed)
    frame = synthetic.haar(d, generator)
    spectra = np.exp(generator.standard_normal((n, d)))
    disturbance = generator.standard_normal((n, d, d)) * (noise / np.sqrt(d))
    matrices = (frame * spectra[:, None, :]) @ frame.T + (disturbance + disturbance.transpose(0, 2, 1)) / 2
    return (matrices + matrices.transpose(0, 2, 1)) / 2
