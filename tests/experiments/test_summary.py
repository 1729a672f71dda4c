"""Tables: quartiles, what it took to reach a share of the start, ranks, and numbers for people."""

import math

import numpy as np
import pytest

from retrax.experiments import markdown
from retrax.experiments.summary import TARGETS, curves, number, rate_text, setting_text, table, until

from .conftest import made_result, made_series


def test_reaching_a_share_of_the_start():
    (curve,) = curves(made_result(made_series("rsrm", [1e-5] * 3, seconds=2.0)))
    # The gap is 10^(-5k/10) at record k, so 10⁻¹ is reached at record 2 and 10⁻⁴ at record 8.
    assert curve.reached(1e-1) == (2000, pytest.approx(0.4))
    assert curve.reached(1e-4) == (8000, pytest.approx(1.6))
    assert curve.reached(1e-6) == (math.inf, math.inf)


def test_the_median_over_seeds_decides_what_is_reached():
    (curve,) = curves(made_result(made_series("rsrm", [1e-5, 1e-5, 0.5])))
    assert math.isfinite(curve.reached(1e-4)[0])
    (curve,) = curves(made_result(made_series("rsrm", [1e-5, 0.5, 0.5])))
    assert curve.reached(1e-4)[0] == math.inf


def test_diverged_runs_count_as_infinitely_bad():
    gap = [[1.0, 0.1], [1.0, None], [1.0, 0.2], [1.0, None], [1.0, None]]
    (curve,) = curves(made_result(made_series("rsrm", [0.1] * 5, gap=gap)))
    assert curve.final == (0.2, math.inf, math.inf)


def test_quartiles_are_observations_in_order():
    (curve,) = curves(made_result(made_series("rsrm", [0.5, 0.1, 0.3, 0.2, 0.4])))
    np.testing.assert_allclose(curve.final, [0.2, 0.3, 0.4])


def test_the_table_is_ranked_by_the_median_final_gap():
    rows = table(made_result(made_series("rsgd", [0.1] * 3), made_series("rsrm", [0.01] * 3)))
    assert [(row.ranks, row.curve.key) for row in rows] == [((1, 1, 1), "rsrm"), ((2, 2, 2), "rsgd")]
    assert len(rows[0].targets) == len(TARGETS)


def test_ranks_are_those_of_a_tenth_a_half_and_all_of_the_budget():
    late = made_series("rsrm", [], gap=[[1.0] * 6 + [1e-4] * 5] * 3)
    rows = table(made_result(made_series("rsgd", [0.1] * 3), late))
    assert {row.curve.key: row.ranks for row in rows} == {"rsrm": (2, 2, 1), "rsgd": (1, 1, 2)}


def test_a_result_cut_short_is_the_beginning_of_the_whole():
    whole = made_result(made_series("rsrm", [1e-5] * 3, seconds=2.0))
    (cut,), (full,) = curves(until(whole, 0.8)), curves(whole)
    np.testing.assert_array_equal(cut.gap, full.gap[:, :9])
    np.testing.assert_array_equal(cut.time, full.time[:9])
    assert cut.seconds_per_step == pytest.approx(full.seconds_per_step)


def test_panels_are_kept_apart():
    result = made_result(made_series("a", [0.1], panel="pca"), made_series("b", [0.1], panel="jd"))
    assert [curve.key for curve in curves(result, "jd")] == ["b"]
    assert len(curves(result)) == 2


def test_values_at_a_limit():
    (curve,) = curves(made_result(made_series("rsrm", [1e-5] * 3)))
    assert curve.median_at_sfo(2999) == pytest.approx(1e-1)
    assert curve.median_at_time(0.45) == pytest.approx(1e-2)
    assert curve.median_at_sfo(1e9) == pytest.approx(1e-5)
    assert curve.seconds_per_step == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00123456, "1.23e-03"),
        (0.123456, "0.123"),
        (12345.6, "12\u202f346"),
        (math.inf, "–"),
        (0, "0"),
        (3e6, "3.00e+06"),
    ],
)
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_a_rate_beyond_the_grid_has_a_star():
    (curve,) = curves(made_result(made_series("rsrm", [0.1], rate=5.0, beyond_grid=[5.0, 10.0], variant={"rho": 0.5})))
    assert rate_text(curve) == "5*, ρ₀=0.5"


def test_a_method_without_a_rate_says_so():
    (curve,) = curves(made_result(made_series("rsrm-untuned", [0.1], rate=None)))
    assert setting_text(curve) == "no η₀"
    assert rate_text(curve) == "none needed"


def test_markdown_tables_have_equal_columns(paper_like):
    text = markdown.render({"pca-syn1": paper_like})
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 2
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert "*RSRM-RHO*" in text
    assert "](figures/pca-syn1.png)" in text
