"""What a run records, and the table it ends up in."""

import jax
import numpy as np
import pytest

import retrax as rx

from .small_problems import SAMPLES, case, pca_loss

ALWAYS = ["step", "sfo", "seconds", "loss", "gradient_norm", "violation", "direction_norm", "step_size", "rho"]


def run(record=None, steps=10, **options):
    here = case("stiefel qr projection")
    return rx.minimize(
        here.problem, rx.rsrm(0.1), steps=steps, batch_size=2, x0=here.x0, record=record, driver="eager", **options
    )


def test_the_columns_are_numpy_arrays_of_one_length():
    history = run(2).history
    assert list(history) == ALWAYS
    for name in history:
        assert isinstance(history[name], np.ndarray)
        assert history[name].shape == (6,)
    assert history["step"].tolist() == [0, 2, 4, 6, 8, 10]
    assert history["step"].dtype == history["sfo"].dtype == np.int64
    assert len(history) == len(ALWAYS)
    assert "6 records" in repr(history)


def test_measurements_are_of_all_the_data_at_the_point_after_the_step():
    here = case("stiefel qr projection")
    result = run(10)
    everything = np.arange(SAMPLES)
    for row, x in ((0, here.x0), (-1, result.x)):
        gradient = here.gradient(x, everything)
        assert result.history["loss"][row] == pytest.approx(here.loss(x), abs=1e-13)
        assert result.history["gradient_norm"][row] == pytest.approx(np.linalg.norm(gradient), abs=1e-12)
    assert result.history["violation"].max() < 1e-14
    assert result.history["direction_norm"][0] == 0
    assert result.history.exact


def test_the_gradient_norm_is_in_the_manifolds_own_metric():
    here = case("spd exp parallel")
    history = rx.minimize(here.problem, rx.rsgd(0.1), steps=1, x0=here.x0, driver="eager").history
    gradient = here.gradient(here.x0, np.arange(SAMPLES))
    assert history["gradient_norm"][0] == pytest.approx(here.geometry.norm(here.x0, gradient), abs=1e-12)
    assert history["gradient_norm"][0] != pytest.approx(np.linalg.norm(gradient), rel=0.01)


def test_an_estimate_on_a_sample_says_so():
    data = np.random.default_rng(0).standard_normal((200, 4))
    problem = rx.Problem(pca_loss, rx.Stiefel(4, 2), data)
    options = {"steps": 4, "batch_size": 2, "driver": "eager", "seed": 3}
    estimated = rx.minimize(problem, rx.rsgd(0.1), record=rx.Record(every=1, samples=50), **options)
    exact = rx.minimize(problem, rx.rsgd(0.1), record=1, **options)
    assert exact.history.exact
    assert not estimated.history.exact
    assert rx.minimize(problem, rx.rsgd(0.1), record=rx.Record(samples=200), **options).history.exact
    np.testing.assert_array_equal(estimated.x, exact.x)
    difference = np.abs(estimated.history["loss"] - exact.history["loss"])
    assert 0 < difference.max() < 1
    again = rx.minimize(problem, rx.rsgd(0.1), record=rx.Record(every=1, samples=50), **options)
    np.testing.assert_array_equal(again.history["loss"], estimated.history["loss"])


def test_by_default_about_a_hundred_records_are_taken():
    assert len(run(None, steps=10).history["step"]) == 11
    assert rx.Record().interval(20_000) == 200
    assert rx.Record(points=10).interval(20_000) == 2000
    assert rx.Record(every=7).interval(20_000) == 7
    assert rx.Record().interval(3) == 1


def test_the_last_step_is_always_recorded():
    assert run(4).history["step"].tolist() == [0, 4, 8, 10]
    assert run(1000).history["step"].tolist() == [0, 10]


def test_the_clock_only_runs_forward():
    seconds = run(1).history["seconds"]
    assert seconds[0] == 0
    assert (np.diff(seconds) > 0).all()


def test_on_record_sees_each_row_as_it_is_written():
    seen = []
    result = run(5, on_record=lambda step, row: seen.append((step, row["loss"], row["sfo"])))
    history = result.history
    assert seen == list(zip(history["step"], history["loss"], history["sfo"], strict=True))


def test_on_record_cannot_change_the_history():
    history = run(5, on_record=lambda step, row: row.clear()).history
    assert list(history) == ALWAYS


def test_an_unknown_column_names_those_there_are():
    with pytest.raises(KeyError, match=r"no column 'los'; there are step, sfo"):
        run(5).history["los"]


def test_an_empty_history_has_no_columns():
    history = rx.History()
    assert list(history) == []
    assert "loss" not in history


@pytest.mark.parametrize("changes", [{"every": 0}, {"every": 2.5}, {"every": True}, {"points": -1}, {"samples": 0}])
def test_records_refuse_intervals_that_are_no_positive_integers(changes):
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
        rx.Record(**changes)


def test_a_result_says_the_essentials():
    text = repr(run(5))
    assert text.startswith("Result(status=max_steps, steps=10, sfo=43, loss=")
    assert "\n" not in text


@pytest.mark.parametrize("method", [rx.rsrm(0.1), rx.rsrm(), rx.rasa(0.1), rx.rsvrg(0.1)])
def test_nothing_is_told_of_a_step_before_the_first_not_even_where_jax_looks_for_nan(method):
    here = case("stiefel qr projection")
    arguments = {"steps": 4, "batch_size": 2, "x0": here.x0, "record": 2, "progress": False}
    with jax.debug_nans(True):
        history = rx.minimize(here.problem, method, **arguments).history
    assert np.isnan(history["step_size"]).tolist() == [True, False, False]
    assert np.isfinite(history["loss"]).all()
    expected = rx.minimize(here.problem, method, driver="eager", **arguments).history
    for name in set(history) - {"seconds"}:
        np.testing.assert_allclose(history[name], expected[name], rtol=1e-9, atol=1e-12)


def test_the_first_record_of_a_sweep_tells_nothing_of_a_step():
    here = case("stiefel qr projection")
    sizes = rx.sweep(here.problem, {"a": rx.rsrm}, [0.1, 0.2], 2, steps=4, batch_size=2, record=2)["a"].curves[
        "step_size"
    ]
    assert np.isnan(sizes[..., 0]).all()
    assert np.isfinite(sizes[..., 1:]).all()
