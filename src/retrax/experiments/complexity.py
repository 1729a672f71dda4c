"""Table 1 measured: how many oracle calls each method needs to reach ‖grad F‖ ≤ ε, and how fast that grows."""

import math
from typing import Any

import numpy as np

from retrax.experiments.results import ComplexityResult, Point
from retrax.experiments.specs import Entry
from retrax.experiments.tuning import Notify

RATES = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005)
CONSTANT_RATES = (0.5, 0.1, 0.05, 0.01)
RESOLUTIONS = (1 / 64, 1 / 8, 1.0)
MAX_CYCLES = 60


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
    problem: Any, entry: Entry, tolerances: tuple[float, ...], budget: int, seeds: tuple[int, ...], notify: Notify
) -> ComplexityResult:
    """The SFO that a method needs for each ε, with the best step size for each, and the measured exponent."""
    variance = gradient_variance(problem)
    if entry.restarting:
        found = [
            _restarting(problem, entry, epsilon, variance, budget, seeds, notify, number / len(tolerances))
            for number, epsilon in enumerate(tolerances)
        ]
    else:
        found = _decaying(problem, entry, tolerances, budget, seeds, notify)
    medians = [point.median for point in found]
    return ComplexityResult(
        f"sfo-{entry.key}", entry, variance, seeds, budget, tuple(found), exponent(tolerances, medians)
    )


def exponent(tolerances: tuple[float, ...], medians: list[float]) -> float:
    """The slope of log SFO over log ε through the points that were reached; NaN with fewer than three."""
    reached = np.array([(e, m) for e, m in zip(tolerances, medians, strict=True) if math.isfinite(m)])
    if len(reached) < 3:
        return math.nan
    return float(np.polyfit(np.log(reached[:, 0]), np.log(reached[:, 1]), 1)[0])


def first_hits(sfo: np.ndarray, norms: np.ndarray, epsilon: float) -> np.ndarray:
    """For each run (rows of `norms`) the first SFO at which ‖grad F‖ ≤ ε; infinite where that never happens."""
    below = norms <= epsilon
    return np.where(below.any(axis=-1), sfo[below.argmax(axis=-1)], np.inf)


def _decaying(
    problem: Any, entry: Entry, tolerances: tuple[float, ...], budget: int, seeds: tuple[int, ...], notify: Notify
) -> list[Point]:
    """One run serves all ε. Three lengths of the same run record its beginning more finely."""
    import retrax as rx

    factory = getattr(rx, entry.recipe)
    pieces = []
    for share in RESOLUTIONS:
        steps = max(2, int(share * budget) // 10)
        pieces.append(
            rx.sweep(
                problem,
                {entry.label: factory},
                RATES,
                seeds,
                steps=steps,
                batch_size=entry.batch_size,
                first_batch_size=entry.first_batch_size,
                record=rx.Record(points=min(steps, 200)),
                on_record=lambda _, step: notify(step * 10 / budget, f"{len(RATES)} η₀ × {len(seeds)} seeds"),
            )[entry.label]
        )
    rows = []
    for epsilon in tolerances:
        hits = np.minimum.reduce([first_hits(p.sfo, p.curves["gradient_norm"], epsilon) for p in pieces])
        rows.append(_row(epsilon, RATES, hits, {"b": entry.batch_size}))
    return rows


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
    """Batches and period as the theory of the online setting asks for this ε."""
    import retrax as rx

    sizes = batch_sizes(entry, variance, epsilon, len(problem.data))
    # RSPIDER's steps have a fixed length, which its theory takes proportional to ε.
    scale = epsilon if entry.recipe == "rspider" else 1.0
    factory = getattr(rx, entry.recipe)
    cycle = sizes["B"] + (sizes["m"] - 1) * 2 * sizes["b"]
    steps = max(2, min(MAX_CYCLES, max(1, budget // cycle)) * sizes["m"])
    notify(begun, f"ε={epsilon:g}")
    result = rx.sweep(
        problem,
        {entry.label: lambda rate: factory(rate * scale, restart_every=sizes["m"])},
        CONSTANT_RATES,
        seeds,
        steps=steps,
        batch_size=sizes["b"],
        first_batch_size=sizes["B"],
        record=rx.Record(points=min(steps, 300)),
    )[entry.label]
    return _row(epsilon, CONSTANT_RATES, first_hits(result.sfo, result.curves["gradient_norm"], epsilon), sizes)


def _row(epsilon: float, rates: tuple[float, ...], hits: np.ndarray, sizes: dict[str, int]) -> Point:
    medians = np.median(hits, axis=1)
    best = int(np.argmin(medians))
    return Point(epsilon, rates[best], float(medians[best]), hits[best], sizes)
