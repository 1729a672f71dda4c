"""Tuning: budgets in SFO, the choice of η₀, the extension of the grid, variants, and agreement with single runs."""

import dataclasses

import numpy as np
import pytest

import retrax as rx
from retrax.experiments import series, tuning, workloads
from retrax.experiments.results import Choice
from retrax.experiments.specs import GRID, Budget
from retrax.experiments.tuning import Tuner, ladder, neighbours, run_series, steps_for

BUDGET = Budget(epochs=5, grid=(0.5, 0.1, 0.01), seeds=(0, 1, 2), tuning_seeds=(0, 1), records=10, tuning_records=5)


@pytest.fixture
def problem(tiny):
    return workloads.build(tiny.problem, workloads.Place())


def nothing(share, what):
    """Tell nobody."""


def test_the_ladder_continues_the_papers_grid():
    rungs = ladder()
    start = rungs.index(1.0)
    assert rungs[start : start + len(GRID)] == GRID
    assert rungs[start - 2 : start] == (10.0, 5.0)
    assert neighbours(0.1) == (0.5, 0.1, 0.05)


@pytest.mark.parametrize(
    ("method", "batch", "first"),
    [
        (rx.rsrm(0.1), 5, 20),
        (rx.rsgd(0.1), 10, None),
        (rx.rsvrg(0.1), 10, None),
        (rx.rsrg(0.1, restart_every=7), 4, 50),
    ],
)
@pytest.mark.parametrize("sfo", [600, 1000, 1777])
def test_steps_spend_the_sfo_they_were_counted_for(problem, method, batch, first, sfo):
    steps = steps_for(method, batch, first, 200, sfo)
    result = rx.minimize(problem, method, steps=steps, batch_size=batch, first_batch_size=first, progress=False)
    large = first or (200 if method.first_batch_size == "all" else batch)
    assert sfo - large <= result.sfo <= sfo + batch * method.evaluations


def test_the_best_rate_has_the_smallest_median_final_gap(problem):
    tuner = Tuner(problem, series.RSGD, BUDGET, 100, nothing)
    variant, rate = tuner.tune(BUDGET.grid)
    finals = {pair: np.median(curve[:, -1]) for pair, curve in tuner.curves.items()}
    assert (variant, rate) == min(finals, key=finals.__getitem__)


def test_a_best_rate_at_the_edge_extends_the_grid_both_ways(problem):
    low = Tuner(problem, series.RSGD, BUDGET, 100, nothing)
    low.tune((0.001, 0.0005))
    assert max(rate for _, rate in low.curves) > 0.001
    high = Tuner(problem, series.RSGD, BUDGET, 100, nothing)
    high.tune((5.0, 1.0))
    assert min(rate for _, rate in high.curves) < 1


def test_the_extension_ends(problem):
    tuner = Tuner(problem, series.RSGD, BUDGET, 20, nothing)
    tuner.tune((1e-5, 5e-6))
    assert len(tuner.curves) <= 2 + 2 * tuning.MAX_EXTENSIONS


def test_diverged_runs_never_win(problem):
    tuner = Tuner(problem, series.RSGD, BUDGET, 20, nothing)
    tuner.curves = {(0, 1.0): np.array([[1.0, np.nan]] * 2), (0, 0.1): np.array([[1.0, 0.9]] * 2)}
    assert tuner.best([0]) == (0, 0.1)


def test_variants_are_tried_around_the_best_rate_of_the_first(problem, tiny):
    tuned = tiny.series[2]
    result = run_series(problem, tuned, BUDGET, nothing)
    candidates = {(candidate.variant["rho"], candidate.rate) for candidate in result.tuning.candidates}
    assert {rate for rho, rate in candidates if rho == 0.1} >= set(BUDGET.grid)
    assert len([rate for rho, rate in candidates if rho == 0.5]) >= 3
    best = min(result.tuning.candidates, key=lambda candidate: candidate.median_final)
    assert result.best == Choice(best.rate, best.variant)


def test_single_runs_agree_with_the_sweep_and_have_a_clock(problem):
    budget = dataclasses.replace(BUDGET, records=5)
    result = run_series(problem, series.rsrm(20), budget, nothing)
    best = next(candidate for candidate in result.tuning.candidates if candidate.rate == result.best.rate)
    np.testing.assert_allclose(result.runs.gap[:2], best.gap, rtol=1e-4, atol=1e-9)
    seconds = result.runs.seconds
    assert seconds.shape == result.runs.gap.shape
    assert np.all(np.diff(seconds, axis=1) > 0)


def test_a_single_rate_is_not_tuned(problem):
    result = run_series(problem, series.rsrm(20, rates=(0.05,)), BUDGET, nothing)
    assert result.tuning is None
    assert result.best.rate == 0.05


def test_a_first_batch_larger_than_the_data_is_all_the_data(problem):
    result = run_series(problem, series.rsrm(10_000, rates=(0.05,)), BUDGET, nothing)
    assert result.runs.sfo[-1] >= 200


def test_a_run_that_diverges_is_padded():
    padded = tuning._padded(np.array([1.0, 2.0]), 4)
    np.testing.assert_array_equal(padded, [1, 2, np.nan, np.nan])
