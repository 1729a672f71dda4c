"""What a result warns of: runs that are unfinished, and given step sizes far from what the curvature allows."""

import numpy as np
import pytest

import retrax as rx
from retrax.advice import curvature
from retrax.typing import Step


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return rx.problems.PCA(rng.standard_normal((400, 20)) * np.geomspace(8, 0.5, 20), 3)


def relative_gap(problem, result):
    return result.history["gap"][-1] / abs(problem.optimum)


@pytest.mark.parametrize(("rate", "words"), [(10.0, "divide the learning rate"), (1e-5, "multiply the learning rate")])
def test_far_step_size_is_said_with_a_factor_that_helps(problem, rate, words):
    poor = better = rx.minimize(problem, rx.rsrm(rate), steps=1000)
    assert words in poor.warning
    assert f"Warning: {poor.warning}" in repr(poor)
    for _ in range(3):  # A run that jumps about may end along a flat direction, and is then told of a part of the way.
        if words not in better.warning:
            break
        factor = float(better.warning.split("by about ")[1].split(",")[0])
        rate = rate / factor if words.startswith("divide") else rate * factor
        better = rx.minimize(problem, rx.rsrm(rate), steps=1000)
    assert relative_gap(problem, better) < 0.1 * relative_gap(problem, poor)


@pytest.mark.parametrize("method", [rx.rsrm(1e-2), rx.rsrm()], ids=["given", "untuned"])
def test_good_run_warns_of_nothing(problem, method):
    result = rx.minimize(problem, method, steps=3000)
    assert relative_gap(problem, result) < 1e-2
    assert result.warning == ""
    assert "Warning" not in repr(result)


def test_too_few_steps_are_said(problem):
    result = rx.minimize(problem, rx.rsrm(), steps=15)
    assert result.warning.startswith("unfinished")
    assert "take more steps" in result.warning


def test_curvature_is_the_second_derivative_along_the_direction():
    matrix = np.diag([1.0, 4.0, 9.0])
    point, direction = np.array([0.3, -0.2, 0.5]), np.array([0.0, 2.0, 0.0])
    found = curvature(rx.Euclidean(3), lambda x: x @ matrix @ x / 2, Step(point, direction, np.asarray(0.1)))
    assert found == pytest.approx(4.0, rel=1e-6)


def test_curvature_without_a_direction_is_nothing():
    assert curvature(rx.Euclidean(2), lambda x: 0.0, Step(np.ones(2), np.zeros(2), np.asarray(0.1))) == 0
