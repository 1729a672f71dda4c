"""The cost of a step: retrax against C, NumPy, a plain JAX scan and three libraries, problem by problem."""

from collections.abc import Callable
from typing import Any

import numpy as np

import retrax as rx
from benchmarks import cases, timing
from benchmarks.cases import ONE_POINT_BATCH, TWO_POINT_BATCH, Case
from benchmarks.contenders import by_c, by_numpy, geojax_runs, geoopt_runs, plain_jax, pymanopt_runs, retrax_runs
from benchmarks.sizes import Sizes
from benchmarks.timing import Contender

RSRM, RSGD, PLAIN = "retrax RSRM", "retrax RSGD", "plain JAX scan, RSRM"
C_POLAR, C_CHOLESKY = "C, RSRM, polar", "C, RSRM, Cholesky QR"
GEOOPT_RSGD, GEOOPT_RADAM = "geoopt RSGD", "geoopt RAdam"


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """One table for each problem."""
    makers = [lambda d=d: cases.pca(d, sizes.rank, sizes.samples) for d in sizes.pca_dimensions]
    makers += [lambda: cases.joint_diagonalization(*sizes.joint)]
    makers += [lambda d=d: cases.centroid(d, min(sizes.samples, 2000)) for d in sizes.centroid_dimensions]
    results = {}
    for make in makers:
        case = make()
        say(case.label)
        result = timing.measure(contenders(case, sizes), sizes.repetitions, say)
        result["note"] = case.note
        result["agreement"] = agreement(case)
        say(f"  agreement after 100 steps: {result['agreement']}")
        results[case.label] = result
    return results


def contenders(case: Case, sizes: Sizes) -> list[Contender]:
    """All contenders for a problem; the C program knows PCA only."""
    heavy = case.kind == "joint" or case.data.shape[-1] == 43
    compiled = max(sizes.compiled_steps // (10 if heavy else 1), 20)
    eager = sizes.slow_eager_steps if heavy else sizes.eager_steps
    two, one = TWO_POINT_BATCH, ONE_POINT_BATCH
    method, plain_method = rx.rsrm(case.step_size), rx.rsgd(case.step_size)
    found = [
        Contender(RSRM, lambda: retrax_runs.minimize(case, method, two, compiled), "rx.minimize, b = 5", True),
        Contender(
            "retrax RSRM, loop only",
            lambda: retrax_runs.Loop(case, method, case.indices(min(compiled, 1024), two)),
            "the compiled loop, b = 5",
        ),
        Contender(RSGD, lambda: retrax_runs.minimize(case, plain_method, one, compiled), "rx.minimize, b = 10"),
        Contender(PLAIN, lambda: plain_jax.rsrm(case, compiled, two), "b = 5"),
        Contender("NumPy, RSRM", lambda: by_numpy.rsrm(case, 5 * eager, two), "by hand, b = 5"),
        Contender(GEOOPT_RSGD, lambda: geoopt_runs.steps_of(case, "RSGD", eager, one), _on(case)),
        Contender(GEOOPT_RADAM, lambda: geoopt_runs.steps_of(case, "RAdam", eager, one), _on(case)),
        Contender("pymanopt", lambda: pymanopt_runs.steps_of(case, 5 * eager, one), "gradient + retraction, b = 10"),
        Contender(
            "GeoJAX, StochasticGradient",
            lambda: geojax_runs.solver(case, max(3, sizes.slow_eager_steps), one),
            "its solver, eager, b = 10",
        ),
        Contender(
            "GeoJAX, compiled loop",
            lambda: geojax_runs.compiled_loop(case, compiled, one),
            "its geometry, RSGD, b = 10",
        ),
    ]
    if case.kind == "pca":
        found[4:4] = [
            Contender(C_POLAR, lambda: by_c.rsrm(case, compiled, two), "retrax's retraction, b = 5"),
            Contender(C_CHOLESKY, lambda: by_c.rsrm(case, compiled, two, "qr"), "LAPACK's dpotrf and dtrsm, b = 5"),
        ]
    return found


def agreement(case: Case) -> dict[str, float | str]:
    """Largest difference from NumPy after 100 steps on the same mini-batches; more than 1e-10 is an error."""
    indices = case.indices(100, TWO_POINT_BATCH)
    expected = by_numpy.trajectory(case, case.start, indices)
    differences: dict[str, float | str] = {}
    loop = retrax_runs.Loop(case, rx.rsrm(case.step_size), indices)
    differences["retrax"] = float(np.max(np.abs(np.asarray(loop.advance()) - expected)))
    if case.kind == "pca":
        try:
            for retraction in ("polar", "qr"):
                theirs = by_c.trajectory(case, case.start, indices, retraction)
                ours = by_numpy.trajectory(case, case.start, indices, retraction)
                differences[f"C, {retraction}"] = float(np.max(np.abs(theirs - ours)))
        except timing.UnavailableError as error:
            differences["C"] = str(error)
    for name, difference in differences.items():
        if not isinstance(difference, str) and not difference <= 1e-10:
            raise AssertionError(f"{case.label}: {name} differs from NumPy by {difference:.1e} after 100 steps")
    return differences


def _on(case: Case) -> str:
    manifold = {"pca": "on Stiefel: it has no Grassmann", "joint": "on Stiefel", "centroid": "affine-invariant SPD"}
    return f"{manifold[case.kind]}, b = 10"
