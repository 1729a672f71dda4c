"""Time to accuracy: seconds until the gap is 10⁻² and 10⁻³ of the gap at the start. Measuring is outside the clock."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import retrax as rx
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.contenders import geoopt_runs, pymanopt_runs
from benchmarks.sizes import Sizes

TARGETS = (1e-2, 1e-3)
RATES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
Trace = Iterator[tuple[float, float]]
"""(seconds so far, F) as a run goes on."""


@dataclasses.dataclass(frozen=True)
class Race:
    """A contender's runs: `trace(seed)` starts one."""

    name: str
    trace: Callable[[int], Trace]
    note: str = ""


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """PCA (SYN1) and the centroid; joint diagonalization has its own page of rules."""
    pca_case = cases.pca(sizes.pca_dimensions[0], sizes.rank, sizes.samples)
    dimensions = sizes.centroid_dimensions
    centroid_case = cases.centroid(10 if 10 in dimensions else dimensions[0], min(sizes.samples, 5000))
    return {
        pca_case.label: _race(pca_case, _pca_races(pca_case, sizes, say), sizes, say),
        centroid_case.label: _race(centroid_case, _centroid_races(centroid_case, sizes, say), sizes, say),
    }


def _race(case: Case, races: list[Race], sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """All contenders in turn, seed after seed, after a warm-up run of each."""
    say(f"time to accuracy, {case.label}")
    optimum = float(case.problem.optimum)  # type: ignore[arg-type]
    start_gap = float(loss_of(case)(case.start)) - optimum
    goals = [optimum + target * start_gap for target in TARGETS]
    rows: list[dict[str, Any]] = []
    for race in races:
        try:
            _times(race.trace(0), goals)
            rows.append({"name": race.name, "note": race.note, "seconds": []})
        except ImportError as error:
            say(f"  skipped {race.name}: {error}")
    running = {race.name: race for race in races}
    for seed in range(sizes.accuracy_repetitions):
        for row in rows:
            row["seconds"].append(_times(running[row["name"]].trace(seed), goals))
    for row in rows:
        columns = np.array([[np.inf if s is None else s for s in run] for run in row["seconds"]])
        row["median_seconds"] = [None if np.isinf(m) else float(m) for m in np.median(columns, axis=0)]
        say(f"  {row['name']}: {row['median_seconds']}")
    return {"targets": TARGETS, "start_gap": start_gap, "rows": rows}


def _times(trace: Trace, goals: list[float]) -> list[float | None]:
    """Seconds at which each goal is reached first; None where it is not."""
    found: list[float | None] = [None] * len(goals)
    for seconds, value in trace:
        for k, goal in enumerate(goals):
            if found[k] is None and value <= goal:
                found[k] = seconds
        if all(second is not None for second in found):
            break
    return found


def loss_of(case: Case) -> Callable[[Any], float]:
    """F over all samples in NumPy."""
    if case.kind == "pca":
        moment = case.data.T @ case.data / len(case.data)
        return lambda x: -float(np.sum(x * (moment @ x)))
    if case.kind == "joint":
        return lambda x: -float(np.sum(np.sum(x * (case.data @ x), axis=-2) ** 2)) / len(case.data)

    def centroid(x: np.ndarray) -> float:
        inverse = np.linalg.inv(np.linalg.cholesky(x))
        return float(np.sum(np.log(np.linalg.eigvalsh(inverse @ case.data @ inverse.T)) ** 2)) / len(case.data)

    return centroid


def retrax_race(
    case: Case, factory: Callable[[float], rx.Method], batch: int, sizes: Sizes, *, rates: Any = RATES, steps: int = 0
) -> Race:
    """A retrax method with its best step size of the grid: the one that comes to the last goal in the fewest steps."""
    steps = steps or sizes.accuracy_steps
    every = max(1, steps // 400)
    swept = rx.sweep(case.problem, factory, rates, 3, steps=steps, batch_size=batch, record=every, x0=case.start)
    (result,) = swept.values()
    optimum, start = float(case.problem.optimum), float(loss_of(case)(case.start))  # type: ignore[arg-type]
    reached = result.curves["loss"] <= optimum + TARGETS[-1] * (start - optimum)
    first = np.where(reached.any(-1), result.step[reached.argmax(-1)], np.inf)
    order = np.lexsort((np.median(result.final, axis=1), np.median(first, axis=1)))
    best = rates[int(order[0])]
    needed = float(np.median(first, axis=1).min())
    length = steps if np.isinf(needed) else min(steps, int(2 * needed) + every)

    def trace(seed: int) -> Trace:
        history = rx.minimize(
            case.problem, factory(best), steps=length, batch_size=batch, record=max(1, length // 200), x0=case.start,
            seed=seed, progress=False,
        ).history  # fmt: skip
        yield from zip(history["seconds"], history["loss"], strict=True)

    return Race(f"retrax {result.name}", trace, f"b = {batch}, η₀ = {best:g}")


def geoopt_race(case: Case, optimizer: str, sizes: Sizes, rates: Any = (1.0, 0.3, 0.1, 0.03, 0.01)) -> Race:
    """geoopt with the best step size of a grid, constant as its users have it; b = 10."""

    def run(rate: float, seed: int) -> Trace:
        step, x = geoopt_runs.stepper(case, optimizer, rate)
        generator, value, seconds = np.random.default_rng(seed), loss_of(case), 0.0
        while seconds < sizes.eager_budget:
            batches = generator.integers(0, len(case.data), (20, 10))
            start = time.perf_counter()
            for chosen in batches:
                step(chosen)
            seconds += time.perf_counter() - start
            yield seconds, value(x.detach().numpy())

    optimum, start_value = float(case.problem.optimum), loss_of(case)(case.start)  # type: ignore[arg-type]
    goals = [optimum + target * (start_value - optimum) for target in TARGETS]
    outcomes = {rate: _times(run(rate, 0), goals) for rate in rates}
    best = min(rates, key=lambda rate: tuple(np.inf if s is None else s for s in reversed(outcomes[rate])))
    return Race(f"geoopt {optimizer}", lambda seed: run(best, seed), f"b = 10, learning rate {best:g}")


def _pca_races(case: Case, sizes: Sizes, say: Callable[[str], None]) -> list[Race]:
    say("choosing step sizes for PCA")
    races = [retrax_race(case, rx.rsrm, 5, sizes), retrax_race(case, rx.rsgd, 10, sizes)]
    races += _if_possible(say, lambda: geoopt_race(case, "RSGD", sizes), lambda: geoopt_race(case, "RAdam", sizes))
    races += [Race(f"pymanopt {name}", _pymanopt(case, name), "full batch") for name in ("CG", "TR")]
    return [*races, Race("scikit-learn IncrementalPCA", _incremental_pca(case), "batches of 5 d samples")]


def _centroid_races(case: Case, sizes: Sizes, say: Callable[[str], None]) -> list[Race]:
    say("choosing step sizes for the centroid")
    rates = (1.0, 0.5, 0.25, 0.1, 0.05)
    steps = max(sizes.accuracy_steps // 20, 50)
    races = [
        retrax_race(case, rx.rsrm, 5, sizes, rates=rates, steps=steps),
        retrax_race(case, rx.rsgd, 10, sizes, rates=rates, steps=steps),
    ]
    races += [Race("pymanopt CG", _pymanopt(case, "CG"), "full batch")]
    return [*races, Race("pyRiemann mean_riemann", _mean_riemann(case), "full batch, from the same start")]


def _if_possible(say: Callable[[str], None], *makers: Callable[[], Race]) -> list[Race]:
    races = []
    for make in makers:
        try:
            races.append(make())
        except ImportError as error:
            say(f"  skipped: {error}")
    return races


def _pymanopt(case: Case, name: str) -> Callable[[int], Trace]:
    def trace(seed: int) -> Trace:
        from pymanopt import optimizers

        method = {"CG": optimizers.ConjugateGradient, "TR": optimizers.TrustRegions}[name]
        seen: list[tuple[float, float]] = []
        begin = time.perf_counter()
        problem = pymanopt_runs.problem_of(
            case, lambda: case.data, lambda value: seen.append((time.perf_counter() - begin, value))
        )
        method(verbosity=0, max_time=60, max_iterations=200).run(problem, initial_point=case.start)
        yield from seen

    return trace


def _incremental_pca(case: Case) -> Callable[[int], Trace]:
    def trace(seed: int) -> Trace:
        from sklearn.decomposition import IncrementalPCA

        d, r = case.start.shape
        model, value, seconds = IncrementalPCA(r), loss_of(case), 0.0
        order = np.random.default_rng(seed).permutation(len(case.data))
        for chosen in np.array_split(order, max(1, len(order) // (5 * d))):
            start = time.perf_counter()
            model.partial_fit(case.data[chosen])
            seconds += time.perf_counter() - start
            yield seconds, value(model.components_.T)

    return trace


def _mean_riemann(case: Case) -> Callable[[int], Trace]:
    def trace(seed: int) -> Trace:
        import warnings

        try:
            from pyriemann.geometry.mean import mean_riemann
        except ImportError:
            from pyriemann.utils.mean import mean_riemann
        value = loss_of(case)
        for iterations in range(1, 30):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # not converged: intended
                x = mean_riemann(case.data, init=case.start, maxiter=iterations)
            yield time.perf_counter() - start, value(x)

    return trace
