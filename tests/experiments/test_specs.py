"""The specs say what the paper asks for."""

import re

import pytest

from retrax.experiments import claims, series, specs, workloads
from retrax.experiments.specs import EXPERIMENTS, GRID, UsageError, find

NAMES = [
    *("pca-syn1", "pca-syn2", "pca-syn3", "pca-mnist", "pca-covtype", "pca-syn1-eta", "pca-syn1-batch"),
    *("ica-yaleb", "ica-cifar100", "ica-coil100", "rc-syn1", "rc-yaleb", "rc-kylberg", "table1", "transports"),
    "untuned",
]
COMPARISONS = [name for name in NAMES if name.startswith(("pca", "ica", "rc")) and not name.endswith(("eta", "batch"))]


def test_the_names_are_those_of_the_issue():
    assert list(EXPERIMENTS) == NAMES


def test_the_grid_is_the_papers():
    assert GRID == (1, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_has_the_papers_methods_and_batches(name):
    in_paper = [one for one in EXPERIMENTS[name].series if one.in_paper]
    assert [one.label for one in in_paper] == [
        "RSRM", "RSGD", "cSGD-M", "cRMSProp", "RAMSGRAD", "RASA-L", "RASA-R", "RASA-LR",
    ]  # fmt: skip
    assert in_paper[0].batch_size == 5
    assert in_paper[0].first_batch_size == (200 if name.startswith("ica") else 100)
    assert {one.batch_size for one in in_paper[1:]} == {10}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("transports", "untuned")])
def test_untuned_rsrm_and_averaged_rsgd_stand_in_every_figure(name):
    untuned, averaged = (one for one in EXPERIMENTS[name].series if one.key in series.BESIDE)
    assert untuned.method(None).name == untuned.label == "RSRM (untuned)"
    assert untuned.tuning_free
    assert averaged.average
    assert averaged.rates is None
    assert [untuned.in_paper, averaged.in_paper] == [False, False]


def test_budgets_are_long_enough_to_be_judged():
    least = {"pca-syn": 20, "pca-mnist": 3, "pca-covtype": 3, "ica-yaleb": 60, "ica-cifar": 3, "ica-coil": 20}
    least |= {"rc-": 20}
    for start, epochs in least.items():
        assert all(one.epochs >= epochs for name, one in EXPERIMENTS.items() if name.startswith(start))


def test_momentum_is_as_printed_and_the_usual_one_stands_beside():
    options = {one.key: dict(one.options) for one in series.compared(100)}
    assert options["csgd-m"] == {"momentum": 0.999}
    assert options["ramsgrad"] == {"momentum": 0.999, "beta": 0.9}
    assert options["ramsgrad-usual"] == {"momentum": 0.9, "beta": 0.999}
    assert {options[key]["beta"] for key in ("crmsprop", "rasa-l", "rasa-r", "rasa-lr")} == {0.9}


def test_rho_is_tuned_beside_from_the_papers_value_first():
    tuned = next(one for one in series.compared(100) if one.key == "rsrm-rho")
    values = [dict(variant)["rho"] for variant in tuned.variants]
    assert values[0] == 0.1
    assert sorted(values) == [0.05, 0.1, 0.3, 0.5, 0.9]


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_unique_file_names_and_every_method_can_be_built(name):
    experiment = EXPERIMENTS[name]
    keys = [one.key for one in experiment.series]
    assert len(set(keys)) == len(keys)
    for one in experiment.series:
        assert re.fullmatch(r"[a-z0-9-]+", one.key)
        for variant in one.variants:
            assert one.method(None if one.tuning_free else 0.1, variant).evaluations in (1, 2)
        assert one.panel in experiment.panel_titles()


@pytest.mark.parametrize("name", NAMES)
def test_claims_exist_and_budgets_are_sensible(name):
    experiment = EXPERIMENTS[name]
    assert experiment.claims
    assert set(experiment.claims) <= set(claims._JUDGES)
    assert 0 < experiment.quick_epochs < experiment.epochs
    assert experiment.records <= 100
    assert experiment.problem.real or experiment.problem.data in workloads.SYNTHETIC


@pytest.mark.parametrize(("typed", "meant"), [("pca-sin1", "pca-syn1"), ("RC-YALE", "rc-yaleb"), ("tabel1", "table1")])
def test_a_misspelt_name_gets_the_nearest(typed, meant):
    with pytest.raises(UsageError, match=f"did you mean .*{meant}"):
        find(typed)


def test_a_senseless_name_gets_the_list():
    with pytest.raises(UsageError, match="retrax list"):
        find("????")


def test_a_spec_says_what_data_it_needs():
    assert EXPERIMENTS["pca-mnist"].needs == "mnist"
    assert EXPERIMENTS["pca-syn1"].needs == ""
    assert specs.ProblemSpec("ica", "coil100", real=True).needs == "coil100"
