"""A sweep is many single runs at once: the same numbers, and a choice among them."""

import functools
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

METHODS = {
    "RSRM": rx.rsrm,
    "RASA-LR": functools.partial(rx.rasa, sides="LR"),
    "RSVRG": functools.partial(rx.rsvrg, restart_every=7),
}


@pytest.fixture(scope="module")
def problem():
    rows = np.random.default_rng(0).normal(size=(300, 8)) * np.linspace(2, 0.3, 8)
    return rx.problems.PCA(rows, 2)


@pytest.mark.parametrize("name", METHODS)
def test_each_run_equals_a_single_run(problem, name):
    swept = rx.sweep(problem, {name: METHODS[name]}, [0.1, 0.02], [3, 5, 9], steps=40, batch_size=4, record=8)[name]
    single = rx.minimize(problem, METHODS[name](0.02), steps=40, batch_size=4, record=8, seed=5)
    np.testing.assert_allclose(swept.curves["gap"][1, 1], single.history["gap"], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(swept.sfo, single.history["sfo"])
    np.testing.assert_array_equal(swept.step, single.history["step"])


def test_best_is_the_smallest_median_and_divergence_loses(problem):
    swept = rx.sweep(problem, rx.rsgd, [1e-6, 0.05], 5, steps=200, record=50)["RSGD"]
    assert swept.best_learning_rate == 0.05
    medians = np.median(swept.curves["gap"][..., -1], axis=1)
    assert medians[1] < medians[0]
    lower, median, upper = swept.quartiles()
    np.testing.assert_array_equal(median, np.median(swept.curves["gap"][1], axis=0))
    assert (lower <= median).all()
    assert (median <= upper).all()


def test_names_come_from_the_methods(problem):
    assert list(rx.sweep(problem, [rx.rsgd, rx.rsrm], [0.1], 1, steps=5)) == ["RSGD", "RSRM"]


def test_wrong_arguments(problem):
    with pytest.raises(TypeError, match=r"such as retrax\.rsrm"):
        rx.sweep(problem, [rx.rsrm(0.1)], [0.1], steps=5)
    with pytest.raises(ValueError, match="at least one step size"):
        rx.sweep(problem, rx.rsrm, [], steps=5)


def test_what_a_sweep_refuses_it_says_in_one_line(problem):
    with pytest.raises(TypeError, match=r"functions from a step size to a method, such as retrax\.rsrm.*: RSRM$"):
        rx.sweep(problem, rx.rsrm(0.1), [0.1], steps=10)
    with pytest.raises(TypeError, match=r"learning_rates must be several step sizes, such as \[0\.1\], not one number"):
        rx.sweep(problem, rx.rsrm, 0.1, steps=10)
    with pytest.raises(TypeError, match="learning_rates must be numbers, not str: 'fast'"):
        rx.sweep(problem, rx.rsrm, ["fast"], steps=10)
    with pytest.raises(TypeError, match=r"seeds must be their number or a sequence of them, not 1\.5"):
        rx.sweep(problem, rx.rsrm, [0.1], 1.5, steps=10)


# --- files and streams ----------------------------------------------------------------------------------------


RATES, SEEDS = [0.05, 0.01], [3, 5]


@pytest.mark.parametrize("name", METHODS)
def test_a_file_gives_the_curves_of_the_array(problem, name, tmp_path):
    """PCA knows its optimum from the array only: losses are compared, on all the samples."""
    np.save(tmp_path / "rows.npy", problem.data)
    arguments = {"steps": 30, "record": rx.Record(every=10, samples=len(problem.data)), "first_batch_size": 50}
    mapped = rx.problems.PCA(tmp_path / "rows.npy", 2)
    swept = [rx.sweep(p, {name: METHODS[name]}, RATES, SEEDS, **arguments)[name] for p in (problem, mapped)]
    for column in ("loss", "gradient_norm", "direction_norm", "step_size"):
        np.testing.assert_allclose(swept[0].curves[column], swept[1].curves[column], rtol=1e-12, err_msg=column)
    np.testing.assert_array_equal(swept[0].sfo, swept[1].sfo)


def _loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def test_all_runs_of_a_stream_see_the_same_samples(problem):
    """And so does a single run: each step size takes its own steps on them."""
    rows = np.array(problem.data)

    def stream():
        return rx.Problem(_loss, rx.Grassmann(8, 2), rx.Stream([rows[i : i + 7] for i in range(0, 300, 7)]))

    arguments = {"steps": 30, "record": rx.Record(every=10, samples=50), "x0": problem.initial_point(0)}
    swept = rx.sweep(stream(), rx.rsgd, RATES, SEEDS, **arguments)["RSGD"]
    for rate, losses in zip(RATES, swept.curves["loss"], strict=True):
        single = rx.minimize(stream(), rx.rsgd(rate), **arguments).history["loss"]
        for one in losses:
            np.testing.assert_allclose(one, single, rtol=1e-12)


# --- interruption and checkpoints -----------------------------------------------------------------------------


def test_ctrl_c_keeps_what_there_is(problem):
    """The second method is interrupted: all of the first, and of the second what was recorded until then."""

    def ask(name, step):
        if (name, step) == ("RSRM", 20):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(rx.InterruptedRun) as caught:
        rx.sweep(problem, [rx.rsgd, rx.rsrm], RATES, SEEDS, steps=40, record=10, on_record=ask)
    swept = caught.value.result
    assert list(swept) == ["RSGD", "RSRM"]
    assert swept["RSGD"].step.tolist() == [0, 10, 20, 30, 40]
    assert swept["RSRM"].step.tolist()[:3] == [0, 10, 20]
    assert swept["RSRM"].step[-1] < 40
    assert swept["RSRM"].curves["gap"].shape == (2, 2, len(swept["RSRM"].step))
    assert "RSRM: best step size" in repr(swept)


def test_a_resumed_sweep_has_the_same_bits(problem, tmp_path):
    arguments = {"steps": 40, "record": 10}
    undisturbed = rx.sweep(problem, [rx.rsgd, rx.rsrm], RATES, SEEDS, **arguments)
    checkpoint = rx.Checkpoint(tmp_path, every=15)

    def ask(name, step):
        if (name, step) == ("RSRM", 20):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(rx.TerminatedRun):
        rx.sweep(problem, [rx.rsgd, rx.rsrm], RATES, SEEDS, **arguments, checkpoint=checkpoint, on_record=ask)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["RSGD", "RSRM"]
    resumed = rx.sweep(problem, [rx.rsgd, rx.rsrm], RATES, SEEDS, **arguments, checkpoint=checkpoint, resume=True)
    for name in undisturbed:
        np.testing.assert_array_equal(undisturbed[name].step, resumed[name].step)
        for column, curve in undisturbed[name].curves.items():
            np.testing.assert_array_equal(curve, resumed[name].curves[column], err_msg=column)
    with pytest.raises(ValueError, match="belongs to another run, whose seed"):
        rx.sweep(problem, rx.rsgd, RATES, [3, 6], **arguments, checkpoint=checkpoint, resume=True)
