"""The measurement behind Table 1."""

import math

import numpy as np
import pytest

from retrax.experiments import complexity, workloads
from retrax.experiments.complexity import batch_sizes, exponent, first_hits
from retrax.experiments.specs import ENTRIES


def test_the_exponent_is_the_slope_of_the_logarithms():
    tolerances = (1.0, 0.5, 0.25, 0.125)
    assert exponent(tolerances, [7 * epsilon**-3 for epsilon in tolerances]) == pytest.approx(-3)
    assert exponent(tolerances, [1.0, 16.0, 256.0, math.inf]) == pytest.approx(-4)
    assert math.isnan(exponent(tolerances, [1.0, 16.0, math.inf, math.inf]))


def test_first_hits():
    sfo = np.array([0, 10, 20, 30])
    norms = np.array([[5, 1, 3, 0.5], [5, 4, 3, 2]])
    np.testing.assert_array_equal(first_hits(sfo, norms, 1.0), [10, np.inf])
    np.testing.assert_array_equal(first_hits(sfo, norms, 9.0), [0, 0])


def test_the_theory_of_table_1():
    assert {entry.key: entry.exponent for entry in ENTRIES} == {
        "rsrm": -3, "rsgd": -4, "rasa-lr": -4, "rsvrg": -10 / 3, "rsrg": -3, "rspider": -3,
    }  # fmt: skip


def test_batches_of_the_online_setting_grow_as_the_theory_says():
    rsrg = next(entry for entry in ENTRIES if entry.key == "rsrg")
    assert batch_sizes(rsrg, 4.0, 0.1, 10**6) == {"B": 400, "b": 20, "m": 20}
    rsvrg = next(entry for entry in ENTRIES if entry.key == "rsvrg")
    assert batch_sizes(rsvrg, 1.0, 0.001, 10**7) == {"B": 10**6, "b": 10**4, "m": 100}
    assert batch_sizes(rsrg, 4.0, 0.1, 100)["B"] == 100


@pytest.mark.parametrize("key", ["rsgd", "rsrg", "rspider"])
def test_measuring_a_small_problem(tiny, key):
    problem = workloads.build(tiny.problem, workloads.Place())
    entry = next(entry for entry in ENTRIES if entry.key == key)
    tolerances = (3.0, 2.0, 1.5)
    found = complexity.measure(problem, entry, tolerances, 4000, (0, 1), lambda share, what: None)
    assert found.variance == pytest.approx(_variance(problem), rel=1e-6)
    medians = [point.median for point in found.points]
    assert all(math.isfinite(median) for median in medians)
    if key == "rsgd":
        assert medians == sorted(medians)


def _variance(problem):
    """σ² by hand: grad f_i = -2 (I - UUᵀ) x xᵀU."""
    u = problem.solution
    gradients = [-2 * np.outer(x - u @ (u.T @ x), x @ u) for x in problem.data]
    return float(np.mean([np.sum((g - np.mean(gradients, axis=0)) ** 2) for g in gradients]))
