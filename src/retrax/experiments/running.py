"""Runs experiments unit by unit, keeps each finished unit, and puts them together into a result file."""

import concurrent.futures
import dataclasses
import functools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from retrax.experiments import environment, storage, workloads
from retrax.experiments.results import (
    ComplexityResult,
    ExperimentResult,
    ExperimentSettings,
    Panel,
    Part,
    SeriesResult,
    Timing,
)
from retrax.experiments.specs import Experiment, UsageError
from retrax.experiments.storage import Store
from retrax.experiments.tuning import CRITERION, RULE
from retrax.experiments.units import Asked, SeriesUnit, TimingUnit, Unit, fingerprint, units_of
from retrax.experiments.workloads import Place


class Display(Protocol):
    """What a progress display is told."""

    def begin(self, experiment: Experiment, units: list[Unit], kept: int) -> None:
        """An experiment begins; so many of its units were kept from an earlier run."""

    def update(self, unit: Unit, share: float, what: str) -> None:
        """A unit is so far."""

    def finish(self, unit: Unit, part: Part) -> None:
        """A unit is finished."""

    def end(self, experiment: Experiment) -> None:
        """The experiment is finished."""

    def line(self, text: str) -> None:
        """Something to say."""


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Where and how to run."""

    store: Store
    asked: Asked
    place: Place
    jobs: int = 1


def is_finished(experiment: Experiment, run: Conditions) -> bool:
    """Whether there is nothing left to compute or to time."""
    result = _finished(experiment, run)
    return result is not None and (result.timed or not experiment.timed)


def _digest(experiment: Experiment, run: Conditions) -> str:
    """A digest of all that an experiment's numbers depend on."""
    return storage.fingerprint({unit.key: fingerprint(unit) for unit in units_of(experiment, run.asked, run.place)})


def run_experiment(experiment: Experiment, run: Conditions, display: Display) -> tuple[ExperimentResult, bool]:
    """The result of an experiment, as yet without run times, and whether anything had to be computed for it."""
    units = units_of(experiment, run.asked, run.place)
    digests = {unit.key: fingerprint(unit) for unit in units}
    whole = storage.fingerprint(digests)
    result = _earlier(experiment, run, display)
    if result is not None and result.fingerprint == whole:
        return result, False
    parts = _compute_all(experiment, units, digests, run, display, run.jobs)
    return _saved(assemble(experiment, run, parts, whole), run.store), True


def time_experiment(
    experiment: Experiment, result: ExperimentResult, run: Conditions, display: Display
) -> tuple[ExperimentResult, bool]:
    """The result with run times, measured one after another in this process, and whether that was still to be done."""
    if result.timed or not experiment.timed:
        return result, False
    units: list[Unit] = [TimingUnit(experiment, part, run.place) for part in result.series]
    digests = {unit.key: fingerprint(unit) for unit in units}
    parts = _compute_all(experiment, units, digests, run, display, jobs=1)
    times = {part.key: part for part in parts if isinstance(part, Timing)}
    timed = dataclasses.replace(
        result,
        series=tuple(dataclasses.replace(part, timing=times[f"timing-{part.key}"]) for part in result.series),
        environment=environment.current(),
        wall_seconds=round(result.wall_seconds + sum(part.wall_seconds for part in parts), 1),
    )
    return _saved(timed, run.store), True


def _compute_all(
    experiment: Experiment, units: list[Unit], digests: dict[str, str], run: Conditions, display: Display, jobs: int
) -> list[Part]:
    """What the units come to, from parts kept earlier or computed now."""
    parts = {**_from_homes(experiment, units, run), **_kept(units, digests, run.store)}
    missing = [unit for unit in units if unit.key not in parts]
    display.begin(experiment, units, len(parts))
    compute = _in_this_process if jobs == 1 or len(missing) < 2 else _in_processes
    for unit, part in compute(missing, digests, run, display.update):
        parts[unit.key] = part
        display.finish(unit, part)
    display.end(experiment)
    return [parts[unit.key] for unit in units]


def _saved(result: ExperimentResult, store: Store) -> ExperimentResult:
    """The result as a later report will read it."""
    store.save_result(result.experiment, result)
    read = store.result(result.experiment)
    assert read is not None
    return read


def _earlier(experiment: Experiment, run: Conditions, display: Display) -> ExperimentResult | None:
    """The result of an earlier run; one that cannot be used is named, and computed anew."""
    try:
        return run.store.result(experiment.name)
    except UsageError as error:
        display.line(f"computing anew: {error}")
        return None


