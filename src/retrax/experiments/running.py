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
from typing import Any, Protocol

from retrax.experiments import environment, problems, storage
from retrax.experiments.problems import Place
from retrax.experiments.specs import Experiment
from retrax.experiments.storage import Store
from retrax.experiments.tuning import CRITERION
from retrax.experiments.units import Asked, Unit, fingerprint, units_of


class Display(Protocol):
    """What a progress display is told."""

    def begin(self, experiment: Experiment, units: list[Unit], kept: int) -> None:
        """An experiment begins; so many of its units were kept from an earlier run."""

    def update(self, unit: Unit, share: float, what: str) -> None:
        """A unit is so far."""

    def finish(self, unit: Unit, part: dict[str, Any]) -> None:
        """A unit is finished."""

    def end(self, experiment: Experiment) -> None:
        """The experiment is finished."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Where and how to run."""

    store: Store
    asked: Asked
    place: Place
    jobs: int = 1


def run_experiment(experiment: Experiment, run: Run, display: Display) -> tuple[dict[str, Any], bool]:
    """The result of an experiment, and whether anything had to be computed for it."""
    units = units_of(experiment, run.asked, run.place)
    digests = {unit.key: fingerprint(unit) for unit in units}
    whole = storage.fingerprint(digests)
    result = run.store.result(experiment.name)
    if result is not None and result["fingerprint"] == whole:
        return result, False
    parts = {key: run.store.part(experiment.name, key, digest) for key, digest in digests.items()}
    missing = [unit for unit in units if parts[unit.key] is None]
    display.begin(experiment, units, len(units) - len(missing))
    compute = _in_this_process if run.jobs == 1 or len(missing) < 2 else _in_processes
    for unit, part in compute(missing, digests, run, display.update):
        parts[unit.key] = part
        display.finish(unit, part)
    result = assemble(experiment, run, units, parts, whole)
    run.store.save_result(experiment.name, result)
    display.end(experiment)
    return storage.plain(result), True


Finished = Iterator[tuple[Unit, dict[str, Any]]]


def _in_this_process(
    units: list[Unit], digests: dict[str, str], run: Run, update: Callable[[Unit, float, str], None]
) -> Finished:
    for unit in units:
        yield unit, _compute_and_keep(unit, digests[unit.key], run.store, functools.partial(update, unit))


def _compute_and_keep(unit: Unit, digest: str, store: Store, notify: Callable[[float, str], None]) -> dict[str, Any]:
    start = time.perf_counter()
    part = {"key": unit.key, **unit.compute(notify), "wall_seconds": round(time.perf_counter() - start, 2)}
    part = storage.plain(part)
    store.save_part(unit.experiment.name, unit.key, digest, part)
    return part


def _in_processes(
    units: list[Unit], digests: dict[str, str], run: Run, update: Callable[[Unit, float, str], None]
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


def _work(unit: Unit, digest: str, store: Store) -> dict[str, Any]:
    return _compute_and_keep(unit, digest, store, lambda share, what: None)


def assemble(experiment: Experiment, run: Run, units: list[Unit], parts: dict[str, Any], digest: str) -> dict[str, Any]:
    """The self-describing result of an experiment."""
    budget = run.asked.budget(experiment)
    ordered = [parts[unit.key] for unit in units]
    return {
        "format": storage.FORMAT,
        "fingerprint": digest,
        "experiment": experiment.name,
        "title": experiment.title,
        "figure": experiment.figure,
        "quick": run.asked.quick,
        "settings": {
            **dataclasses.asdict(budget),
            "criterion": CRITERION,
            "jobs": run.jobs,
            "schedules": "η₀ t^(-1/2); RSRM η₀ t^(-1/3) and ρ₀ t^(-2/3); RSVRG, RSRG, RSPIDER constant",
        },
        "notes": experiment.notes,
        "claims": experiment.claims,
        "panels": [
            {"key": key, "title": title, **_describe(experiment, key, run.place)}
            for key, title in experiment.panel_titles().items()
        ],
        "series": [part for part in ordered if "series" in part],
        "complexity": [part for part in ordered if "complexity" in part],
        "environment": {"versions": environment.versions(), "machine": environment.machine()},
        "wall_seconds": round(sum(part["wall_seconds"] for part in ordered), 1),
    }


def _describe(experiment: Experiment, panel: str, place: Place) -> dict[str, Any]:
    spec = experiment.problem_of(panel)
    samples = problems.samples(spec, place)
    problem = problems.build(spec, place)
    return {
        "problem": dataclasses.asdict(spec),
        "data_note": samples.note,
        "data_digest": samples.digest,
        "samples": len(samples.array),
        "shape": list(problem.manifold.ambient_shape),
        "manifold": type(problem.manifold).__name__,
        "dtype": str(samples.array.dtype),
        "optimum": float(problem.optimum),
    }
