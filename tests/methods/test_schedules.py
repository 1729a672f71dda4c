"""Schedules: values that can be combined, replaced by functions, and changed without compiling anew."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.schedules import as_schedule, constant, minimum, power, rsrm_theory

from . import hand_computed
from .small_problems import SAMPLES, batches, case


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (constant(0.3), lambda t: 0.3),
        (power(0.5, -1 / 3), lambda t: 0.5 * t ** (-1 / 3)),
        (power(2.0, -1 / 2, offset=3.0), lambda t: 2 / np.sqrt(t + 3)),
        (2 * power(0.5, -1.0), lambda t: 1 / t),
        (power(0.5, -1.0) * 2, lambda t: 1 / t),
        (np.float64(2) * power(0.5, -1.0), lambda t: 1 / t),
        (power(1.0, -1.0) * power(1.0, -1.0), lambda t: t**-2),
        (power(1.0, -1.0) + 1, lambda t: 1 / t + 1),
        (1 + power(1.0, -1.0), lambda t: 1 / t + 1),
        (minimum(0.25, power(1.0, -1.0)), lambda t: min(0.25, 1 / t)),
        (minimum(power(1.0, -1.0), lambda t: t / 8), lambda t: min(1 / t, t / 8)),
        (power(1.0, -1.0) * (lambda t: t**2), lambda t: t),
        (3 * minimum(1, power(4.0, -1.0)) + 0.5, lambda t: 3 * min(1, 4 / t) + 0.5),
    ],
)
def test_values_and_combinations(schedule, expected):
    for t in (1, 2, 3, 10, 1000):
        assert schedule(float(t)) == pytest.approx(expected(t), rel=1e-14)
    compiled = jax.jit(lambda s, t: s(t))
    with jax.enable_x64(True):
        for t in (1, 10):
            assert float(compiled(schedule, jnp.asarray(float(t)))) == pytest.approx(expected(t), rel=1e-14)


def test_numbers_become_each_methods_own_schedule():
    """η₀ t^(-1/2) for the one-sample methods, η₀ t^(-1/3) for RSRM, constant for those that restart."""
    for factory, exponent in (
        (rx.rsgd, -1 / 2),
        (rx.csgd_m, -1 / 2),
        (rx.crmsprop, -1 / 2),
        (rx.ramsgrad, -1 / 2),
        (rx.radam, -1 / 2),
        (rx.rasa, -1 / 2),
        (rx.rsrm, -1 / 3),
        (rx.rsvrg, 0),
        (rx.rsrg, 0),
        (rx.rspider, 0),
    ):
        for t in (1.0, 2.0, 50.0):
            assert factory(0.4).step_size(t) == pytest.approx(0.4 * t**exponent, rel=1e-14), factory
    for t in (1.0, 8.0):
        assert rx.rsrm(0.4).estimator.rho(t) == pytest.approx(0.1 * t ** (-2 / 3), rel=1e-14)


def test_a_schedule_or_a_function_takes_the_place_of_the_methods_own():
    for given in (constant(0.3), lambda t: 0.3, as_schedule(0.3)):
        assert rx.rsrm(given).step_size(100.0) == 0.3
    rho = functools.partial(max, 0.5)
    assert rx.rsrm(0.1, rho=lambda t: min(1.0, rho(1 / t))).estimator.rho(4.0) == 0.5


@pytest.mark.parametrize("driver", ["jax", "eager"])
def test_functions_of_t_run_in_both_drivers(driver):
    """η_t and ρ_t see the step number: t = 1 in the first step."""
    here, steps = case("stiefel qr projection"), 4
    method = rx.rsrm(lambda t: 0.1 / (1 + t), rho=lambda t: 1 / (1 + t**2))
    drawn = batches(SAMPLES, seed=0, steps=steps, batch_size=2, first_batch_size=3)
    points, _ = hand_computed.rsrm(
        here.geometry, here.gradient, here.x0, drawn, lambda t: 0.1 / (1 + t), lambda t: 1 / (1 + t**2)
    )
    result = rx.minimize(here.problem, method, steps=steps, batch_size=2, first_batch_size=3, x0=here.x0, driver=driver)
    np.testing.assert_allclose(result.x, points[-1], rtol=0, atol=1e-12)


def test_batch_sizes_may_be_schedules():
    """Rounded up to whole samples: ⌈t/2⌉ = 1, 2, 2, 3 in steps 2 to 5, after a first batch of 4."""
    here = case("stiefel qr projection")
    for size in (lambda t: -(-t // 2), 0.5 * power(1.0, 1.0)):
        result = rx.minimize(
            here.problem, rx.rsgd(0.1), steps=5, batch_size=size, first_batch_size=4, record=1, driver="eager"
        )
        assert np.diff(result.history["sfo"]).tolist() == [4, 1, 2, 2, 3]


def test_large_batches_may_grow_from_restart_to_restart():
    here = case("stiefel qr projection")
    result = rx.minimize(
        here.problem,
        rx.rsrg(0.1, restart_every=2),
        steps=5,
        batch_size=1,
        first_batch_size=lambda t: 2 + t // 2,
        record=1,
        driver="eager",
    )
    assert np.diff(result.history["sfo"]).tolist() == [2, 2, 3, 2, 4]


# --- Theorem 1 ------------------------------------------------------------------------------------------------


def test_theory_presets_as_corrected():
    """L = 4, L̃ = 2, b = 5: c_η = 1/4, c_ρ = 10·4/(16·5) + 1/3 = 5/6."""
    eta, rho = rsrm_theory(4.0, 2.0, 5)
    for t in (1.0, 2.0, 7.0, 26.0):
        assert eta(t) == pytest.approx((t + 1) ** (-1 / 3) / 4, rel=1e-14)
        assert rho(t) == pytest.approx(5 / 6 * t ** (-2 / 3), rel=1e-14)
    assert eta(7.0) == pytest.approx(1 / 8, rel=1e-14)
    assert rho(8.0) == pytest.approx(5 / 24, rel=1e-14)


def test_theory_presets_as_printed():
    """c_ρ = (10·4/5 + 1/3)/16 = 25/48."""
    eta, rho = rsrm_theory(4.0, 2.0, 5, corrected=False)
    assert eta(26.0) == pytest.approx(1 / 12, rel=1e-14)
    assert rho(1.0) == pytest.approx(25 / 48, rel=1e-14)
    assert rho(8.0) == pytest.approx(25 / 192, rel=1e-14)


def test_the_two_presets_agree_for_unit_smoothness_only():
    printed, corrected = (rsrm_theory(1.0, 0.2, 1, corrected=c)[1] for c in (False, True))
    assert printed(3.0) == pytest.approx(corrected(3.0), rel=1e-14)
    printed, corrected = (rsrm_theory(0.5, 0.2, 1, corrected=c)[1] for c in (False, True))
    assert printed(8.0) > 1.5 * corrected(8.0)


def test_rho_is_cut_at_1():
    """L = 1, L̃ = 3, b = 1: c_ρ = 90 + 1/3, so ρ_t = 1 until t^(2/3) reaches that."""
    _, rho = rsrm_theory(1.0, 3.0, 1)
    assert rho(1.0) == rho(500.0) == 1
    assert rho(1000.0) == pytest.approx(0.9 + 1 / 300, rel=1e-12)


def test_theory_presets_run():
    here = case("grassmann exp parallel")
    eta, rho = rsrm_theory(20.0, 20.0, 2)
    result = rx.minimize(here.problem, rx.rsrm(eta, rho=rho), steps=200, batch_size=2, record=200)
    assert result.history["loss"][-1] < result.history["loss"][0]


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, -2, 1), (1, 1, 0), (float("nan"), 1, 1), (1, float("inf"), 1)])
def test_theory_presets_refuse_constants_that_are_not_positive(numbers):
    with pytest.raises(ValueError, match="must be positive and finite"):
        rsrm_theory(*numbers)


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["0.1", None, True, [0.1], np.array([0.1])])
def test_what_is_no_schedule_is_refused(value):
    with pytest.raises(TypeError, match="a number, a schedule or a function of t"):
        as_schedule(value)


def test_a_step_size_of_zero_is_refused_as_a_number_but_not_as_the_start_of_a_warm_up():
    with pytest.raises(ValueError, match="positive"):
        rx.rsgd(0.0)
    assert rx.rsgd(lambda t: 0.1 * (t - 1)).step_size(1.0) == 0


def test_rho_may_exceed_1_only_where_it_is_not_used():
    """The first step has no ρ: c t^(-2/3) with c = 1.5 is a weight from t = 2 on; with c = 2 it is not."""
    assert rx.rsrm(0.1, rho=power(1.5, -2 / 3)).estimator.rho(1.0) == 1.5
    with pytest.raises(ValueError, match=r"at t = 2 it is 1\.2.*minimum"):
        rx.rsrm(0.1, rho=power(2.0, -2 / 3))
    assert rx.rsrm(0.1, rho=minimum(1.0, power(2.0, -2 / 3))).estimator.rho(2.0) == 1
