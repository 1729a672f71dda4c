"""What notebooks, pandas and matplotlib show of a run."""

import xml.etree.ElementTree as ElementTree

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pytest

import retrax as rx


@pytest.fixture(scope="module")
def result():
    data = np.random.default_rng(0).standard_normal((50, 4)) * [4, 3, 2, 1]
    return rx.minimize(rx.problems.PCA(data, 2), rx.rsgd(0.01), steps=20, record=5)


def parsed(shown):
    """The HTML as a tree; what is not well formed raises."""
    return ElementTree.fromstring(shown._repr_html_())


def test_a_result_shows_its_curve(result):
    tree = parsed(result)
    (line,) = tree.iter("polyline")
    points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
    assert len(points) == len(result.history["gap"])
    heights = np.array([y for _, y in points])
    # the picture's heights are affine in the logarithm of the gap, downwards
    expected = np.log10(result.history["gap"])
    assert np.corrcoef(heights, expected)[0, 1] == pytest.approx(-1, abs=1e-3)
    assert "max_steps" in "".join(tree.itertext())


def test_a_result_shows_its_warning(result):
    import dataclasses

    shown = dataclasses.replace(result, warning="a < b & c")
    assert "a < b & c" in "".join(parsed(shown).itertext())


def test_methods_and_problems_show_their_parts():
    text = "".join(parsed(rx.rsvrg(0.1)).itertext())
    assert "SVRG" in text
    assert "all, every epoch" in text
    assert list(parsed(rx.rsgd(0.1)).iter("polyline"))
    assert not list(parsed(rx.rsrm()).iter("polyline"))
    problem = rx.Problem(lambda x, batch: 0.0, rx.Sphere(3), data={"a": np.ones((5, 3))})
    assert "Sphere(3" in "".join(parsed(problem).itertext())
    assert repr(problem).endswith("data={a: float64[5, 3]})")


def test_plot(result):
    axes = result.plot(label="here")
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), result.history["sfo"])
    np.testing.assert_array_equal(line.get_ydata(), result.history["gap"])
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("sfo", "gap", "log")
    assert result.plot("loss", against="step", axes=axes) is axes
    assert axes.get_yscale() == "linear"
    with pytest.raises(KeyError, match="there are"):
        result.plot("nothing")
    matplotlib.pyplot.close("all")


def test_pandas(result):
    table = result.history.to_pandas()
    assert list(table.columns) == list(result.history)
    np.testing.assert_array_equal(table["loss"].to_numpy(), result.history["loss"])
    assert table["sfo"].dtype == np.int64
