"""Verdicts: each claim can hold, hold in part and fail, by the figures."""

import dataclasses
import math

import pytest

from retrax.experiments import claims
from retrax.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, UNSETTLED

from .conftest import made_complexity, made_panel, made_result, made_series, with_series


def methods(**finals):
    """A result with the given median final gaps, quartiles 10 % around them."""
    names = {"rsrm": 1e-3, "rsgd": 1e-2, "crmsprop": 1e-2, "ramsgrad": 1e-2, "rasa_l": 1e-2, "rasa_r": 1e-2}
    names |= {"rasa_lr": 1e-2, "rsrm_rho": 1e-3, **finals}
    return made_result(
        *(
            made_series(
                key.replace("_", "-"),
                [0.9 * final, final, 1.1 * final],
                label="RSRM" if key == "rsrm" else key,
                in_paper=key not in ("rsrm_rho", "rsrm_untuned", "rsgd_average"),
                variant={"rho": 0.3} if key == "rsrm_rho" else {},
            )
            for key, final in names.items()
        )
    )


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [({}, HOLDS), ({"rsgd": 1.05e-3}, IN_PART), ({"rsgd": 0.95e-3}, IN_PART), ({"rsgd": 1e-4}, FAILS)],
)
def test_rsrm_best(finals, verdict):
    assert claims.rsrm_best(methods(**finals)).verdict == verdict


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [({}, HOLDS), ({"ramsgrad": 1e-1}, IN_PART), ({"ramsgrad": 1, "rasa_l": 1, "rasa_r": 1, "rasa_lr": 1}, FAILS)],
)
def test_adaptive_like_sgd(finals, verdict):
    assert claims.adaptive_like_sgd(methods(**finals)).verdict == verdict


@pytest.mark.parametrize(("tuned", "verdict"), [(1e-3, HOLDS), (6e-4, IN_PART), (1e-5, FAILS)])
def test_rho_default(tuned, verdict):
    found = claims.rho_default(methods(rsrm_rho=tuned))
    assert found.verdict == verdict
    assert "ρ₀=0.3" in found.evidence


def test_adaptive_fail():
    assert claims.adaptive_fail(methods()).verdict == FAILS
    assert claims.adaptive_fail(methods(crmsprop=1)).verdict == IN_PART
    assert claims.adaptive_fail(methods(crmsprop=1, rasa_l=1, rasa_r=1, rasa_lr=1)).verdict == HOLDS


@pytest.mark.parametrize(("seconds", "verdict"), [(1.0, HOLDS), (2.0, IN_PART), (5.0, FAILS)])
def test_cost_per_step(seconds, verdict):
    result = with_series(methods(), made_series("rsrm", [1e-3] * 3, seconds=seconds))
    assert claims.cost_per_step(result).verdict == verdict


def test_run_time_is_compared_when_the_fastest_has_finished():
    assert claims.runtime_best(methods()).verdict == HOLDS
    slow = claims.runtime_best(with_series(methods(), made_series("rsrm", [1e-3] * 3, seconds=100.0)))
    assert slow.verdict == FAILS
    assert "busy" not in slow.evidence
    busy = claims.runtime_best(with_series(methods(), made_series("rsrm", [1e-3] * 3, others=1.5)))
    assert "busy: others used up to 1.5 cores, load average 1.0" in busy.evidence


@pytest.mark.parametrize("claim", [claims.runtime_best, claims.cost_per_step])
def test_nothing_is_said_of_run_times_that_were_not_measured(claim):
    found = claim(with_series(methods(), made_series("rsrm", [1e-3] * 3, seconds=None)))
    assert found.verdict == UNDECIDED
    assert "not been measured" in found.evidence


def test_a_lead_that_changes_in_the_last_fifth_is_undecided():
    late = [[1.0] * 10 + [1e-3]] * 3  # above RSGD's 0.01^0.9 until the last record
    result = dataclasses.replace(with_series(methods(), made_series("rsrm", [], gap=late)), claims=("rsrm_best",))
    (found,) = claims.verdicts(result)
    assert found.verdict == UNSETTLED
    assert "the lead changes in the last fifth of the budget, where" in found.evidence
    (early,) = claims.verdicts(dataclasses.replace(methods(), claims=("rsrm_best",)))
    assert early.verdict == HOLDS


