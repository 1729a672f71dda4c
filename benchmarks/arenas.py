"""What is raced on: four problems, each with any number of samples and the same F for all of them.

The n samples are as many copies of each of the n₀ distinct ones, n₀ the smallest n, in random order. So F over all of
them is F over the distinct ones: exact and quick to measure, with one optimum for every n, so that nothing but the
number of samples changes. No contender looks for copies. Samples are of single precision, F is measured in double.
"""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import retrax as rx
from benchmarks import cases
from retrax.datasets import synthetic
from retrax.problems import deterministic
from retrax.problems.base import SampleMean, chunk_length

TARGETS = (1e-2, 1e-3, 1e-4)
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
CHUNK = 2**25
"""Bytes that are written or worked on at a time."""

Array = np.ndarray
Trace = Iterator[tuple[float, Array]]
"""(seconds so far, x) as a run goes on."""


@dataclasses.dataclass(frozen=True)
class Arena:
    """Samples, F over all of them, its smallest value and a start."""

    kind: str
    label: str
    bank: Array
    """The distinct samples."""
    problem: Callable[[Array], rx.Problem]
    start: Array
    value: Callable[[Array], float]
    optimum: float
    sums: Callable[[Array, Array], tuple[float, Array]]
    """(rows, x) ↦ the sums over the rows of loss and gradient, Riemannian for the centroid, else Euclidean."""
    batch: int
    rates: tuple[float, ...] = RATES
    data: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    """What contenders see."""
    chosen: dict[str, float] = dataclasses.field(default_factory=dict)
    """Learning rates found so far, by contender."""
    seed: int = 0
    """Another for each contender: the rows that one has read from a file lie in memory for the next."""

    def full(self, x: Array) -> tuple[float, Array]:
        """F and its gradient in one pass over all samples, as a deterministic method takes it."""
        value, gradient, step = 0.0, np.zeros(x.shape), _rows(self.data)
        for first in range(0, len(self.data), step):
            part = self.sums(np.asarray(self.data[first : first + step]), x.astype(self.data.dtype))
            value, gradient = value + part[0], gradient + part[1]
        return value / len(self.data), gradient / len(self.data)

    def times(self, trace: Trace, limit: float) -> list[float | None]:
        """Seconds at which F first lies within each target; None where it does not within the limit."""
        first = self.value(self.start.astype(float)) - self.optimum
        found: list[float | None] = [None] * len(TARGETS)
        for seconds, x in trace:
            if seconds > limit:
                break
            gap = (self._measured(np.asarray(x, dtype=float)) - self.optimum) / first
            found = [s if s is not None or not gap <= t else seconds for s, t in zip(found, TARGETS, strict=True)]
            if None not in found:
                break
        return found

    def _measured(self, x: Array) -> float:
        """F at x, made orthonormal where it should be: off the manifold F may lie below its optimum."""
        try:
            return self.value(x if self.kind == "centroid" else np.linalg.qr(x)[0])
        except np.linalg.LinAlgError:  # it has left the manifold
            return np.inf

    def rate(self, name: str, run: Callable[[float], Trace], limit: float) -> float:
        """The learning rate with which `run` gets furthest in `limit` seconds, and there first."""

        def rank(rate: float) -> list[float]:
            try:
                found = self.times(run(rate), limit)
            except Exception:  # a rate so large that it breaks down is not the best
                return [np.inf] * (len(TARGETS) + 1)
            return [np.inf if seconds is None else seconds for seconds in reversed(found)]

        if name not in self.chosen:
            self.chosen[name] = min(self.rates, key=rank)
        return self.chosen[name]


def too_large(bank: Array, n: int, path: pathlib.Path | None) -> str:
    """Why a file of n samples is not written; empty where it is. Half of the free disk stays free."""
    needed = bank[:1].nbytes * n
    free = shutil.disk_usage(path.parent).free if path else np.inf
    return f"its {needed / 1e9:.0f} GB are more than half of the {free / 1e9:.0f} GB free" if needed > free / 2 else ""


def drawn(bank: Array, n: int, path: pathlib.Path | None) -> Array:
    """n samples: each of the bank n / n₀ times, in random order; in memory, or in a file open for reading."""
    chosen = np.random.default_rng(1).permutation(n) % len(bank)
    if path is None:
        return bank[chosen]
    offset = np.lib.format.open_memmap(path, mode="w+", dtype=bank.dtype, shape=(n, *bank.shape[1:])).offset
    with path.open("r+b") as out:
        out.seek(offset)
        for first in range(0, n, _rows(bank)):
            out.write(memoryview(bank[chosen[first : first + _rows(bank)]]).cast("B"))
        out.flush()
        os.fsync(out.fileno())  # else the disk would still be at it while contenders run
    return np.load(path, mmap_mode="r")


