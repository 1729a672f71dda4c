"""Estimates: runs times steps times the measured cost of one, shared among processes."""

import pytest

from retrax.experiments import estimate
from retrax.experiments.estimate import AGAINST_RSGD, COMPILATIONS, Cost
from retrax.experiments.units import Asked
from retrax.experiments.workloads import Place


@pytest.fixture
def known_cost(monkeypatch):
    monkeypatch.setattr(estimate, "probe", lambda spec, place, batch_size: Cost(0.01, 0.1, 7.0))


def test_the_estimate_by_hand(tiny, known_cost):
    # 5 epochs of 200 samples are 100 steps of 10, and 10 records: 1.3 s and 1 s.
    run = AGAINST_RSGD * 0.01 * 100 + 0.1 * 10
    # Three step sizes on three tuning seeds: 3/8 for all, then 2 + 1 to the end. The second variant adds three more.
    tuned = 3 * (3 / 8 + 3)
    weights = [tuned + 5, tuned + 5, 2 * tuned + 5]
    wanted = sum(weights) * run + 3 * COMPILATIONS * 7.0
    timed = 3 * 3 * run
    assert estimate.seconds(tiny, Asked(), Place(), jobs=1) == pytest.approx(wanted + timed)
    assert estimate.seconds(tiny, Asked(), Place(), jobs=2) == pytest.approx(wanted / 2 + timed)


def test_longer_budgets_and_more_seeds_take_longer(tiny, known_cost):
    usual = estimate.seconds(tiny, Asked(), Place(), 1)
    assert estimate.seconds(tiny, Asked(epochs=50), Place(), 1) > usual
    assert estimate.seconds(tiny, Asked(seeds=50), Place(), 1) > usual
    assert estimate.seconds(tiny, Asked(quick=True), Place(), 1) < usual


def test_the_cost_is_measured(tiny):
    cost = estimate.probe(tiny.problem, Place(), 10)
    assert 1e-7 < cost.step < 1e-2
    assert 0 <= cost.record < 1
    assert 0 < cost.compilation < 100
