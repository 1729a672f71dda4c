"""Figures: both formats, the paper's layout, and styles that can be told apart without colour."""

import math

import numpy as np
import pytest

from retrax.experiments import figures, series, styles
from retrax.experiments.results import ComplexityResult, Point
from retrax.experiments.specs import ENTRIES, EXPERIMENTS
from retrax.experiments.storage import Store

from .conftest import made_result, made_series


def test_an_experiment_is_drawn_as_png_and_pdf(paper_like, out):
    png, pdf = figures.draw_experiment(paper_like, Store(out))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert png == out / "figures" / "pca-syn1.png"


def test_only_figures_with_results_are_composed(paper_like, out):
    paths = figures.draw_composites({"pca-syn1": paper_like}, Store(out))
    assert [path.name for path in paths] == ["fig1.png", "fig1.pdf"]


def test_drawing_the_same_result_twice_gives_the_same_bytes(paper_like, out):
    first = [path.read_bytes() for path in figures.draw_experiment(paper_like, Store(out))]
    second = [path.read_bytes() for path in figures.draw_experiment(paper_like, Store(out))]
    assert first == second


def test_runs_that_diverge_or_reach_zero_are_drawn_without_a_warning(out):
    gap = [[1.0, 0.0, -1e-16], [1.0, None, None], [1.0, None, None]]
    part = made_series("rsrm", [], gap=gap)
    assert figures.draw_experiment(made_result(part), Store(out))


def test_a_complexity_panel_is_drawn(out):
    points = tuple(
        Point(epsilon, 0.1, median, np.array([median]), {}) for epsilon, median in ((1, 10), (0.5, math.nan))
    )
    measured = ComplexityResult("sfo-rsrm", ENTRIES[0], 1.0, (0,), 100, points, math.nan)
    assert figures.draw_experiment(made_result(made_series("rsrm", [0.1]), complexity=[measured]), Store(out))


def test_the_composites_have_the_papers_layout():
    cells = figures.COMPOSITES["fig1"][2]
    assert [name for name, _ in cells] == [
        *("pca-syn1", "pca-syn2", "pca-syn3", "pca-syn1", "pca-mnist", "pca-covtype"),
        *("pca-syn1-eta", "pca-syn1-batch"),
    ]
    assert cells[3] == ("pca-syn1", "time")
    assert all(name in EXPERIMENTS for _, _, cells in figures.COMPOSITES.values() for name, _ in cells)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_series_of_a_figure_differ_in_colour_dash_and_marker(name):
    looks = [styles.style_of(one.key, position) for position, one in enumerate(EXPERIMENTS[name].series)]
    assert len({look.light for look in looks}) == len(looks)
    assert len({look.dark for look in looks}) == len(looks)
    assert len({(look.dash, look.marker) for look in looks}) == len(looks)


def test_the_papers_methods_differ_in_dash_alone():
    looks = [styles.style_of(one.key, 0) for one in series.compared(100) if one.in_paper]
    assert len({look.dash for look in looks}) == len(looks)
