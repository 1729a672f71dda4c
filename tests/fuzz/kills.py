"""`python -m tests.fuzz.kills --kills N`: runs are killed at random moments, resumed, and must end with the same bits.

Every method is met with every kind of source, and both with every manifold, in turn. This process imports and never
computes; a run is a fork of it, so that a kill costs a start of JAX and a look into its cache of compiled programs.
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA comments on each program that comes from the cache

import jax
import jax.numpy as jnp
import numpy as np
from tests.lasting.runs import METHODS, Counting, Stateful, samples

import retrax as rx
from retrax._files import TEMPORARY
from retrax.checkpoint import Checkpoint, Folder

STEPS, EVERY, KILLS_PER_CASE = 1000, 20, 12

MANIFOLDS: dict[str, Any] = {
    "Grassmann": rx.Grassmann(12, 3),
    "Stiefel": rx.Stiefel(12, 2),
    "Sphere": rx.Sphere(12),
    "Product": rx.Product({"U": rx.Grassmann(12, 2), "v": rx.Sphere(12)}),
    "Euclidean": rx.Euclidean(12),
}
DATA = samples(1000)
SOURCES: dict[str, Callable[[Path], Any]] = {
    "array": lambda folder: DATA,
    "file": lambda folder: folder / "samples.npy",
    "stream": lambda folder: rx.Stream(Counting(np.tile(DATA, (12, 1)), 100), deterministic=True),
    "stateful stream": lambda folder: rx.Stream(Stateful(np.tile(DATA, (12, 1)), 100)),
}


class Case(NamedTuple):
    """What is run."""

    method: str
    source: str
    manifold: str


def cases() -> Iterator[Case]:
    """All of them, again and again, in an order that meets every method, source and manifold soon."""
    manifolds = itertools.cycle(MANIFOLDS)
    order = [Case(method, source, "") for source in SOURCES for method in METHODS]
    while True:
        for case in random.Random(0).sample(order, len(order)):
            yield case._replace(manifold=next(manifolds))


def loss(x: Any, batch: Any) -> Any:
    """How little of the samples a point captures; of any part of a point."""
    return sum(jnp.mean((batch @ leaf) ** 2) / leaf.size for leaf in jax.tree.leaves(x))


def run(case: Case, folder: Path, checkpoints: Path, result: Path) -> None:
    """The run, going on from its last checkpoint, to its end; writes the result."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    restarting = METHODS[case.method].restart_every is not None
    warnings.simplefilter("ignore")  # of a stream that keeps its own place
    ended = rx.minimize(
        rx.Problem(loss, MANIFOLDS[case.manifold], SOURCES[case.source](folder)),
        METHODS[case.method],
        steps=STEPS,
        first_batch_size=50 if restarting else None,
        record=rx.Record(every=100, samples=100),
        seed=1,
        progress=False,
        checkpoint=Checkpoint(checkpoints, every=EVERY),
        resume=True,
    )
    columns = {f"history {name}": ended.history[name] for name in ended.history if name != "seconds"}
    points = {
        f"{name} {i}": leaf for name in ("x", "output") for i, leaf in enumerate(jax.tree.leaves(getattr(ended, name)))
    }
    with result.with_suffix(".part").open("wb") as file:
        np.savez(file, **points, **columns)
    result.with_suffix(".part").rename(result)


def started(case: Case, folder: Path, checkpoints: Path, result: Path) -> int:
    """The run in a process of its own; returns its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's, on forking: nothing has been computed here
        process = os.fork()
    if process == 0:
        status = 1
        with contextlib.suppress(BaseException):
            try:
                run(case, folder, checkpoints, result)
                status = 0
            except BaseException as error:
                print(f"{case}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(status)
    return process


def finish(process: int) -> None:
    """Wait for a good end."""
    _, status = os.waitpid(process, 0)
    if status != 0:
        raise RuntimeError(f"a run ended with status {status}")


def kill(process: int, folder: Folder, moment: random.Random) -> bool:
    """Kill a run a moment after its first new checkpoint; False if it came to its end before."""
    before = folder.steps()
    while folder.steps() == before:
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    time.sleep(moment.uniform(0, 0.03))
    if os.waitpid(process, os.WNOHANG)[0]:
        return False
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def killed(case: Case, folder: Path, times: int, moment: random.Random) -> list[int]:
    """Kill a run so many times, then let it end; returns where it was each time. RuntimeError if bits differ."""
    undisturbed, result, checkpoints = folder / "undisturbed.npz", folder / "killed.npz", folder / "killed"
    for leftover in (folder / "undisturbed", checkpoints):
        shutil.rmtree(leftover, ignore_errors=True)
    for file in (undisturbed, result):
        file.unlink(missing_ok=True)
    finish(started(case, folder, folder / "undisturbed", undisturbed))
    reached: list[int] = []
    kept = Folder(Checkpoint(checkpoints, every=EVERY))
    while len(reached) < times:
        if result.exists():  # it came to its end before it could be killed: begin again
            result.unlink()
            shutil.rmtree(checkpoints)
        if kill(started(case, folder, checkpoints, result), kept, moment):
            reached.append(kept.steps()[-1])
        elif not result.exists():
            raise RuntimeError(f"{case} ended without a result")
    finish(started(case, folder, checkpoints, result))
    with np.load(undisturbed) as one, np.load(result) as other:
        different = [
            name for name in one if name not in other or not np.array_equal(one[name], other[name], equal_nan=True)
        ]
    if different or list(checkpoints.glob(TEMPORARY)):
        raise RuntimeError(f"{case}, killed at {reached}: {different} differ, or a temporary file was left")
    return reached


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    moment, start, done, seen = random.Random(arguments.seed), time.monotonic(), 0, set()
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "samples.npy", DATA)
        for case in cases():
            if done >= arguments.kills or time.monotonic() - start > arguments.seconds:
                break
            reached = killed(case, Path(name), min(KILLS_PER_CASE, arguments.kills - done), moment)
            done += len(reached)
            seen.add(case)
            print(*case, "killed at steps", *reached, sep="\t", flush=True)
    print(f"{done} kills of {len(seen)} runs in {time.monotonic() - start:.0f} s: the same bits each time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
