"""What a run does to its process, and what the process does to a run: threads, forks, long counts, blocked streams."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import _precision
from retrax.drivers import devices
from retrax.plan import Position

X = np.random.default_rng(0).standard_normal((200, 5))


def loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


PROBLEM = rx.Problem(loss, rx.Grassmann(5, 2), X)


def blas_threads():
    return [library["num_threads"] for library in _precision._blas().info() if library["user_api"] == "blas"]


def test_runs_that_overlap_leave_blas_its_threads():
    """In threads that live on, as a pool's do: what one has set, another must restore."""
    before = blas_threads()
    first, second = (_precision.precision("float32") for _ in range(2))
    with (
        _precision._blas().limit(limits=2, user_api="blas"),
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(1) as other,
    ):
        one.submit(first.__enter__).result()
        other.submit(second.__enter__).result()
        assert set(blas_threads()) == {1}
        one.submit(first.__exit__, None, None, None).result()
        assert set(blas_threads()) == {1}
        other.submit(second.__exit__, None, None, None).result()
        assert set(blas_threads()) == {2}
        with _precision._blas().limit(limits=1, user_api="blas"):  # and this thread can set it again
            assert set(blas_threads()) == {1}
    assert blas_threads() == before


ONE_THREAD = """
import sys, numpy as np, retrax as rx
from retrax import _precision

X = np.random.default_rng(0).standard_normal((50, 20))
rx.minimize(rx.problems.PCA(X, 2), rx.rsgd(0.1), steps=3, progress=False)
assert "scipy.linalg" not in sys.modules  # a tenth of a second, for nothing
matrices = X.T @ X / 50 + np.arange(1, 9)[:, None, None] * np.eye(20)
seen = []
look = lambda *_: seen.append({(one["filepath"], one["num_threads"]) for one in _precision._blas().info()})
before = {one["filepath"]: one["num_threads"] for one in _precision._blas().info()}
rx.minimize(rx.Problem(lambda x, z: ((x - z.mean(0)) ** 2).mean(), rx.SPD(20), matrices), rx.rsgd(1e-3), steps=3,
            progress=False, on_record=look)
assert "scipy.linalg" in sys.modules
assert len(seen[-1]) > len(before), "SciPy brings no BLAS of its own here"
assert {threads for _, threads in seen[-1]} == {1}, seen
after = {one["filepath"]: one["num_threads"] for one in _precision._blas().info()}
assert {path: after[path] for path in before} == before
assert set(after.values()) == set(before.values()), after
"""


def test_a_blas_that_is_loaded_in_the_middle_of_a_run_has_one_thread_too():
    """JAX loads SciPy with the first factorisation, here of matrices too large for kernels."""
    done = subprocess.run([sys.executable, "-c", ONE_THREAD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _forked(connection):
    try:
        rx.minimize(PROBLEM, rx.rsgd(0.1), steps=3)
        connection.send("ran")
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_refused_with_the_remedy():
    rx.minimize(PROBLEM, rx.rsgd(0.1), steps=3)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own, on forking
        process = context.Process(target=_forked, args=(there,))
        process.start()
    try:
        assert here.poll(60), "the forked process hangs"
        assert "get_context('spawn')" in here.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("problem", [PROBLEM, rx.problems.PCA(X, 2)], ids=["steps", "one kernel"])
def test_single_precision_goes_on_beyond_two_to_the_31(problem):
    run = rx.Run(problem, rx.rsgd(rx.schedules.power(1e7, -1.0)), dtype="float32", record=2**40)
    run.advance(2)
    start = 2**31 - 2**20 - 3
    for begin in (start, 2**33):
        run._position = Position(begin, run.sfo, run._position.samples, begin, 10**6)
        run.advance(10)
        assert run.step == begin + 10
        row = run._measure()
        np.testing.assert_allclose(row["step_size"], 1e7 / run.step, rtol=1e-6)


def test_processes_agree_on_numbers_beyond_two_to_the_31():
    assert devices.largest(2**31 + 5, -1) == (2**31 + 5, -1)


class Blocked:
    """A stream that gives some batches, is interrupted by Ctrl-C, and gives no more for a long time."""

    def __init__(self):
        self.released, self.interrupted = threading.Event(), 0.0

    def __iter__(self):
        yield from np.array_split(X, 4)
        self.interrupted = time.perf_counter()
        signal.raise_signal(signal.SIGINT)
        self.released.wait(60)


def test_ctrl_c_on_a_stream_that_blocks_takes_a_moment():
    stream = Blocked()
    problem = rx.Problem(loss, rx.Grassmann(5, 2), rx.Stream(stream))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its thread is left behind
        with pytest.raises(rx.InterruptedRun):
            rx.minimize(problem, rx.rsgd(0.1), steps=10**6, record=rx.Record(10**5, samples=20))
    waited = time.perf_counter() - stream.interrupted
    stream.released.set()
    assert waited < 3  # it was five seconds at least, the patience with the stream's thread