def test_a_verdict_names_budget_seeds_and_overlap():
    (found,) = claims.verdicts(dataclasses.replace(methods(rsgd=1.05e-3), claims=("rsrm_best",)))
    assert found.basis == "1 epochs, seeds 0 to 2, tuned on seeds 10000"
    assert "their quartiles overlap" in found.evidence
    (found,) = claims.verdicts(dataclasses.replace(methods(), claims=("rsrm_best",)))
    assert "their quartiles do not overlap" in found.evidence


def test_series_that_stand_in_every_figure_are_not_judged_with_the_papers():
    sizes = [made_series(f"b{size}", [gap] * 3, label=f"RSRM |S₀|={size}") for size, gap in ((10, 1e-3), (99, 1e-3))]
    untuned = made_series("rsrm-untuned", [1e-9] * 3, in_paper=False, label="RSRM (untuned)")
    assert claims.first_batch_insensitive(made_result(*sizes, untuned)).verdict == HOLDS


def test_small_rates():
    def result(small):
        rates = {0.1: 1e-4, 0.005: small, 0.001: 1e-1}
        parts = [made_series(f"rsrm-eta-{rate}", [final] * 3, rate=rate) for rate, final in rates.items()]
        return made_result(*parts, made_series("rsgd", [1e-3] * 3))

    assert claims.small_rates_beat_sgd(result(1e-4)).verdict == IN_PART
    found = claims.small_rates_beat_sgd(result(1e-2))
    assert found.verdict == FAILS
    assert "at 1 of 3 step sizes (0.1)" in found.evidence


@pytest.mark.parametrize(("last", "verdict"), [(1.5e-3, HOLDS), (3e-3, IN_PART), (1e-1, FAILS)])
def test_first_batch(last, verdict):
    parts = [made_series(f"b{size}", [gap] * 3, label=f"RSRM |S₀|={size}") for size, gap in ((10, 1e-3), (99, last))]
    assert claims.first_batch_insensitive(made_result(*parts)).verdict == verdict


def test_slow_then_lower():
    assert claims.slow_then_lower(methods()).verdict == IN_PART  # lower, but also ahead from the start
    slow = with_series(methods(), made_series("rsrm", [], gap=[[1.0] * 10 + [1e-3]] * 3))
    assert claims.slow_then_lower(slow).verdict == HOLDS
    assert claims.slow_then_lower(methods(rsrm=0.5)).verdict == FAILS


def test_stability_is_how_little_a_curve_jumps():
    rough = [made_series(part.key, [], gap=[[1.0, 0.1] * 5 + [0.1]] * 3) for part in methods().series[1:]]
    result = with_series(methods(), *rough)
    assert claims.stable(result).verdict == HOLDS
    rougher = made_series("rsrm", [], gap=[[1.0, 0.001] * 5 + [0.001]] * 3)
    assert claims.stable(with_series(result, rougher)).verdict == FAILS


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ({"rsrm": -2.9, "rsgd": -3.9, "rasa-lr": -4.1}, HOLDS),
        ({"rsrm": -2.9, "rsgd": -2.95, "rasa-lr": -4.1}, IN_PART),  # the intervals of RSRM and RSGD overlap
        ({"rsrm": -2.2, "rsgd": -3.9, "rasa-lr": -4.1}, IN_PART),  # steeper than the others, but not -3
        ({"rsrm": -4.8, "rsgd": -2.5, "rasa-lr": -4.1}, FAILS),
        ({"rsrm": -2.9, "rsgd": math.nan, "rasa-lr": -4.1}, UNDECIDED),
    ],
)
def test_exponents(measured, verdict):
    rows = [made_complexity(key, value) for key, value in measured.items()]
    found = claims.exponents(made_result(complexity=rows))
    assert found.verdict == verdict
    assert f"RSRM {measured['rsrm']:.2f} [{measured['rsrm'] - 0.05:.2f}, " in found.evidence