def _rows(data: Array) -> int:
    return max(1, CHUNK // data[:1].nbytes)


def pca(n: int, d: int, r: int) -> Arena:
    """PCA of Gaussian samples with SYN1's spectrum."""
    bank = synthetic.pca(n, d, r).astype(np.float32)
    moment = bank.T.astype(float) @ bank / n

    def sums(rows: Array, x: Array) -> tuple[float, Array]:
        products = rows @ x
        return -float(np.sum(products**2, dtype=float)), -2 * (rows.T @ products)

    return Arena(
        "pca", f"PCA on Gr({d},{r})", bank, lambda data: rx.problems.PCA(data, r), _orthonormal(d, r),
        value=lambda x: -float(np.sum(x * (moment @ x))),
        optimum=-float(np.sum(np.linalg.eigvalsh(moment)[-r:])),
        sums=sums, batch=5 if d < 200 else 10,
    )  # fmt: skip


def robust_loss(x: Any, batch: Any) -> Any:
    """The mean of √(1 + ‖z - x xᵀz‖²): far samples count less than in PCA."""
    residual = batch - (batch @ x) @ x.T
    return jnp.mean(jnp.sqrt(1 + jnp.sum(residual**2, axis=-1)))


def robust(n: int, d: int, r: int) -> Arena:
    """A user's loss, on samples of which one in ten lies far out."""
    bank = synthetic.pca(n, d, r).astype(np.float32)
    bank[::10] *= np.random.default_rng(3).uniform(3, 10, (len(bank[::10]), 1)).astype(np.float32)
    exact, manifold = bank.astype(float), rx.Grassmann(d, r)

    def problem(data: Array) -> rx.Problem:
        return rx.Problem(robust_loss, manifold, data)

    def sums(rows: Array, x: Array) -> tuple[float, Array]:
        products = rows @ x
        residual = rows - products @ x.T
        lengths = np.sqrt(1 + np.sum(residual**2, axis=-1))
        residual /= lengths[:, None]
        return float(np.sum(lengths, dtype=float)), -(residual.T @ products + rows.T @ (residual @ x))

    def mean() -> Any:
        data = jnp.asarray(exact)
        return SampleMean(problem(exact).objective, chunk_length(data), data)

    starts = [rx.problems.PCA(exact, r).solution, _orthonormal(d, r).astype(float)]
    return Arena(
        "robust", f"robust PCA on Gr({d},{r}), a user's loss", bank, problem, _orthonormal(d, r),
        value=lambda x: sums(exact, x)[0] / n,
        optimum=deterministic.best_of(manifold, mean, starts, flatness=1e-12)[1],
        sums=sums, batch=5,
    )  # fmt: skip


def centroid(n: int, d: int) -> Arena:
    """The mean of SPD matrices."""
    bank = synthetic.spd(n, d).astype(np.float32)
    exact = bank.astype(float)
    problem = rx.problems.Centroid(exact)

    def value(x: Array) -> float:
        inverse = np.linalg.inv(np.linalg.cholesky(x))
        return float(np.sum(np.log(np.linalg.eigvalsh(inverse @ exact @ inverse.T)) ** 2)) / n

    def sums(rows: Array, x: Array) -> tuple[float, Array]:
        lower = np.linalg.cholesky(x)
        inverse = np.linalg.inv(lower)
        values, vectors = np.linalg.eigh(inverse @ rows @ inverse.T)
        logarithms = np.log(values)
        summed = np.sum((vectors * logarithms[:, None, :]) @ vectors.swapaxes(1, 2), axis=0)
        return float(np.sum(logarithms**2, dtype=float)), -2 * lower @ summed @ lower.T

    return Arena(
        "centroid", f"centroid on SPD({d})", bank, rx.problems.Centroid, bank[0],
        value=value, optimum=problem.optimum, sums=sums, batch=5,
    )  # fmt: skip


def joint(n: int, d: int) -> Arena:
    """Joint diagonalization of nearly diagonalizable matrices."""
    bank = cases.nearly_diagonalizable(n, d).astype(np.float32)
    problem = rx.problems.JointDiagonalization(bank)
    rows, columns = np.tril_indices(d)
    weights, moment = np.where(rows == columns, 1.0, 2.0)[:, None], problem.fourth_moment

    def value(x: Array) -> float:
        squares = weights * x[rows] * x[columns]
        return -float(np.sum(squares * (moment @ squares)))

    def sums(rows: Array, x: Array) -> tuple[float, Array]:
        products = rows @ x
        diagonals = np.sum(x * products, axis=-2)
        gradient = -4 * np.sum(products * diagonals[:, None, :], axis=0)
        return -float(np.sum(diagonals**2, dtype=float)), gradient

    return Arena(
        "joint", f"joint diagonalization on St({d},{d})", bank, rx.problems.JointDiagonalization,
        np.asarray(problem.initial_point(0), dtype=np.float32),
        value=value, optimum=problem.optimum, sums=sums, batch=20,
        rates=tuple(0.3 * rate for rate in RATES),  # its gradients are longer
    )  # fmt: skip


def _orthonormal(d: int, r: int) -> Array:
    return np.linalg.qr(np.random.default_rng(2).standard_normal((d, r)))[0].astype(np.float32)
