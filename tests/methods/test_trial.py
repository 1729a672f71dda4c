"""Losses of users in one kernel: another process compiles first, and whatever happens to it, the run goes on."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import _cache as cache
from retrax import _programs as programs
from retrax._machine_code import Loaded
from retrax.drivers import kernel, trial

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="trials were tested on Linux only")

DATA = np.random.default_rng(0).standard_normal((200, 8)) * np.arange(1, 9)


def robust(x, z):
    return jnp.mean(jnp.log1p(jnp.sum((z - (z @ x) @ x.T) ** 2, 1)))


def hinge(x, z):
    return jnp.mean(jnp.logaddexp(0.0, -z @ x))


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """No program of another test is found again."""
    monkeypatch.setattr(programs, "_kept", type(programs._kept)())
    monkeypatch.setattr(trial, "_refused", set())


@pytest.fixture
def loaded(monkeypatch):
    """What each trial came to: a list that fills."""
    found, original = [], trial.compiled
    monkeypatch.setattr(trial, "compiled", lambda *given: found.append(original(*given)) or found[-1])
    return found


def steps(loss=robust, manifold=None, method=None, data=DATA, count=50, **more):
    manifold = rx.Grassmann(8, 2) if manifold is None else manifold
    method = rx.rsrm(0.01) if method is None else method
    return rx.minimize(rx.Problem(loss, manifold, data), method, steps=count, batch_size=4, seed=3, **more)


def ordinary(monkeypatch, *arguments, **more):
    with monkeypatch.context() as patch:
        patch.setattr(trial, "is_possible", lambda: False)
        patch.setattr(programs, "_kept", type(programs._kept)())
        return steps(*arguments, **more)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", [rx.rsrm(0.01), rx.rsrm(), rx.ramsgrad(0.01)], ids=["rsrm", "untuned", "ramsgrad"])
@pytest.mark.parametrize(
    ("loss", "manifold"),
    [
        (robust, rx.Stiefel(8, 2)),
        (hinge, rx.Sphere(8)),
        (hinge, rx.Euclidean(8)),
        (lambda x, z: robust(x[0], z - x[1]), rx.Product((rx.Grassmann(8, 2), rx.Euclidean(8)))),
    ],
    ids=["stiefel", "sphere", "euclidean", "product"],
)
def test_steps_are_those_of_the_ordinary_form(loaded, monkeypatch, loss, manifold, method, dtype):
    expected = ordinary(monkeypatch, loss, manifold, method, DATA.astype(dtype))
    found = steps(loss, manifold, method, DATA.astype(dtype))
    assert [type(program) for program in loaded[1:]] == [Loaded]
    tolerance = 1e-10 if dtype == "float64" else 1e-3
    for a, b in zip(jax.tree.leaves(found.x), jax.tree.leaves(expected.x), strict=True):
        assert a.dtype == b.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (lambda x, z: robust(x, z) + jnp.sum(jnp.linalg.cholesky(x.T @ x + jnp.eye(2))), "custom_call"),
        (lambda x, z: robust(x, z) + jnp.sum(jnp.sort(z @ x, 0)[:2]), "sort"),
        (lambda x, z: sum(robust(x * k, z) for k in range(1, 40)), "compile for long"),
        (lambda x, z: robust(x, jnp.tile(z, (400, 1))), "faster outside a kernel"),
    ],
    ids=["lapack", "sort", "long", "large"],
)
def test_what_a_kernel_does_worse_is_not_tried(loaded, loss, why):
    problem = rx.Problem(loss, rx.Grassmann(8, 2), DATA)
    run = rx.Run(problem, rx.rsrm(0.01), batch_size=4, seed=3)
    run.advance(5)
    assert not any(loaded)
    ((_, fit),) = run._driver.forms
    assert not fit.fits
    assert why in fit.reason


DEATHS = {
    "dies": "import os, signal, sys; print('a cry', file=sys.stderr); os.kill(os.getpid(), signal.SIGABRT)",
    "refuses": "raise SystemExit(1)",
    "talks nonsense": "print('nonsense')",
    "says nothing": "",
    "hangs": "import time; time.sleep(60)",
}


@pytest.mark.parametrize("death", DEATHS)
def test_the_ordinary_form_runs_where_the_other_process_fails(loaded, monkeypatch, death, capfd):
    expected = ordinary(monkeypatch)
    monkeypatch.setattr(trial, "command", lambda: [sys.executable, "-c", DEATHS[death]])
    monkeypatch.setattr(trial, "LONGEST_WAIT", 0.3)
    found = steps()
    assert loaded[1:] == [None]
    np.testing.assert_array_equal(found.x, expected.x)
    assert "a cry" not in capfd.readouterr().err


def test_a_program_that_was_refused_is_not_tried_again(monkeypatch):
    started = []
    monkeypatch.setattr(trial, "command", lambda: started.append(1) or [sys.executable, "-c", "raise SystemExit(1)"])
    asked, original = [], trial._answer
    monkeypatch.setattr(trial, "_answer", lambda *given: asked.append(1) or original(*given))
    steps()
    programs.forget()
    steps()
    assert len(asked) == 1


def test_where_no_process_can_be_started_the_ordinary_form_runs(loaded, monkeypatch):
    monkeypatch.setattr(trial, "command", lambda: ["/nowhere/python"])
    steps()
    assert loaded == [None]


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_disable_most_optimizations"])
def test_settings_of_jax_that_would_be_lost_prevent_a_trial(setting):
    assert trial.is_possible()
    jax.config.update(setting, True)
    try:
        assert not trial.is_possible()
    finally:
        jax.config.update(setting, False)


def test_the_other_process_ends_with_ours_interrupted(monkeypatch):
    """Ctrl-C while the other process compiles: it is gone when the interruption arrives."""
    processes, original = [], subprocess.Popen

    def start(*arguments, **more):
        processes.append(original(*arguments, **more))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(trial, "command", lambda: [sys.executable, "-c", DEATHS["hangs"]])
    monkeypatch.setattr(trial, "LONGEST_WAIT", 1)
    monkeypatch.setattr(trial, "_request", lambda *_: interrupt_soon() or b"")

    def interrupt_soon():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        steps()
    assert [process.returncode for process in processes] == [-signal.SIGKILL]


def test_several_threads_try_at_once(loaded):
    found = {}

    def run(seed):
        found[seed] = steps(lambda x, z: robust(x, z) + 0.0 * seed, count=20).x

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(program) for program in loaded] == [Loaded] * 4
    for seed in range(1, 4):
        np.testing.assert_array_equal(found[seed], found[0])


def test_machine_code_of_a_trial_is_kept_in_the_cache(loaded, monkeypatch, tmp_path):
    first = None
    rx.cache(tmp_path)
    try:
        first = steps()
        assert any(entry.name.startswith("trial-") for entry in tmp_path.iterdir())
        programs.forget()
        monkeypatch.setattr(trial, "_answer", lambda *_: pytest.fail("it is in the cache"))
        second = steps()
    finally:
        rx.cache(None)
    assert [type(program) for program in loaded] == [Loaded] * 2
    np.testing.assert_array_equal(first.x, second.x)


def test_damaged_machine_code_is_not_loaded(loaded, tmp_path):
    rx.cache(tmp_path)
    try:
        expected = steps()
        (entry,) = [entry for entry in tmp_path.iterdir() if entry.name.startswith("trial-")]
        for file in entry.iterdir():
            if file.name != cache._DIGESTS:
                file.write_bytes(b"\0" + file.read_bytes()[1:])
        programs.forget()
        np.testing.assert_array_equal(steps().x, expected.x)
    finally:
        rx.cache(None)
    assert [type(program) for program in loaded] == [Loaded] * 2


@pytest.mark.parametrize(("death", "kept"), [("dies", 1), ("hangs", 0), ("refuses", 0)])
def test_what_is_remembered_of_a_failed_trial(monkeypatch, tmp_path, death, kept):
    """That the compiler dies of the program, for all processes; that this machine was busy, for this process only."""
    monkeypatch.setattr(trial, "command", lambda: [sys.executable, "-c", DEATHS[death]])
    monkeypatch.setattr(trial, "LONGEST_WAIT", 0.3 if death == "hangs" else 20)
    rx.cache(tmp_path)
    try:
        steps()
    finally:
        rx.cache(None)
    assert sum(entry.name.startswith("trial-") for entry in tmp_path.iterdir()) == kept


def test_a_failed_trial_of_our_own_loss_is_tried_again_by_the_next_process(monkeypatch, tmp_path):
    """The ordinary form that it left to this process has no name on disk."""
    problem = rx.problems.JointDiagonalization(np.stack([np.diag(np.arange(1.0, 4) + k) for k in range(9)]))
    monkeypatch.setattr(trial, "command", lambda: [sys.executable, "-c", DEATHS["refuses"]])
    asked = []
    rx.cache(tmp_path)
    try:
        for again in range(2):
            programs.forget()
            trial._refused.clear()
            monkeypatch.setattr(trial, "_answer", lambda *given: asked.append(given))
            rx.minimize(problem, rx.rsrm(0.01), steps=3, batch_size=2, record=3)
            assert len(asked) == again + 1
    finally:
        rx.cache(None)


def test_with_several_devices_nothing_is_tried(monkeypatch):
    """The other process knows one, and its program would run on no other."""
    assert trial.is_possible()
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert not trial.is_possible()


def test_products_are_counted_with_their_sums():
    def program(a, b):
        return a @ b, a[:2] @ b

    text = jax.jit(program).lower(jnp.zeros((3, 5)), jnp.zeros((5, 7))).as_text()
    assert kernel._products(text) == [(5, [3, 7]), (5, [2, 7])]


def test_the_script_leaves_no_core_file_and_does_not_outlive_who_waits(tmp_path):
    """Alone, with a pipe that never says anything, it ends by its own alarm."""
    places = os.pathsep.join(place for place in sys.path if place)
    command = [sys.executable, "-I", "-S", str(trial.SCRIPT), places, "1"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        assert process.wait(30) == -signal.SIGALRM
    assert time.monotonic() - begin < 20
    assert not list(pathlib.Path(tmp_path).iterdir())