def _kept(units: list[Unit], digests: dict[str, str], store: Store) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    for unit in units:
        part = store.part(unit.kind, unit.experiment.name, unit.key, digests[unit.key])
        if part is not None:
            parts[unit.key] = part
    return parts


def _from_homes(experiment: Experiment, units: list[Unit], run: Conditions) -> dict[str, Part]:
    """The parts that experiments on the same problems have computed already, under this experiment's names."""
    results = {one.key: _finished(experiment.home_of(one.key), run) for one in experiment.panels if one.home}
    parts: dict[str, Part] = {}
    for unit in units:
        if not isinstance(unit, SeriesUnit):
            continue
        theirs, result = experiment.at_home(unit.series), results.get(unit.series.panel)
        if theirs is not None and result is not None:
            part = next(part for part in result.series if part.key == theirs.key)
            parts[unit.key] = dataclasses.replace(part, key=unit.key, series=unit.series, timing=None)
    return parts


def _finished(experiment: Experiment, run: Conditions) -> ExperimentResult | None:
    """The result of an experiment as it would come out now; None where it would have to be computed."""
    try:
        result = run.store.result(experiment.name)
    except UsageError:
        return None
    return result if result is not None and result.fingerprint == _digest(experiment, run) else None


Finished = Iterator[tuple[Unit, Part]]


def _in_this_process(
    units: list[Unit], digests: dict[str, str], run: Conditions, update: Callable[[Unit, float, str], None]
) -> Finished:
    for unit in units:
        yield unit, _compute_and_keep(unit, digests[unit.key], run.store, functools.partial(update, unit))


def _compute_and_keep(unit: Unit, digest: str, store: Store, notify: Callable[[float, str], None]) -> Part:
    start = time.perf_counter()
    computed = unit.compute(notify)
    part = dataclasses.replace(computed, wall_seconds=round(time.perf_counter() - start, 2))
    store.save_part(unit.experiment.name, unit.key, digest, part)
    return part


def _in_processes(
    units: list[Unit], digests: dict[str, str], run: Conditions, update: Callable[[Unit, float, str], None]
) -> Finished:
    context = multiprocessing.get_context("spawn")
    jobs = min(run.jobs, len(units))
    pool = concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker)
    try:
        futures = {pool.submit(_work, unit, digests[unit.key], run.store): unit for unit in units}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # A unit is kept as a whole or not at all, so nothing can be lost.
        raise
    pool.shutdown()


def _begin_worker() -> None:
    environment.single_threaded_operations()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """A parent that was killed cannot stop its workers, which would go on with work that nobody waits for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(unit: Unit, digest: str, store: Store) -> Part:
    return _compute_and_keep(unit, digest, store, lambda share, what: None)


SCHEDULES = "η₀ t^(-1/2); RSRM η₀ t^(-1/3) and ρ₀ t^(-2/3); RSVRG, RSRG, RSPIDER constant"


def assemble(experiment: Experiment, run: Conditions, parts: list[Part], digest: str) -> ExperimentResult:
    """The self-describing result of an experiment."""
    return ExperimentResult(
        format=storage.FORMAT,
        fingerprint=digest,
        experiment=experiment.name,
        title=experiment.title,
        figure=experiment.figure,
        quick=run.asked.quick,
        settings=ExperimentSettings(run.asked.budget(experiment), CRITERION, RULE, run.jobs, SCHEDULES),
        notes=experiment.notes,
        claims=experiment.claims,
        panels=tuple(_describe(experiment, key, title, run.place) for key, title in experiment.panel_titles().items()),
        series=tuple(part for part in parts if isinstance(part, SeriesResult)),
        complexity=tuple(part for part in parts if isinstance(part, ComplexityResult)),
        environment=environment.current(),
        wall_seconds=round(sum(part.wall_seconds for part in parts), 1),
    )


def _describe(experiment: Experiment, key: str, title: str, place: Place) -> Panel:
    spec = experiment.problem_of(key)
    data = workloads.described(spec, place)
    problem = workloads.build(spec, place)
    return Panel(
        key=key,
        title=title,
        problem=spec,
        data_note=data.note,
        data_digest=data.digest,
        samples=data.count,
        shape=tuple(problem.manifold.ambient_shape),
        manifold=type(problem.manifold).__name__,
        dtype=data.dtype,
        optimum=float(problem.optimum),
    )
