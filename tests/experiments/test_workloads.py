"""Workloads: scaled data, and experiments reduced to the data at hand."""

import dataclasses

import numpy as np
import pytest

from retrax.experiments import workloads
from retrax.experiments.specs import EXPERIMENTS, PanelSpec, ProblemSpec
from retrax.experiments.workloads import Place


@pytest.mark.parametrize("spec", [ProblemSpec("pca", "syn1", 10), ProblemSpec("ica", "small-jd")])
def test_scaled_data_have_the_optimum_of_scaled_data(spec):
    plain, scaled = (workloads.build(spec, Place(), options) for options in ((), (("scale", 1e3),)))
    np.testing.assert_array_equal(scaled.data, 1e3 * plain.data)
    assert scaled.optimum == pytest.approx(1e6 * plain.optimum, rel=1e-9)


def test_the_centroid_does_not_depend_on_the_scale(monkeypatch):
    matrices = np.array([np.diag([1.0, 2.0]), np.diag([4.0, 1.0]), np.eye(2)])
    monkeypatch.setitem(workloads.SYNTHETIC, "three", lambda: (matrices, "three"))
    spec = ProblemSpec("rc", "three")
    plain, scaled = (workloads.build(spec, Place(), options) for options in ((), (("scale", 1e-3),)))
    assert scaled.optimum == pytest.approx(plain.optimum, rel=1e-9)


def test_panels_without_their_data_are_left_out(tmp_path):
    transports = EXPERIMENTS["transports"]
    missing = ProblemSpec("pca", "mnist", 10, real=True)
    panels = (transports.panels[0], PanelSpec("jd", "MNIST", missing))
    reduced = workloads.at_hand(dataclasses.replace(transports, panels=panels), Place(str(tmp_path)))
    assert reduced.panels == transports.panels[:1]
    assert {one.panel for one in reduced.series} == {"pca"}
    assert workloads.at_hand(transports, Place(str(tmp_path))) == transports
    assert workloads.at_hand(EXPERIMENTS["pca-syn1"], Place(str(tmp_path))) == EXPERIMENTS["pca-syn1"]
