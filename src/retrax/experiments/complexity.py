"""Table 1 measured: how many oracle calls each method needs to bring E‖grad F‖ below ε, and how fast that grows.

The theorems fix a schedule and let ε fall, so one η₀ serves all ε, and what is measured is their quantity: the expected
norm at an iterate drawn uniformly, here from the second half of the run. Noise must dominate for the rates to differ.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrax.experiments.results import ComplexityResult, Point
from retrax.experiments.specs import Entry
from retrax.experiments.tuning import Notify

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
CONSTANT_RATES = (0.5, 0.1, 0.05, 0.01)
LENGTHS = (1 / 512, 1 / 64, 1 / 8, 1.0)
"""Shares of the budget: beginnings of the same run, the shorter the more finely recorded."""
TUNING_SHARE = 1 / 16
FIT_SHARE = 1e-2
"""Exponents are fitted from this share of the budget on: before that, descent still shows."""
MAX_CYCLES = 60
RESTARTING_SEEDS = 3
BOOTSTRAP = 1000


def gradient_variance(problem: Any, samples: int = 4096) -> float:
    """σ² = E‖grad f_i - grad F‖² at the solution, over the first samples."""
    from retrax._precision import precision

    with precision("float64"):
        import jax
        import jax.numpy as jnp

        x = jnp.asarray(problem.solution)
        part = jnp.asarray(problem.data[:samples])[:, None]
        gradients = jax.vmap(lambda sample: problem.objective.gradient(x, sample))(part)
        return float(jnp.mean(jnp.sum((gradients - gradients.mean(axis=0)) ** 2, axis=(1, 2))))


def measure(
    problem: Any,
    entry: Entry,
    tolerances: tuple[float, ...],
    budget: int,
    seeds: tuple[int, ...],
    tuning_seeds: tuple[int, ...],
    notify: Notify,
) -> ComplexityResult:
    """The SFO that a method needs for each ε, and the exponents."""
    variance = gradient_variance(problem)
    result = ComplexityResult(
        f"sfo-{entry.key}", entry, variance, seeds, budget, (), math.nan, (math.nan,) * 2, math.nan
    )
    if not entry.restarting:
        return _with_one_rate(problem, result, tolerances, tuning_seeds, notify)
    return _with_batches_for_each(
        problem, dataclasses.replace(result, seeds=seeds[:RESTARTING_SEEDS]), tolerances, notify
    )


def _with_one_rate(
    problem: Any, result: ComplexityResult, tolerances: tuple[float, ...], tuning_seeds: tuple[int, ...], notify: Notify
) -> ComplexityResult:
    """A decaying schedule: one long run serves all ε; shorter ones with other η₀ show what choosing it would bring."""
    entry, seeds = result.entry, result.seeds
    sfo, tried = _decaying(problem, entry, RATES, TUNING_SHARE * result.budget, tuning_seeds, notify)
    hits = [np.median(_hits(sfo, of_rate, tolerances), axis=1) for of_rate in tried]
    tuned = exponent(tolerances, np.min(hits, axis=0))
    sfo, (means,) = _decaying(problem, entry, (entry.rate,), result.budget, seeds, notify)
    rows = zip(tolerances, _hits(sfo, means, tolerances), strict=True)
    return dataclasses.replace(
        result,
        points=tuple(Point(e, entry.rate, float(np.median(row)), row, {"b": entry.batch_size}) for e, row in rows),
        exponent=curve_exponent(sfo, means.mean(axis=0)),
        interval=interval(lambda chosen: curve_exponent(sfo, means[chosen].mean(axis=0)), len(seeds)),
        tuned_exponent=tuned,
    )


def _with_batches_for_each(
    problem: Any, result: ComplexityResult, tolerances: tuple[float, ...], notify: Notify
) -> ComplexityResult:
    """A restarting method: a run for each ε, with the batches that its theory asks for."""
    found = [
        _restarting(problem, result, epsilon, notify, number / len(tolerances))
        for number, epsilon in enumerate(tolerances)
    ]
    shown, hits = reached(tolerances, np.array([point.sfo for point in found]))
    return dataclasses.replace(
        result,
        points=tuple(found),
        exponent=exponent(shown, np.median(hits, axis=1)),
        interval=interval(lambda chosen: exponent(shown, np.median(hits[:, chosen], axis=1)), len(result.seeds)),
    )


def reached(tolerances: Sequence[float], hits: np.ndarray) -> tuple[tuple[float, ...], np.ndarray]:
    """The ε that most seeds reached, and the SFO of each seed."""
    chosen = np.isfinite(np.median(hits, axis=1))
    return tuple(np.asarray(tolerances)[chosen]), hits[chosen]


def curve_exponent(sfo: np.ndarray, means: np.ndarray) -> float:
    """p of SFO = O(ε^p) from the last decades of a curve: one over the slope of log E‖grad F‖ over log SFO."""
    grid = np.geomspace(FIT_SHARE * sfo[-1], sfo[-1], 41)
    if not np.isfinite(means).all() or means[-1] <= 1e-12:
        return math.nan
    values = np.interp(np.log(grid), np.log(sfo[1:]), np.log(means[1:]))
    return float(1 / np.polyfit(np.log(grid), values, 1)[0])


def exponent(tolerances: Sequence[float], medians: np.ndarray) -> float:
    """The slope of log SFO over log ε through the points that were reached; NaN with fewer than three."""
    reached = np.isfinite(medians)
    if reached.sum() < 3:
        return math.nan
    return float(np.polyfit(np.log(np.asarray(tolerances)[reached]), np.log(medians[reached]), 1)[0])


def interval(estimate: Callable[[np.ndarray], float], seeds: int) -> tuple[float, float]:
    """95 % of the estimates that resampled seeds would have given (percentile bootstrap)."""
    chosen = np.random.default_rng(0).integers(0, seeds, (BOOTSTRAP, seeds))
    values = [value for value in map(estimate, chosen) if math.isfinite(value)]
    if not values:
        return math.nan, math.nan
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def second_half_mean(sfo: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """At each record T, the mean of ‖grad F‖ over the SFO from T/2 to T (trapezoids between records)."""
    steps = (norms[1:] + norms[:-1]) / 2 * np.diff(sfo)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    half = np.interp(sfo / 2, sfo, total)
    return np.where(sfo > 0, (total - half) / np.maximum(sfo / 2, 1e-300), norms)


def first_below(sfo: np.ndarray, values: np.ndarray, epsilon: float) -> float:
    """The SFO at which a curve first is at most ε, interpolated in the logarithms; infinite where it never is."""
    below = values <= epsilon
    if not below.any():
        return math.inf
    last = int(below.argmax())
    if last == 0 or sfo[last - 1] <= 0:
        return float(sfo[last])
    ends = np.log(values[[last, last - 1]])
    return float(np.exp(np.interp(math.log(epsilon), ends, np.log(sfo[[last, last - 1]]))))


def joined(pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """One curve from beginnings of the same run, given from the shortest (and finest) to the longest."""
    sfo, norms = np.asarray(pieces[0][0], float), pieces[0][1]
    for longer, values in pieces[1:]:
        later = longer > sfo[-1]
        sfo, norms = np.concatenate([sfo, longer[later]]), np.concatenate([norms, values[..., later]], axis=-1)
    return sfo, norms


def _decaying(
    problem: Any,
    entry: Entry,
    rates: tuple[float, ...],
    budget: float,
    seeds: tuple[int, ...],
    notify: Notify,
) -> tuple[np.ndarray, np.ndarray]:
    """(SFO, E‖grad F‖ over the second half), the second of shape (step sizes, seeds, records)."""
    import retrax as rx

    factory = getattr(rx, entry.recipe)
    cost = entry.batch_size * factory(rates[0]).evaluations
    pieces = []
    for share in LENGTHS:
        steps = max(2, int(share * budget) // cost)
        notify(share, f"{len(rates)} η₀ × {len(seeds)} seeds, {steps} steps")
        swept = rx.sweep(
            problem,
            {entry.label: factory},
            rates,
            seeds,
            steps=steps,
            batch_size=entry.batch_size,
            first_batch_size=entry.first_batch_size,
            record=rx.Record(points=min(steps, 100)),
            progress=False,
        )[entry.label]
        pieces.append((swept.sfo, swept.curves["gradient_norm"]))
    sfo, norms = joined(pieces)
    return sfo, np.array([[second_half_mean(sfo, run) for run in of_rate] for of_rate in norms])


def _hits(sfo: np.ndarray, means: np.ndarray, tolerances: Sequence[float]) -> np.ndarray:
    """The SFO at which each run has reached each ε, shape (ε, runs)."""
    return np.array([[first_below(sfo, mean, epsilon) for mean in means] for epsilon in tolerances])


def batch_sizes(entry: Entry, variance: float, epsilon: float, samples: int) -> dict[str, int]:
    """B, b and m of a restarting method for ε, with constants 1: powers of σ/ε, at most the data."""
    ratio = math.sqrt(variance) / epsilon
    large = min(samples, math.ceil(ratio**2))
    small = min(large, max(1, math.ceil(ratio**entry.small)))
    return {"B": large, "b": small, "m": max(1, math.ceil(ratio**entry.period))}


def _restarting(problem: Any, result: ComplexityResult, epsilon: float, notify: Notify, begun: float) -> Point:
    """Batches and period as the theory of the online setting asks for this ε; the best of a few constant step sizes."""
    import retrax as rx

    entry, seeds, budget = result.entry, result.seeds, result.budget
    sizes = batch_sizes(entry, result.variance, epsilon, len(problem.data))
    # RSPIDER's steps have a fixed length, which its theory takes proportional to ε.
    scale = epsilon if entry.recipe == "rspider" else 1.0
    factory = getattr(rx, entry.recipe)
    cycle = sizes["B"] + (sizes["m"] - 1) * 2 * sizes["b"]
    if sizes["B"] == len(problem.data) or cycle > budget:  # no longer the online setting, or beyond the budget
        return Point(epsilon, CONSTANT_RATES[0], math.inf, np.full(len(seeds), np.inf), sizes)
    steps = max(2, min(MAX_CYCLES, budget // cycle) * sizes["m"])
    notify(begun, f"ε={epsilon:g}")
    swept = rx.sweep(
        problem,
        {entry.label: lambda rate: factory(rate * scale, restart_every=sizes["m"])},
        CONSTANT_RATES,
        seeds,
        steps=steps,
        batch_size=sizes["b"],
        first_batch_size=sizes["B"],
        record=rx.Record(points=min(steps, 300)),
        progress=False,
    )[entry.label]
    sfo = swept.sfo.astype(float)
    norms = swept.curves["gradient_norm"]
    hits = np.array([_hits(sfo, np.array([second_half_mean(sfo, r) for r in runs]), (epsilon,))[0] for runs in norms])
    medians = np.median(hits, axis=1)
    best = int(np.argmin(medians))
    return Point(epsilon, CONSTANT_RATES[best], float(medians[best]), hits[best], sizes)
