"""How the cost of a step grows with n, b, d and r; and whether memory grows with the number of steps."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np

import retrax as rx
from benchmarks import cases, machine, timing
from benchmarks.cases import Case
from benchmarks.contenders import by_c, retrax_runs
from benchmarks.sizes import Sizes
from benchmarks.timing import Contender

CURVES = ("retrax RSRM", "retrax RSGD", "C, RSRM")


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """One curve for each of n, b, d and r, and memory against steps."""
    dimension, rank, n = sizes.pca_dimensions[0], sizes.rank, sizes.samples
    small = 20 if sizes.name != "tiny" else 8
    axes: dict[str, dict[int, Callable[[], tuple[Case, int, str]]]] = {
        "n": {k: lambda k=k: (_large(k, small), 5, "float32") for k in sizes.growth_samples},
        "b": {k: lambda k=k: (cases.pca(dimension, rank, n), k, "float64") for k in sizes.growth_batches},
        "d": {k: lambda k=k: (cases.pca(k, rank, n), 5, "float64") for k in sizes.growth_dimensions if k > rank},
        "r": {k: lambda k=k: (cases.pca(2 * dimension, k, n), 5, "float64") for k in sizes.growth_ranks},
    }
    results: dict[str, Any] = {
        "fixed": {
            "n": f"PCA on Gr({small},{5 if small > 8 else 2}), b = 5, float32",
            "b": f"PCA on Gr({dimension},{rank}), n = {n}, float64",
            "d": f"PCA on Gr(d,{rank}), b = 5, n = {n}, float64",
            "r": f"PCA on Gr({2 * dimension},r), b = 5, n = {n}, float64",
        }
    }
    for axis, points in axes.items():
        curve = []
        for value, make in points.items():
            case, batch, dtype = make()
            say(f"growth: {axis} = {value}")
            curve.append({"value": value} | timing.measure(_contenders(case, batch, dtype, sizes), *_often(sizes, say)))
            del case
            gc.collect()
        results[axis] = curve
    results["memory"] = memory(sizes, say)
    return results


def _often(sizes: Sizes, say: Callable[[str], None]) -> tuple[int, Callable[[str], None]]:
    return sizes.growth_repetitions, say


def _contenders(case: Case, batch: int, dtype: str, sizes: Sizes) -> list[Contender]:
    weight = case.start.size * max(1, batch // 5) / 1000
    # A run also starts and draws a first batch, some milliseconds: steps enough to leave that behind.
    steps = int(max(2 * sizes.compiled_steps / max(0.2, weight / 4), 50))
    method, plain = rx.rsrm(case.step_size), rx.rsgd(case.step_size)
    found = [
        Contender(CURVES[0], lambda: retrax_runs.minimize(case, method, batch, steps, dtype), f"b = {batch}", True),
        Contender(CURVES[1], lambda: retrax_runs.minimize(case, plain, 2 * batch, steps, dtype), f"b = {2 * batch}"),
    ]
    if dtype == "float64":
        found.append(Contender(CURVES[2], lambda: by_c.rsrm(case, steps, batch), "polar"))
    other = {"float64": "float32", "float32": "float64"}[dtype]
    found.append(
        Contender(f"{CURVES[0]}, {other}", lambda: retrax_runs.minimize(case, method, batch, steps, other), "")
    )
    return found


def _large(n: int, d: int) -> Case:
    """Many samples in few dimensions, in single precision: 10⁷ take 0.8 GB."""
    rank = 5 if d > 8 else 2
    scales = np.sqrt(np.linspace(1, 0.05, d)).astype(np.float32)
    data = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    data *= scales
    return Case("pca", f"Gr({d},{rank}), n = {n}", data, rx.problems.PCA(data, rank), cases.PCA_STEP)


def memory(sizes: Sizes, say: Callable[[str], None]) -> list[dict[str, float]]:
    """Resident memory after runs of more and more steps in this process."""
    case = cases.pca(sizes.pca_dimensions[0], sizes.rank, sizes.samples)
    rows = []
    for steps in sizes.memory_steps:
        rx.minimize(case.problem, rx.rsrm(case.step_size), steps=steps, batch_size=5, record=steps, progress=False)
        gc.collect()
        rows.append({"steps": steps, "resident_mb": machine.resident_bytes() / 2**20})
        say(f"memory after {steps} steps: {rows[-1]['resident_mb']:.0f} MB")
    return rows
