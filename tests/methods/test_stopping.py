"""How a run ends: its status, when and why, and what it returns then."""

import os
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import Status

from .small_problems import case


def quadratic(x, batch):
    return jnp.sum(x**2) * (1 + 0 * jnp.sum(batch))


def quadratic_problem():
    return rx.Problem(quadratic, rx.Euclidean(3), np.ones((5, 1)))


START = np.array([3.0, -1.0, 2.0])


def run(step=0.1, steps=20, problem=None, **options):
    """x ← (1 - 2·step) x: shrinks for steps below 1, grows above."""
    options = {"x0": START, "batch_size": 1, "driver": "eager", **options}
    return rx.minimize(problem or quadratic_problem(), rx.rsgd(rx.schedules.constant(step)), steps=steps, **options)


# --- max_steps and converged ----------------------------------------------------------------------------------


def test_all_steps_taken():
    result = run(steps=7)
    assert result.status is Status.MAX_STEPS
    assert str(result.status) == "max_steps"
    assert result.steps == 7
    assert "7" in result.detail
    np.testing.assert_allclose(result.x, 0.8**7 * START, rtol=1e-13)


@pytest.mark.parametrize("patience", [1, 3])
def test_converged_once_the_gradient_stays_small_for_patience_records(patience):
    """‖grad F(x_t)‖ = 2‖x_0‖ 0.8^t is first below 1 at t = 10, so recorded at 10, 12, 14."""
    result = run(steps=1000, record=2, tolerance=1.0, patience=patience)
    assert result.status is Status.CONVERGED
    assert result.steps == 8 + 2 * patience
    assert (result.history["gradient_norm"] <= 1).sum() == patience
    assert f"step {result.steps}" in result.detail
    np.testing.assert_allclose(result.x, 0.8**result.steps * START, rtol=1e-12)


def test_one_record_above_the_tolerance_starts_the_count_anew():
    """Steps 0.45 and 5.5 in turn multiply x by 0.1 and by -10: every other gradient is small."""
    steps = rx.schedules.as_schedule(lambda t: 0.45 if t % 2 == 1 else 5.5)
    options = {"steps": 9, "batch_size": 1, "x0": np.array([1.0, 0.0, 0.0]), "record": 1, "driver": "eager"}
    patient = rx.minimize(quadratic_problem(), rx.rsgd(steps), tolerance=0.3, patience=2, **options)
    np.testing.assert_allclose(patient.history["gradient_norm"], [2, 0.2] * 5, rtol=1e-12)
    assert patient.status is Status.MAX_STEPS
    hasty = rx.minimize(quadratic_problem(), rx.rsgd(steps), tolerance=0.3, patience=1, **options)
    assert hasty.status is Status.CONVERGED
    assert hasty.steps == 1


def test_no_tolerance_means_no_convergence():
    assert run(0.5, steps=30).status is Status.MAX_STEPS  # x = 0 from the first step on


# --- diverged -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["jax", "eager"])
@pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")
def test_an_infinite_loss_ends_the_run_at_the_next_record_and_keeps_the_last_good_point(driver):
    """|x| grows by 1e60 a step: its square overflows after the third."""
    result = run(5e59, steps=50, record=2, driver=driver)
    assert result.status is Status.DIVERGED
    assert result.steps == 4
    assert result.history["step"].tolist() == [0, 2, 4]
    assert not np.isfinite(result.history["loss"][-1])
    assert "between steps 2 and 4" in result.detail
    np.testing.assert_allclose(result.x, 1e120 * START, rtol=1e-12)


@pytest.mark.parametrize("driver", ["jax", "eager"])
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero:RuntimeWarning")
def test_a_loss_that_turns_nan(driver):
    def loss(x, batch):
        return jnp.sum(jnp.log(x)) + 0 * jnp.sum(batch)

    problem = rx.Problem(loss, rx.Euclidean(1), np.ones((5, 1)))
    result = run(0.5, steps=50, problem=problem, x0=np.array([1.2]), record=1, driver=driver)
    assert result.status is Status.DIVERGED
    assert "the loss became nan" in result.detail
    last_good = result.history["step"][-2]
    again = run(0.5, steps=int(last_good), problem=problem, x0=np.array([1.2]), driver=driver)
    np.testing.assert_array_equal(result.x, again.x)
    assert np.isfinite(result.x).all()


def test_a_loss_beyond_its_bound():
    result = run(1.1, steps=100, record=3, loss_bound=1000.0)
    assert result.status is Status.DIVERGED
    assert "exceeded loss_bound=1000" in result.detail
    losses = result.history["loss"]
    assert losses[-1] > 1000 >= losses[-2]
    np.testing.assert_allclose(np.sum(result.x**2), losses[-2], rtol=1e-13)
    assert result.steps == result.history["step"][-1]


def test_the_sfo_of_a_diverged_run_is_what_was_spent():
    result = run(1.1, steps=100, record=3, loss_bound=1000.0)
    assert result.sfo == result.history["sfo"][-1] == result.steps


