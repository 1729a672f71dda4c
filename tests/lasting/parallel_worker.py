"""Data-parallel runs: python parallel_worker.py DEVICES [PROCESS PROCESSES PORT] CHECKPOINTS; prints JSON."""

import json
import os
import sys

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[1]}"

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import retrax as rx
from retrax import _programs as programs
from retrax.drivers import span

from tests.lasting.runs import MANIFOLD, loss, samples  # isort: skip

SETTINGS = {"steps": 1000, "record": 200, "seed": 3, "dtype": "float64"}
METHODS = {
    "rsrm": rx.rsrm(0.01),
    "rsvrg": rx.rsvrg(0.001, restart_every=100),
}


def difference(a: rx.Result, b: rx.Result) -> float:
    """The largest, over points and records."""
    columns = [column for column in a.history if column != "seconds"]
    parts = [a.x - b.x, a.output - b.output, *(a.history[column] - b.history[column] for column in columns)]
    return float(max(np.abs(part).max() for part in parts))


def spread(X: np.ndarray, kind: AxisType, *before: None) -> jax.Array:
    """Rows, or features, over all devices of all processes; each process gives those of its own devices."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(kind,))
    with jax.enable_x64(True):
        sharding = NamedSharding(mesh, PartitionSpec(*before, "data"))
        return jax.make_array_from_callback(X.shape, sharding, lambda index: X[index])


def main(checkpoints: str) -> None:
    """Compare with one device, which every process can do by itself."""
    X = samples(4000)
    figures: dict[str, float] = {}
    one = X if jax.process_count() == 1 else np.array(X)
    for name, method in METHODS.items():
        for batch_size in (5, 2048):
            settings = SETTINGS | ({} if batch_size == 5 else {"steps": 20}) | {"batch_size": batch_size}
            single = rx.minimize(rx.Problem(loss, MANIFOLD, one), method, **settings)
            for kind in (AxisType.Auto, AxisType.Explicit) if name == "rsrm" else (AxisType.Auto,):
                several = rx.minimize(rx.Problem(loss, MANIFOLD, spread(X, kind)), method, **settings)
                figures[f"{name} {batch_size} {kind.name}"] = difference(single, several)
    pca = rx.minimize(rx.problems.PCA(one, 3), METHODS["rsvrg"], **SETTINGS)
    several = rx.minimize(rx.problems.PCA(spread(X, AxisType.Explicit), 3), METHODS["rsvrg"], **SETTINGS)
    figures["PCA"] = difference(pca, several)
    figures["sweep"] = swept(one, spread(X, AxisType.Auto))
    figures |= by_features(checkpoints)
    refused(spread(X, AxisType.Auto))
    figures["resumed"] = resumed(spread(X, AxisType.Auto), checkpoints)
    print(json.dumps(figures), flush=True)


def swept(one: np.ndarray, several: jax.Array) -> float:
    """All step sizes and seeds at once, on one device and on several: the largest difference of their curves."""
    arguments = {"steps": 20, "record": 10, "dtype": "float64", "first_batch_size": 100}
    largest = 0.0
    for make, method in (
        (lambda data: rx.problems.PCA(data, 3), rx.rsrm),
        (lambda data: rx.Problem(loss, MANIFOLD, data), lambda rate: rx.rsvrg(rate, restart_every=8)),
    ):
        a, b = (rx.sweep(make(data), {"a": method}, [0.01, 0.002], [3, 5], **arguments)["a"] for data in (one, several))
        largest = max(largest, *(float(np.nanmax(np.abs(a.curves[name] - b.curves[name]))) for name in a.curves))
    return largest


def by_features(checkpoints: str) -> dict[str, float]:
    """Features split, and the rows of the point with them: steps in a span, others, and stopped in the middle."""
    X = np.concatenate([samples(400, seed) for seed in range(4)], axis=1)
    manifold, found = rx.Grassmann(48, 3), {}
    one, several = (rx.Problem(loss, manifold, data) for data in (X, spread(X, AxisType.Explicit, None)))
    settings = SETTINGS | {"steps": 60, "record": 20}
    for name, method in (METHODS | {"rasa": rx.rasa(0.01)}).items():
        found[f"{name} by features"] = difference(*(rx.minimize(each, method, **settings) for each in (one, several)))
    arguments = settings | {"checkpoint": rx.Checkpoint(f"{checkpoints}/features", every=13), "resume": True}
    rx.minimize(several, METHODS["rsrm"], **arguments, on_record=lambda step, _: step == 20)
    resumed = rx.minimize(several, METHODS["rsrm"], **arguments)
    assert difference(rx.minimize(several, METHODS["rsrm"], **settings), resumed) == 0
    found["in blocks by features"] = in_blocks(one, several, settings)
    with pytest.raises(ValueError, match="a point that is one matrix with as many rows"):
        rx.minimize(rx.Problem(loss, rx.Grassmann(24, 3), several.data), METHODS["rsrm"], **settings)
    with pytest.raises(ValueError, match="not along features"):
        rx.sweep(several, rx.rsrm, [0.1], 2, steps=5)
    with pytest.raises(ValueError, match=r"give its loss to retrax\.Problem"):
        rx.problems.PCA(several.data, 3)
    return found


def in_blocks(one: rx.Problem, several: rx.Problem, settings: dict[str, object]) -> float:
    """Each device passes over its own rows in blocks, the last of them shorter, as it would over very many."""
    programs.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span, "BLOCK", 5)
        patch.setattr(span, "LEAST_BLOCKS", 2)
        taken = []
        original = span._combinations_in_blocks
        patch.setattr(span, "_combinations_in_blocks", lambda *given: taken.append(given) or original(*given))
        found = difference(*(rx.minimize(each, METHODS["rsrm"], **settings) for each in (one, several)))
    assert taken[-1][1].shape[1] == 48 // jax.device_count()
    programs.forget()
    return found


def refused(data: jax.Array) -> None:
    """What cannot be split, or not run that way, is refused."""
    for wrong, others in ((data, {"driver": "eager"}), ((data, np.zeros(4000)), {})):
        with pytest.raises(ValueError, match="on several devices"):
            rx.minimize(rx.Problem(loss, MANIFOLD, wrong), METHODS["rsrm"], **SETTINGS | others)


def resumed(data: jax.Array, checkpoints: str) -> float:
    """Stopped in the middle and resumed, against undisturbed: must be the same bits."""
    settings = SETTINGS | {"record": rx.Record(every=200, samples=500, estimator_error=True)}
    undisturbed = rx.minimize(rx.Problem(loss, MANIFOLD, data), METHODS["rsvrg"], **settings)
    arguments = settings | {"checkpoint": rx.Checkpoint(checkpoints, every=130), "resume": True}
    stop = {"on_record": lambda step, _: step == 400 and jax.process_index() == 0}
    stopped = rx.minimize(rx.Problem(loss, MANIFOLD, data), METHODS["rsvrg"], **arguments, **stop)
    assert (stopped.status, stopped.steps) == (rx.Status.STOPPED, 400)
    return difference(undisturbed, rx.minimize(rx.Problem(loss, MANIFOLD, data), METHODS["rsvrg"], **arguments))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        process, processes, port = map(int, sys.argv[2:5])
        jax.distributed.initialize(f"localhost:{port}", processes, process)
    main(sys.argv[-1])
