"""How long experiments will take, from steps measured on this machine just before."""

import dataclasses
import functools
import time
from collections.abc import Collection

from retrax.experiments import timing, workloads
from retrax.experiments.specs import Experiment, ProblemSpec
from retrax.experiments.units import Asked, SeriesUnit, Unit, units_of
from retrax.experiments.workloads import Place

AGAINST_RSGD = 1.3
"""What a step of the methods costs on average, in steps of RSGD with the same SFO (1.25 on SYN1 and on MNIST)."""
COMPILATIONS = 2
"""Of a series: one for its runs, and one for the run that is timed, in another process."""
PROBED_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Cost:
    """What was measured on a problem, in seconds."""

    step: float
    record: float
    compilation: float


@functools.cache
def probe(spec: ProblemSpec, place: Place, batch_size: int) -> Cost:
    """The cost of a step of RSGD, of a record and of a compilation."""
    import retrax as rx

    problem = workloads.build(spec, place)

    def run(steps: int) -> tuple[rx.Result, float]:
        begun = time.perf_counter()
        result = rx.minimize(problem, rx.rsgd(1e-3), steps=steps, batch_size=batch_size, record=steps, progress=False)
        return result, time.perf_counter() - begun

    first, _ = run(200)
    steps = max(200, min(100_000, int(200 * PROBED_SECONDS / max(first.seconds, 1e-6))))
    second, wall = run(steps)
    measuring = max(0.0, wall - second.seconds - second.compile_seconds)
    return Cost(second.seconds / steps, measuring / len(second.history.rows), first.compile_seconds)


def seconds(experiment: Experiment, asked: Asked, place: Place, jobs: int, others: Collection[str] = ()) -> float:
    """About how long an experiment takes: its units shared among the processes, then the run times one by one.

    What the `others`, run before it, compute for it is not counted.
    """
    units = [unit for unit in units_of(experiment, asked, place) if not _run_by(others, unit)]
    timed = [unit for unit in units if isinstance(unit, SeriesUnit) and experiment.timed]
    computing = sum(_unit_seconds(unit) for unit in units) / min(jobs, len(units))
    return computing + sum(timing.TIMED_RUNS * _run_seconds(unit) for unit in timed)


def _run_by(others: Collection[str], unit: Unit) -> bool:
    if not isinstance(unit, SeriesUnit) or unit.experiment.at_home(unit.series) is None:
        return False
    return unit.experiment.home_of(unit.series.panel).name in others


def _run_seconds(unit: Unit) -> float:
    cost = probe(unit.problem, unit.place, unit.batch_size)
    return AGAINST_RSGD * cost.step * unit.sfo / unit.batch_size + cost.record * unit.records


def _unit_seconds(unit: Unit) -> float:
    compilation = probe(unit.problem, unit.place, unit.batch_size).compilation
    return unit.weight * _run_seconds(unit) + COMPILATIONS * compilation