def test_the_output_of_a_diverged_run_is_a_good_point_too():
    for seed in range(6):
        result = run(5e59, steps=50, record=2, driver="jax", seed=seed)
        assert result.status is Status.DIVERGED
        assert np.isfinite(np.sum(result.output**2)), seed


def test_a_start_with_a_nan_loss_is_not_run_at_all():
    problem = rx.Problem(lambda x, batch: jnp.sum(jnp.log(x)) + 0 * jnp.sum(batch), rx.Euclidean(1), np.ones((5, 1)))
    result = run(0.5, steps=50, problem=problem, x0=np.array([-1.0]), record=10, driver="jax")
    assert result.status is Status.DIVERGED
    assert result.steps == 0


# --- stopped --------------------------------------------------------------------------------------------------


def test_on_record_stops_a_run():
    result = run(steps=100, record=5, on_record=lambda step, row: step == 15)
    assert result.status is Status.STOPPED
    assert result.steps == 15
    assert "15" in result.detail
    assert result.history["step"].tolist() == [0, 5, 10, 15]
    np.testing.assert_allclose(result.x, 0.8**15 * START, rtol=1e-12)


def test_on_record_may_stop_a_run_before_its_first_step():
    result = run(steps=100, record=5, on_record=lambda step, row: True)
    assert result.steps == 0
    assert result.status is Status.STOPPED


def test_an_error_in_on_record_reaches_the_caller_and_restores_the_handlers():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        run(on_record=lambda step, row: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before


# --- interrupted ----------------------------------------------------------------------------------------------

main_thread_only = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)


@main_thread_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("answer", ["raise", "return"])
def test_a_signal_ends_the_run_and_reaches_the_caller_with_what_there_is(number, answer):
    before = signal.getsignal(number)

    def interrupt(step, row):
        if step == 10:
            os.kill(os.getpid(), number)

    if answer == "return":
        result = run(steps=10_000, record=10, on_record=interrupt, on_interrupt="return")
    else:
        kind, base = {
            signal.SIGINT: (rx.InterruptedRun, KeyboardInterrupt),
            signal.SIGTERM: (rx.TerminatedRun, SystemExit),
        }[number]
        with pytest.raises(kind) as caught:
            run(steps=10_000, record=10, on_record=interrupt)
        assert isinstance(caught.value, base)
        result = caught.value.result
    assert result.status is Status.INTERRUPTED
    assert result.history["step"][-1] == result.steps
    assert 10 <= result.steps < 10_000
    assert "interrupted after step" in result.detail
    np.testing.assert_allclose(result.x, 0.8**result.steps * START, rtol=1e-10, atol=1e-300)
    assert signal.getsignal(number) is before


@main_thread_only
def test_a_signal_in_the_middle_of_compiled_steps():
    """No record is near: the run comes up for air by itself."""
    here = case("grassmann polar projection")
    main = os.getpid()
    alarm = threading.Timer(1.5, lambda: os.kill(main, signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)

    def begin(step, row):
        if step == 0:
            alarm.start()

    start = time.perf_counter()
    with pytest.raises(rx.InterruptedRun) as caught:
        rx.minimize(here.problem, rx.rsrm(0.01), steps=10**9, batch_size=2, record=10**9, on_record=begin)
    result = caught.value.result
    assert result.status is Status.INTERRUPTED
    # What is shown is of the point that is returned, though no record was due there.
    np.testing.assert_allclose(result.history["loss"][-1], here.loss(result.x), rtol=1e-12)
    assert f"loss={result.history['loss'][-1]:.6g}" in repr(result)
    assert 0 < result.steps < 10**9
    assert time.perf_counter() - start < 60
    assert result.sfo == 7 + (result.steps - 1) * 4
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_ctrl_c_in_a_script():
    script = """
import numpy as np, jax.numpy as jnp, retrax as rx
problem = rx.Problem(lambda x, b: jnp.sum(x ** 2) + 0 * jnp.sum(b), rx.Euclidean(3), np.ones((5, 1)))
said = []
def ready(step, row):
    if step and not said:
        said.append(print("ready", flush=True))
for seed in range(3):
    try:
        rx.minimize(problem, rx.rsgd(0.001), steps=10**9, batch_size=1, record=1000, on_record=ready, seed=seed)
    except KeyboardInterrupt as stopped:
        result = stopped.result
        print(seed, result.status, result.steps > 0, np.isfinite(result.x).all(), flush=True)
        raise
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert out == "0 interrupted True True\n"
    assert "InterruptedRun: interrupted after step" in err
    assert process.returncode not in (0, None)


def test_a_run_in_a_thread_works_and_touches_no_handlers():
    results = []
    thread = threading.Thread(target=lambda: results.append(run(steps=5)))
    thread.start()
    thread.join()
    assert results[0].status is Status.MAX_STEPS
