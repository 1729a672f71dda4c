"""Tuning: budgets in SFO, the choice of η₀, the extension of the grid, variants, and agreement with single runs."""

import dataclasses
import math

import numpy as np
import pytest

import retrax as rx
from retrax.experiments import series, tuning, workloads
from retrax.experiments.encoding import to_json
from retrax.experiments.results import Choice
from retrax.experiments.series import Series
from retrax.experiments.specs import GRID, Budget
from retrax.experiments.tuning import Tuner, ladder, neighbours, run_series, steps_for, survivors

BUDGET = Budget(epochs=5, grid=(0.5, 0.1, 0.01), seeds=(0, 1, 2), tuning_seeds=(7, 8), records=10, tuning_records=5)


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
    steps = steps_for(method, batch, first, 200, sfo / 200)
    result = rx.minimize(problem, method, steps=steps, batch_size=batch, first_batch_size=first, progress=False)
    large = first or (200 if method.first_batch_size == "all" else batch)
    assert sfo - large <= result.sfo <= sfo + batch * method.evaluations


def test_the_best_rate_has_the_smallest_median_final_gap_of_those_that_ran_to_the_end(problem):
    tuner = Tuner(problem, series.RSGD, BUDGET, nothing)
    variant, rate = tuner.tune(BUDGET.grid)
    finals = {pair: np.median(c.gap[:, -1]) for pair, c in tuner.candidates.items() if c.share == 1}
    assert (variant, rate) == min(finals, key=finals.__getitem__)


def test_hopeless_step_sizes_are_stopped_early(problem):
    tuner = Tuner(problem, series.RSGD, dataclasses.replace(BUDGET, grid=GRID), nothing)
    tuner.tune(GRID)
    shares = {rate: candidate.share for (_, rate), candidate in tuner.candidates.items()}
    assert set(shares) >= set(GRID)
    assert list(shares.values()).count(1) in (3, 4)
    assert set(shares.values()) == {1 / 8, 1}
    whole = rx.sweep(problem, {"m": rx.rsgd}, GRID, BUDGET.tuning_seeds, steps=100, batch_size=10)["m"]
    assert tuner.best([0])[1] == whole.best_learning_rate


@pytest.mark.parametrize(
    ("medians", "kept"),
    [
        ({1.0: 1, 0.5: 2, 0.1: 3, 0.05: 4, 0.01: 5, 0.005: 6, 0.001: 7}, [1.0, 0.5, 0.1]),
        ({1.0: 9, 0.5: 9, 0.1: 1, 0.05: 9.5, 0.01: 8, 0.005: 7}, [0.1, 0.05, 0.01, 0.005]),  # 0.05: just below the best
        ({1.0: math.inf, 0.5: math.inf, 0.1: math.inf, 0.05: 1}, [0.05]),
        ({1.0: math.inf, 0.5: math.inf, 0.1: math.inf}, [0.1]),
    ],
)
def test_who_goes_on(medians, kept):
    pairs = [(0, rate) for rate in medians]
    assert survivors(pairs, lambda pair: medians[pair[1]]) == [(0, rate) for rate in kept]


def test_a_best_rate_at_the_edge_extends_the_grid_both_ways(problem):
    low = Tuner(problem, series.RSGD, BUDGET, nothing)
    low.tune((0.001, 0.0005))
    assert max(rate for _, rate in low.candidates) > 0.001
    high = Tuner(problem, series.RSGD, BUDGET, nothing)
    high.tune((5.0, 1.0))
    assert min(rate for _, rate in high.candidates) < 1


def test_the_extension_ends(problem):
    tuner = Tuner(problem, series.RSGD, dataclasses.replace(BUDGET, epochs=1), nothing)
    tuner.tune((1e-5, 5e-6))
    assert len(tuner.candidates) <= 2 + 2 * tuning.MAX_EXTENSIONS


def test_diverged_runs_never_win():
    assert tuning.median_final(np.array([[1.0, np.nan], [1.0, np.inf], [1.0, 0.5]])) == math.inf
    assert tuning.median_final(np.array([[1.0, 0.9], [1.0, np.nan], [1.0, 0.5]])) == 0.9


def test_variants_are_tried_around_the_best_rate_of_the_first(problem, tiny):
    tuned = tiny.series[2]
    result = run_series(problem, tuned, BUDGET, nothing)
    candidates = {(candidate.variant["rho"], candidate.rate) for candidate in result.tuning.candidates}
    assert {rate for rho, rate in candidates if rho == 0.1} >= set(BUDGET.grid)
    assert len([rate for rho, rate in candidates if rho == 0.5]) >= 3
    ended = [candidate for candidate in result.tuning.candidates if candidate.share == 1]
    best = min(ended, key=lambda candidate: candidate.median_final)
    assert result.best == Choice(best.rate, best.variant)


def test_the_reported_runs_are_those_of_single_runs_on_other_seeds(problem):
    result = run_series(problem, series.rsrm(20, rates=(0.05,)), BUDGET, nothing)
    assert result.tuning is None
    assert result.best.rate == 0.05
    for seed, gap in zip(BUDGET.seeds, result.runs.gap, strict=True):
        single = rx.minimize(
            problem, rx.rsrm(0.05), steps=result.steps, batch_size=5, first_batch_size=20, seed=seed, progress=False,
            record=rx.Record(every=result.every),
        )  # fmt: skip
        np.testing.assert_allclose(gap, single.history["gap"], rtol=1e-6, atol=1e-12)
        np.testing.assert_array_equal(result.runs.sfo, single.history["sfo"])


def test_a_series_without_a_rate_is_not_tuned_and_is_given_none(problem, monkeypatch):
    asked = []
    monkeypatch.setattr(rx, "finds_its_own", lambda **options: asked.append(options) or rx.rsgd(0.1), raising=False)
    own = Series("own", "Own", "finds_its_own", (("momentum", 0.5),), rates=(), in_paper=False)
    assert own.tuning_free
    result = run_series(problem, own, BUDGET, nothing)
    assert result.best.rate is None
    assert result.tuning is None
    assert asked == [{"momentum": 0.5}]
    assert to_json(result)["best"]["rate"] is None


def test_an_average_is_tuned_and_judged_by_its_own_gap(problem):
    result = run_series(problem, series.AVERAGED, BUDGET, nothing)
    best = result.best.rate
    for seed, gap in zip(BUDGET.seeds, result.runs.gap, strict=True):
        single = rx.minimize(
            problem, rx.rsgd(best), steps=result.steps, batch_size=10, seed=seed, progress=False, average=True,
            record=rx.Record(every=result.every),
        )  # fmt: skip
        np.testing.assert_allclose(gap, single.history["average_gap"], rtol=1e-9, atol=1e-12)
    ended = {candidate.rate: candidate.median_final for candidate in result.tuning.candidates if candidate.share == 1}
    assert best == min(ended, key=ended.__getitem__)


def test_a_first_batch_larger_than_the_data_is_all_the_data(problem):
    result = run_series(problem, series.rsrm(10_000, rates=(0.05,)), BUDGET, nothing)
    assert result.series.first_batch_size == 200
    assert result.runs.sfo[-1] >= 200


def test_a_run_that_diverges_is_padded():
    np.testing.assert_array_equal(tuning.padded(np.array([1.0, 2.0]), 4), [1, 2, np.nan, np.nan])