@pytest.mark.parametrize(("exponent", "verdict"), [(-3.1, HOLDS), (-4.0, FAILS), (math.nan, UNDECIDED)])
def test_batches_of_one(exponent, verdict):
    keys = ("rsrm", "rsrm-b10", "rsrm-b100", "rsgd", "rsgd-b10", "rsgd-b100")
    rows = [made_complexity(key, exponent if key == "rsrm" else -3.0, reached=9) for key in keys]
    found = claims.one_sample(made_result(complexity=rows))
    assert found.verdict == verdict
    assert "RSGD's SFO to ε=0.0312: b=1 327" in found.evidence.replace("\u202f", "")


def test_noise_is_a_power_of_its_variance():
    noisy = {"rsrm": 10.0, "rsrm-noise4": 80.0, "rsrm-noise16": 640.0}
    rows = [made_complexity(key, -3.0, constant=constant) for key, constant in noisy.items()]
    found = claims.noise(made_result(complexity=[*rows, made_complexity("rsrm-noise0", -0.1)]))
    assert found.verdict == HOLDS
    assert "(σ²)^1.50" in found.evidence
    slow = made_complexity("rsrm-noise0", -3.0, constant=1e4)
    assert claims.noise(made_result(complexity=[*rows, slow])).verdict == FAILS
    unknown = made_complexity("rsrm-noise0", -3.0, reached=3)
    assert claims.noise(made_result(complexity=[*rows, unknown])).verdict == UNDECIDED


def test_full_gradients():
    parts = [made_series(key, [final] * 3, panel="finite") for key, final in (("rsrm", 1e-3), ("rsrg", 1e-2))]
    result = made_result(*parts, made_series("rsvrg", [1e-9] * 3, panel="finite"), panels=[made_panel("finite")])
    found = claims.full_gradients(result)
    assert found.verdict == HOLDS
    assert "from epoch 1 on" in found.evidence


@pytest.mark.parametrize(("final", "verdict"), [(1.1e-3, HOLDS), (1.5e-3, IN_PART), (1e-2, FAILS)])
def test_transports(final, verdict):
    parts = [made_series("a", [1e-3] * 3, panel="pca"), made_series("b", [final] * 3, panel="pca")]
    result = made_result(*parts, panels=[made_panel("pca", "PCA")])
    assert claims.transports_alike(result).verdict == verdict


@pytest.mark.parametrize(("final", "verdict"), [(0.9e-3, HOLDS), (1.2e-3, IN_PART), (1e-2, FAILS)])
def test_untuned_best(final, verdict):
    found = claims.untuned_best(methods(rsrm_untuned=final))
    assert found.verdict == verdict


@pytest.mark.parametrize("other", ["rsrm_rho", "rsgd_average"])
def test_untuned_best_counts_what_is_not_in_the_paper_too(other):
    result = methods(rsrm_untuned=0.9e-3, **{other: 1e-4})
    assert claims.untuned_best(result).verdict == IN_PART


@pytest.mark.parametrize(("finals", "verdict"), [((1e-2, 1e-2), HOLDS), ((1e-2, 1e-4), IN_PART), ((1e-4,) * 2, FAILS)])
def test_untuned_ahead(finals, verdict):
    parts = [
        made_series(f"{panel}-{key}", [final] * 3, panel=panel)
        for panel, rival in zip(("pca", "jd"), finals, strict=True)
        for key, final in (("rsrm-untuned", 1e-3), ("rdog", rival), ("storm-plus", 1.0))
    ]
    found = claims.untuned_ahead(made_result(*parts, panels=[made_panel("pca"), made_panel("jd"), made_panel("scale")]))
    assert found.verdict == verdict


@pytest.mark.parametrize(("second", "verdict"), [(1.0000001e-3, HOLDS), (2e-3, FAILS)])
def test_any_scale(second, verdict):
    parts = [made_series(f"scale-{i}", [final] * 3, panel="scale") for i, final in enumerate((1e-3, second))]
    assert claims.any_scale(made_result(*parts)).verdict == verdict


@pytest.mark.parametrize(("second", "verdict"), [(1.2e-3, HOLDS), (1.5e-3, IN_PART), (3e-3, FAILS)])
def test_any_batch(second, verdict):
    parts = [made_series(f"batch-{i}", [final] * 3, panel="batch") for i, final in enumerate((1e-3, second))]
    assert claims.any_batch(made_result(*parts)).verdict == verdict
