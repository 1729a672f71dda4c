"""Figures: both formats, the paper's layout, and styles that can be told apart without colour."""

import math

import pytest

from retrax.experiments import figures, series, styles, summary
from retrax.experiments.specs import ENTRIES, EXPERIMENTS
from retrax.experiments.storage import Store

from .conftest import made_complexity, made_result, made_series


def test_an_experiment_is_drawn_as_png_and_pdf(paper_like, out):
    png, pdf = figures.draw_experiment(paper_like, Store(out))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert png == out / "figures" / "pca-syn1.png"


def test_only_figures_with_results_are_composed(paper_like, out):
    paths = figures.draw_composites({"pca-syn1": paper_like}, Store(out))
    assert [path.name for path in paths] == ["fig1.png", "fig1.pdf"]


def test_only_panels_that_were_run_are_composed(paper_like):
    untimed = made_result(made_series("rsrm", [0.1], seconds=None), name="pca-mnist")
    cells = figures._cells("fig1", {"pca-syn1": paper_like, "pca-mnist": untimed})
    assert [(letter, result.experiment, kind) for letter, result, kind in cells] == [
        ("a", "pca-syn1", "sfo"),
        ("d", "pca-syn1", "time"),
        ("e", "pca-mnist", "sfo"),
    ]
    assert figures._cells("fig4", {"pca-mnist": untimed}) == []


def test_series_that_end_off_the_axis_are_named():
    from matplotlib.figure import Figure

    diverged = made_series("rsgd", [], gap=[[1.0] * 5 + [None] * 6])
    result = made_result(made_series("rsrm", [1e-3]), diverged, made_series("csgd-m", [99.0]))
    axis = Figure().subplots()
    said = figures._draw(axis, summary.curves(result), "sfo", with_settings=False)
    assert said == "\nends off the axis: RSGD, CSGD-M"
    assert axis.get_ylim()[1] < 99


def test_legends_stand_outside_the_axes(paper_like, out, monkeypatch):
    seen = []
    save = figures._save

    def look(figure, stem):
        figure.draw_without_rendering()
        legends = [(axis.get_legend(), axis) for axis in figure.axes if axis.get_legend()]
        legends += [(legend, axis) for legend in figure.legends for axis in figure.axes]
        for legend, axis in legends:
            box = legend.get_window_extent()
            seen.append(box.overlaps(axis.get_window_extent()))
        return save(figure, stem)

    monkeypatch.setattr(figures, "_save", look)
    rates = [made_series(f"rsrm-eta-{k}", [0.1], rate=0.1) for k in range(7)]
    results = {"pca-syn1": paper_like, "pca-syn1-eta": made_result(*rates, name="pca-syn1-eta")}
    figures.draw_experiment(paper_like, Store(out))
    figures.draw_composites(results, Store(out))
    assert len(seen) >= 5
    assert not any(seen)


def test_drawing_the_same_result_twice_gives_the_same_bytes(paper_like, out):
    first = [path.read_bytes() for path in figures.draw_experiment(paper_like, Store(out))]
    second = [path.read_bytes() for path in figures.draw_experiment(paper_like, Store(out))]
    assert first == second


def test_runs_that_diverge_or_reach_zero_are_drawn_without_a_warning(out):
    gap = [[1.0, 0.0, -1e-16], [1.0, None, None], [1.0, None, None]]
    part = made_series("rsrm", [], gap=gap)
    assert figures.draw_experiment(made_result(part), Store(out))


def test_complexity_panels_are_drawn_beside_each_other(out):
    rows = [made_complexity("rsrm", -3.0), made_complexity("rsgd", math.nan, reached=0)]
    rows.append(made_complexity("rsrm-b10", -3.0))
    assert figures.draw_experiment(made_result(made_series("rsrm", [0.1]), complexity=rows), Store(out))


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
    experiment = EXPERIMENTS[name]
    for panel in experiment.panel_titles():
        shown = [one for one in experiment.series if one.panel == panel]
        looks = [styles.style_of(one.key, position) for position, one in enumerate(shown)]
        assert len({look.light for look in looks}) == len(looks)
        assert len({look.dark for look in looks}) == len(looks)
        assert len({(look.dash, look.marker) for look in looks}) == len(looks)


def test_the_rows_of_table_1_and_their_variations_differ_in_dash_or_marker():
    for varied in (False, True):
        shown = [entry for entry in ENTRIES if entry.varied == varied]
        looks = [styles.style_of(entry.key, position) for position, entry in enumerate(shown)]
        assert len({(look.dash, look.marker) for look in looks}) == len(looks)


def test_the_papers_methods_differ_in_dash_alone():
    looks = [styles.style_of(one.key, 0) for one in series.compared(100) if one.in_paper]
    assert len({look.dash for look in looks}) == len(looks)
