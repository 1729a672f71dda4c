"""Table 1 measured: how many oracle calls each method needs to bring E‖grad F‖ below ε, and how fast that grows.

The theorems fix a schedule and let ε fall, so one η₀ serves all ε, and what is measured is their quantity: the expected
norm at an iterate drawn uniformly, here from the second half of the run. Noise must dominate for the rates to differ.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from retrax.experiments.results import ComplexityResult, Point
from retrax.experiments.specs import Entry
from retrax.experiments.tuning import Notify

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
CONSTANT_RATES = (0.5, 0.1, 0.05, 0.01)
LENGTHS = 7
"""Runs of 1, 1/4, 1/16, ... of the budget: beginnings of the same run, recorded more and more finely."""
TUNING_SHARE = 1 / 16
FIT_SHARE = 1e-2
"""Exponents are fitted to the ε that took more than this share of the budget: before that, descent still shows."""
MAX_CYCLES = 60
RESTARTING_SEEDS = 3
BOOTSTRAP = 2000


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
    if entry.restarting:
        seeds = seeds[:RESTARTING_SEEDS]
        found = [
            _restarting(problem, entry, epsilon, variance, budget, seeds, notify, number / len(tolerances))
            for number, epsilon in enumerate(tolerances)
        ]
        tuned = math.nan
    else:
        tried = _decaying(problem, entry, RATES, tolerances, TUNING_SHARE * budget, tuning_seeds, notify)
        tuned = exponent(tolerances, np.min([np.median(hits, axis=1) for hits in tried], axis=0))
        (hits,) = _decaying(problem, entry, (entry.rate,), tolerances, budget, seeds, notify)
        batch = {"b": entry.batch_size}
        rows = zip(tolerances, hits, strict=True)
        found = [Point(epsilon, entry.rate, float(np.median(row)), row, batch) for epsilon, row in rows]
    fitted = fit_range(
        tolerances, np.array([point.sfo for point in found]), 0.0 if entry.restarting else FIT_SHARE * budget
    )
    return ComplexityResult(
        key=f"sfo-{entry.key}",
        entry=entry,
        variance=variance,
        seeds=seeds,
        budget=budget,
        points=tuple(found),
        exponent=exponent(*_medians(*fitted)),
        interval=interval(*fitted),
        tuned_exponent=tuned,
    )


def _medians(tolerances: Sequence[float], hits: np.ndarray) -> tuple[Sequence[float], np.ndarray]:
    return tolerances, np.median(hits, axis=1)


def fit_range(tolerances: Sequence[float], hits: np.ndarray, least: float) -> tuple[tuple[float, ...], np.ndarray]:
    """The ε, and the SFO of each seed, that an exponent is fitted to: reached by most seeds, after `least` SFO."""
    medians = np.median(hits, axis=1)
    chosen = np.isfinite(medians) & (medians >= least)
    return tuple(np.asarray(tolerances)[chosen]), hits[chosen]


def exponent(tolerances: Sequence[float], medians: np.ndarray) -> float:
    """The slope of log SFO over log ε through the points that were reached; NaN with fewer than three."""
    reached = np.isfinite(medians)
    if reached.sum() < 3:
        return math.nan
    return float(np.polyfit(np.log(np.asarray(tolerances)[reached]), np.log(medians[reached]), 1)[0])


def interval(tolerances: Sequence[float], hits: np.ndarray) -> tuple[float, float]:
    """95 % of the exponents that resampled seeds would have given (percentile bootstrap)."""
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, hits.shape[1], (BOOTSTRAP, hits.shape[1])) if len(hits) else ()
    slopes = [exponent(tolerances, np.median(hits[:, seeds], axis=1)) for seeds in chosen]
    slopes = [slope for slope in slopes if math.isfinite(slope)]
    if not slopes:
        return math.nan, math.nan
    low, high = np.percentile(slopes, [2.5, 97.5])
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
    tolerances: tuple[float, ...],
    budget: float,
    seeds: tuple[int, ...],
    notify: Notify,
) -> list[np.ndarray]:
    """For each step size the SFO at which each seed has reached each ε, shape (ε, seeds)."""
    import retrax as rx

    factory = getattr(rx, entry.recipe)
    cost = entry.batch_size * factory(rates[0]).evaluations
    pieces = []
    for power in reversed(range(LENGTHS)):
        steps = max(2, int(budget / 4**power) // cost)
        notify(4.0**-power, f"{len(rates)} η₀ × {len(seeds)} seeds, {steps} steps")
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
    return [_reached(sfo, of_rate, tolerances) for of_rate in norms]


def _reached(sfo: np.ndarray, norms: np.ndarray, tolerances: Sequence[float]) -> np.ndarray:
    means = [second_half_mean(sfo, run) for run in norms]
    return np.array([[first_below(sfo, mean, epsilon) for mean in means] for epsilon in tolerances])


def batch_sizes(entry: Entry, variance: float, epsilon: float, samples: int) -> dict[str, int]:
    """B, b and m of a restarting method for ε, with constants 1: powers of σ/ε, at most the data."""
    ratio = math.sqrt(variance) / epsilon
    large = min(samples, math.ceil(ratio**2))
    small = min(large, max(1, math.ceil(ratio**entry.small)))
    return {"B": large, "b": small, "m": max(1, math.ceil(ratio**entry.period))}


def _restarting(
    problem: Any,
    entry: Entry,
    epsilon: float,
    variance: float,
    budget: int,
    seeds: tuple[int, ...],
    notify: Notify,
    begun: float,
) -> Point:
    """Batches and period as the theory of the online setting asks for this ε; the best of a few constant step sizes."""
    import retrax as rx

    sizes = batch_sizes(entry, variance, epsilon, len(problem.data))
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
    hits = np.array([_reached(sfo, of_rate, (epsilon,))[0] for of_rate in swept.curves["gradient_norm"]])
    medians = np.median(hits, axis=1)
    best = int(np.argmin(medians))
    return Point(epsilon, CONSTANT_RATES[best], float(medians[best]), hits[best], sizes)
