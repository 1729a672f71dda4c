"""The measurement behind Table 1."""

import math

import numpy as np
import pytest

from retrax.experiments import complexity, workloads
from retrax.experiments.complexity import (
    batch_sizes,
    curve_exponent,
    exponent,
    first_below,
    interval,
    joined,
    reached,
    second_half_mean,
)
from retrax.experiments.specs import ENTRIES

TOLERANCES = (1.0, 0.5, 0.25, 0.125)


def entry_of(key):
    return next(entry for entry in ENTRIES if entry.key == key)


def test_the_exponent_is_the_slope_of_the_logarithms():
    assert exponent(TOLERANCES, np.array([7 * epsilon**-3 for epsilon in TOLERANCES])) == pytest.approx(-3)
    assert exponent(TOLERANCES, np.array([1.0, 16.0, 256.0, math.inf])) == pytest.approx(-4)
    assert math.isnan(exponent(TOLERANCES, np.array([1.0, 16.0, math.inf, math.inf])))


def test_the_exponent_of_a_curve_is_that_of_its_last_two_decades():
    sfo = np.concatenate([[0.0], np.geomspace(1, 1e6, 400)])
    curve = np.where(sfo < 1e3, 1.0, 10 * np.maximum(sfo, 1) ** (-1 / 3))
    assert curve_exponent(sfo, curve) == pytest.approx(-3, rel=1e-3)
    assert math.isnan(curve_exponent(sfo, np.where(sfo < 1e3, 1.0, 0.0)))


def test_the_interval_is_as_wide_as_the_seeds_differ():
    values = np.array([-3.3, -3.1, -3.0, -2.9, -2.8, -2.6])
    low, high = interval(lambda chosen: float(values[chosen].mean()), len(values))
    standard_error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * standard_error, abs=0.05)
    assert high == pytest.approx(values.mean() + 1.96 * standard_error, abs=0.05)
    assert interval(lambda chosen: -3.0, 5) == (-3, -3)
    assert all(math.isnan(end) for end in interval(lambda chosen: math.nan, 5))


def test_the_fit_leaves_out_what_was_not_reached():
    hits = np.array([[10.0, 12.0, 11.0], [100.0] * 3, [1000.0] * 3, [math.inf, 1e4, math.inf]])
    tolerances, kept = reached(TOLERANCES, hits)
    assert tolerances == (1.0, 0.5, 0.25)
    np.testing.assert_array_equal(kept, hits[:3])


def test_the_mean_over_the_second_half():
    sfo = np.linspace(0, 100, 101)
    means = second_half_mean(sfo, 2 * sfo)
    # The mean of 2s over [T/2, T] is 3T/2; at 0 there is only the value there.
    np.testing.assert_allclose(means[2::2], 1.5 * sfo[2::2])
    assert means[0] == 0


def test_the_first_time_below_is_interpolated_in_the_logarithms():
    sfo, values = np.array([0.0, 10.0, 1000.0]), np.array([5.0, 1.0, 0.01])
    assert first_below(sfo, values, 0.1) == pytest.approx(100)
    assert first_below(sfo, values, 9.0) == 0
    assert first_below(sfo, values, 0.001) == math.inf


def test_beginnings_of_a_run_are_joined_from_the_finest_on():
    fine, coarse = (np.array([0, 1, 2]), np.array([[9.0, 8, 7]])), (np.array([0, 2, 4]), np.array([[9.0, 7, 5]]))
    sfo, norms = joined([fine, coarse])
    np.testing.assert_array_equal(sfo, [0, 1, 2, 4])
    np.testing.assert_array_equal(norms, [[9, 8, 7, 5]])


def test_the_theory_of_table_1():
    assert {entry.key: entry.exponent for entry in ENTRIES if not entry.varied} == {
        "rsrm": -3, "rsgd": -4, "rasa-lr": -4, "rsvrg": -10 / 3, "rsrg": -3, "rspider": -3,
    }  # fmt: skip
    assert {(entry.batch_size, entry.noise) for entry in ENTRIES if entry.recipe == "rsrm"} == {
        (1, 1), (10, 1), (100, 1), (1, 0), (1, 4), (1, 16),
    }  # fmt: skip


def test_batches_of_the_online_setting_grow_as_the_theory_says():
    assert batch_sizes(entry_of("rsrg"), 4.0, 0.1, 10**6) == {"B": 400, "b": 20, "m": 20}
    assert batch_sizes(entry_of("rsvrg"), 1.0, 0.001, 10**7) == {"B": 10**6, "b": 10**4, "m": 100}
    assert batch_sizes(entry_of("rsrg"), 4.0, 0.1, 100)["B"] == 100


def test_noise_changes_the_variance_and_nothing_else(monkeypatch):
    monkeypatch.setattr(workloads, "ONLINE", (50_000, 8, 2))
    plain, noisy = (workloads.online(noise)[0] for noise in (1, 16))
    wanted = np.diag([1, 1, *[0.2] * 6])
    for rows in (plain, noisy):
        np.testing.assert_allclose(rows.T @ rows / len(rows), wanted, atol=1e-12)
    spread = [np.mean(np.sum(rows[:, :2] ** 2, 1) * np.sum(rows[:, 2:] ** 2, 1)) for rows in (plain, noisy)]
    assert spread[1] / spread[0] == pytest.approx(16, rel=0.1)  # three standard errors of 3000 samples
    assert np.ptp(workloads.online(0)[0], axis=0).max() == 0


@pytest.mark.parametrize("key", ["rsgd", "rsrg", "rspider"])
def test_measuring_a_small_problem(tiny, key):
    problem = workloads.build(tiny.problem, workloads.Place())
    found = complexity.measure(problem, entry_of(key), (3.0, 2.0, 1.5), 4000, (0, 1), (7,), lambda share, what: None)
    assert found.variance == pytest.approx(_variance(problem), rel=1e-6)
    medians = [point.median for point in found.points]
    if key == "rsgd":
        assert all(math.isfinite(median) for median in medians)
        assert medians == sorted(medians)
        assert found.seeds == (0, 1)
    else:
        assert any(math.isfinite(median) for median in medians)


def _variance(problem):
    """σ² by hand: grad f_i = -2 (I - UUᵀ) x xᵀU."""
    u = problem.solution
    gradients = [-2 * np.outer(x - u @ (u.T @ x), x @ u) for x in problem.data]
    return float(np.mean([np.sum((g - np.mean(gradients, axis=0)) ** 2) for g in gradients]))
