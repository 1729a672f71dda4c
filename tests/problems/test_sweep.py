"""A sweep is many single runs at once: the same numbers, and a choice among them."""

import functools

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
