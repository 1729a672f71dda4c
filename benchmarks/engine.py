"""Retrax against itself: a sweep against single runs, isometric transports against projection, RSRM against RSGD."""

from collections.abc import Callable
from typing import Any

import retrax as rx
from benchmarks import cases, timing
from benchmarks.cases import Case
from benchmarks.contenders import retrax_runs
from benchmarks.sizes import Sizes
from benchmarks.timing import Contender, Run
from retrax.problems import pca as pca_problem

GRASSMANN, STIEFEL = "Grassmann", "Stiefel"
SINGLE, SWEPT = "one run", "sweep, per run"


def sweep(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """Per run and step: `rx.sweep` over all step sizes and seeds at once, against `rx.minimize`."""
    results = {}
    rates = [0.5 / 2**k for k in range(sizes.sweep[0])]
    for case in (
        cases.pca(sizes.pca_dimensions[0], sizes.rank, sizes.samples),
        _small_centroid(sizes),
        cases.joint_diagonalization(*sizes.variant_joint),
    ):
        say(f"sweep, {case.label}")
        steps = max(sizes.compiled_steps // (20 if case.kind == "joint" else 5), 20)
        contenders = [
            Contender(SINGLE, _single(case, steps), "rx.minimize", True),
            Contender(SWEPT, _swept(case, steps, rates, sizes.sweep[1]), f"rx.sweep, {len(rates)} × {sizes.sweep[1]}"),
        ]
        results[case.label] = timing.measure(contenders, sizes.repetitions, say)
    return results


def _single(case: Case, steps: int) -> Callable[[], Run]:
    return lambda: retrax_runs.minimize(case, rx.rsrm(case.step_size), 5, steps)


def _swept(case: Case, steps: int, rates: list[float], seeds: int) -> Callable[[], Run]:
    def run() -> float:
        result = rx.sweep(case.problem, rx.rsrm, rates, seeds, steps=steps, batch_size=5, record=steps)["RSRM"]
        return result.seconds / (steps * len(rates) * seeds)

    return lambda: run


def _small_centroid(sizes: Sizes) -> Case:
    dimensions = sizes.centroid_dimensions
    return cases.centroid(10 if 10 in dimensions else dimensions[0], min(sizes.samples, 2000))


def transports(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """RSRM with projection against the isometric transport; RSGD at equal SFO."""
    d, steps = sizes.pca_dimensions[0], sizes.compiled_steps
    data = cases.pca(d, sizes.rank, sizes.samples).data
    groups = {
        GRASSMANN: [(name, rx.Grassmann(d, sizes.rank, transport=name)) for name in ("projection", "parallel")],
        STIEFEL: [(name, rx.Stiefel(d, sizes.rank, transport=name)) for name in ("projection", "rotation")],
    }
    results = {}
    for group, manifolds in groups.items():
        contenders = []
        for name, manifold in manifolds:
            problem = rx.Problem(pca_problem.loss, manifold, data)
            case = Case("pca", f"{group}({d},{sizes.rank})", data, problem, cases.PCA_STEP)
            contenders.append(Contender(f"RSRM, {name}", _runs(case, rx.rsrm, 5, steps), "", name == "projection"))
            if name == "projection":
                contenders.append(Contender("RSGD, same SFO", _runs(case, rx.rsgd, 10, steps)))
        label = f"{group}({d},{sizes.rank})"
        say(f"transports on {label}")
        results[label] = timing.measure(contenders, sizes.repetitions, say)
    return results


def _runs(case: Case, method: Callable[[float], rx.Method], batch: int, steps: int) -> Callable[[], Run]:
    return lambda: retrax_runs.minimize(case, method(case.step_size), batch, steps)
