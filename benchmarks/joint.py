"""Joint diagonalization against pyRiemann's `rjd`: seconds until F is within 0.1 % of what `rjd` ends at."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import retrax as rx
from benchmarks import cases
from benchmarks.accuracy import Trace, loss_of
from benchmarks.cases import Case
from benchmarks.sizes import Sizes
from retrax.problems import deterministic, joint_diagonalization

CLOSE = 1e-3
METHODS = (("RSRM", rx.rsrm, 50), ("RSGD", rx.rsgd, 100))
RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """`rjd` once, then retrax: stochastic runs to the goal, and the deterministic solve that gives `optimum`."""
    case = cases.joint_diagonalization(*sizes.joint)
    say(f"time to rjd's objective, {case.label}")
    value = loss_of(case)
    try:
        seconds, goal_value = _rjd(case, value)
    except ImportError as error:
        return {"skipped": str(error)}
    goal = goal_value * (1 - CLOSE) if goal_value < 0 else goal_value * (1 + CLOSE)
    say(f"  rjd: {seconds:.3g} s, F = {goal_value:.6g}")
    rows = [{"name": "pyRiemann rjd", "note": "to its own tolerance", "seconds": [seconds], "reached": goal_value}]
    for name, factory, batch in METHODS:
        rows.append(_stochastic(case, name, factory, batch, goal, sizes))
        say(f"  {name}: {rows[-1]['seconds']} ({rows[-1]['note']})")
    rows.append(_deterministic(case, goal, sizes.accuracy_repetitions))
    say(f"  deterministic: {rows[-1]['seconds']}")
    return {"note": case.note, "within": CLOSE, "goal": goal, "label": case.label, "rows": rows}


def _rjd(case: Case, value: Callable[[Any], float]) -> tuple[float, float]:
    try:
        from pyriemann.geometry.ajd import rjd
    except ImportError:
        from pyriemann.utils.ajd import rjd
    start = time.perf_counter()
    vectors, _ = rjd(case.data)
    seconds = time.perf_counter() - start
    return seconds, min(value(vectors), value(vectors.T))


def _stochastic(case: Case, name: str, factory: Any, batch: int, goal: float, sizes: Sizes) -> dict[str, Any]:
    """The step size that needs the fewest steps is found first, outside the clock; each seed then has its own run."""
    n = len(case.data)
    batch = min(batch, n // 2)
    steps = min(sizes.accuracy_steps // 10, 2000)
    every = max(1, steps // 100)
    scale = float(np.mean(np.sum(case.data**2, axis=(1, 2))))
    outcomes = {}
    for rate in RATES:
        trace = _trace(case, factory(rate * 10 / scale), batch, steps, every, 0, goal)
        outcomes[rate] = _first(trace, goal)
    reaching = {rate: at for rate, at in outcomes.items() if at is not None}
    if not reaching:
        return {"name": f"retrax {name}", "note": f"goal not reached in {steps} steps", "seconds": [], "reached": None}
    best = min(reaching, key=lambda rate: reaching[rate])
    learning_rate = best * 10 / scale
    seconds = []
    for seed in range(sizes.accuracy_repetitions):
        seconds.append(_first(_trace(case, factory(learning_rate), batch, steps, every, seed, goal), goal))
    return {
        "name": f"retrax {name}",
        "note": f"b = {batch}, η₀ = {learning_rate:.3g}, random start",
        "seconds": seconds,
        "reached": goal,
    }


def _trace(case: Case, method: rx.Method, batch: int, steps: int, every: int, seed: int, goal: float) -> Trace:
    history = rx.minimize(
        case.problem,
        method,
        steps=steps,
        batch_size=batch,
        record=every,
        seed=seed,
        x0=case.start,
        progress=False,
        on_record=lambda step, row: row["loss"] <= goal,
    ).history
    yield from zip(history["seconds"], history["loss"], strict=True)


def _first(trace: Trace, goal: float) -> float | None:
    return next((float(seconds) for seconds, value in trace if value <= goal), None)


def _deterministic(case: Case, goal: float, repetitions: int) -> dict[str, Any]:
    """Barzilai-Borwein on the fourth moment from one random start, with the moment in the clock; compiled before."""
    seconds, value = [], np.nan
    for repetition in range(repetitions + 1):
        start = time.perf_counter()
        problem = rx.problems.JointDiagonalization(case.data)
        moment = problem.fourth_moment
        _, value = deterministic.best_of(
            problem.manifold,
            lambda moment=moment, problem=problem: joint_diagonalization.FourthMoment(problem.manifold, moment),
            [case.start],
        )
        if repetition:
            seconds.append(time.perf_counter() - start)
    note = f"full gradients, to ‖grad F‖ ≤ 1e-10; F = {value:.6g}"
    return {
        "name": "retrax, deterministic",
        "note": note,
        "seconds": seconds if value <= goal else [],
        "reached": value,
    }
