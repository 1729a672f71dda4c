"""Every method on every geometry, against the same steps done by hand in plain NumPy (`hand_computed.py`)."""

import numpy as np
import pytest

import retrax as rx

from . import hand_computed
from .small_problems import MANIFOLDS, MATRIX_MANIFOLDS, PAIRS, SAMPLES, Case, batches, case

STEPS, BATCH, FIRST, SEED = 5, 2, 4, 11

COMBINATIONS = [
    pytest.param(method, manifold, id=f"{method} on {manifold}")
    for method in PAIRS
    for manifold in MANIFOLDS
    if manifold in MATRIX_MANIFOLDS or not method.startswith("rasa")
]


def check_run(here: Case, method, by_hand, *, driver="eager", steps=STEPS, first=FIRST, batch_size=BATCH, **where):
    """Every ‖d_t‖, every F(x_t) and the last iterate are those computed by hand."""
    drawn = batches(
        SAMPLES,
        seed=SEED,
        steps=steps,
        batch_size=batch_size,
        first_batch_size=first,
        restart_every=method.restart_every,
    )
    points, directions = by_hand(here.geometry, here.gradient, here.x0, drawn)
    result = rx.minimize(
        here.problem,
        method,
        steps=steps,
        batch_size=batch_size,
        first_batch_size=first,
        x0=here.x0,
        seed=SEED,
        record=1,
        driver=driver,
        **where,
    )
    norms = [here.geometry.norm(x, d) for x, d in zip(points, directions, strict=False)]
    np.testing.assert_allclose(result.history["direction_norm"][1:], norms, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.history["loss"], [here.loss(x) for x in points], rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.x, points[-1], rtol=0, atol=1e-10)
    assert np.linalg.norm(points[-1] - points[0]) > 0.05  # the run went somewhere


@pytest.mark.parametrize(("method", "manifold"), COMBINATIONS)
def test_steps_are_those_computed_by_hand(method, manifold):
    pair = PAIRS[method]
    check_run(case(manifold), pair.method, pair.by_hand)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("manifold", ["stiefel qr projection", "spd exp parallel"])
def test_compiled_rsrm_is_algorithm_1_from_the_first_step_on(manifold, steps):
    """d_1 from the first batch with η_1; ρ_t, not ρ_{t-1}, in the direction of step t."""
    pair = PAIRS["rsrm"]
    check_run(case(manifold), pair.method, pair.by_hand, driver="jax", steps=steps)


@pytest.mark.parametrize(
    ("method", "by_hand"),
    [
        pytest.param(
            rx.rsrm(0.3),
            lambda *args: hand_computed.rsrm(*args, lambda t: 0.3 * t ** (-1 / 3), lambda t: 0.1 * t ** (-2 / 3)),
            id="rsrm",
        ),
        pytest.param(
            rx.csgd_m(0.3), lambda *args: hand_computed.csgd_m(*args, lambda t: 0.3 * t**-0.5, 0.999), id="csgd_m"
        ),
        pytest.param(
            rx.crmsprop(0.3),
            lambda *args: hand_computed.crmsprop(*args, lambda t: 0.3 * t**-0.5, 0.9, 1e-8),
            id="crmsprop",
        ),
        pytest.param(
            rx.ramsgrad(0.3),
            lambda *args: hand_computed.ramsgrad(*args, lambda t: 0.3 * t**-0.5, 0.999, 0.9, 1e-8),
            id="ramsgrad",
        ),
        pytest.param(
            rx.radam(0.3),
            lambda *args: hand_computed.ramsgrad(*args, lambda t: 0.3 * t**-0.5, 0.9, 0.999, 1e-8, maximum=False),
            id="radam",
        ),
        pytest.param(
            rx.rasa(0.3), lambda *args: hand_computed.rasa(*args, lambda t: 0.3 * t**-0.5, "LR", 0.9, 1e-8), id="rasa"
        ),
    ],
)
def test_defaults_are_those_the_paper_prints(method, by_hand):
    check_run(case("grassmann polar projection"), method, by_hand)


def test_rsrm_starts_from_100_samples_unless_told_otherwise():
    data = np.random.default_rng(0).standard_normal((120, 4))
    problem = rx.Problem(case("stiefel qr projection").problem.objective.loss, rx.Stiefel(4, 2), data)
    result = rx.minimize(problem, rx.rsrm(0.1), steps=3, batch_size=5, driver="eager")
    assert result.sfo == 100 + 2 * 2 * 5


def test_restarting_methods_take_all_the_data_once_per_epoch():
    """n = 7 and b = 2: a restart at steps 1, 4 and 7."""
    here = case("stiefel qr projection")
    for method, by_hand in (
        (rx.rsvrg(0.1), hand_computed.rsvrg),
        (rx.rsrg(0.1), lambda *args: hand_computed.rsrm(*args, rho=lambda t: 0)),
    ):
        drawn = batches(SAMPLES, seed=0, steps=8, batch_size=2, first_batch_size=SAMPLES, restart_every=3)
        points, _ = by_hand(here.geometry, here.gradient, here.x0, drawn, lambda t: 0.1)
        result = rx.minimize(here.problem, method, steps=8, batch_size=2, x0=here.x0, driver="eager")
        np.testing.assert_allclose(result.x, points[-1], rtol=0, atol=1e-10)
        assert result.sfo == 3 * SAMPLES + 5 * 2 * 2


def test_a_batch_size_that_grows_draws_the_samples_in_turn():
    here, pair = case("stiefel qr projection"), PAIRS["rsrm"]
    check_run(here, pair.method, pair.by_hand, batch_size=lambda t: 1 + t // 2)


@pytest.mark.parametrize("maximum", [True, False], ids=["ramsgrad", "radam"])
def test_on_a_product_there_is_one_second_moment_per_factor(maximum):
    """Bécigneul & Ganea (2019): each factor's step is divided by the root of its own number."""
    sphere, line = rx.Sphere(3), rx.Euclidean(2)
    rng = np.random.default_rng(5)
    pulls, targets = rng.standard_normal((6, 3)), 10 * rng.standard_normal((6, 2))

    def loss(x, batch):
        pull, target = batch
        return (pull @ x[0]).mean() + ((x[1] - target) ** 2).sum(-1).mean()

    problem = rx.Problem(loss, rx.Product((sphere, line)), (pulls, targets))
    x0 = (np.array([0.6, 0.0, 0.8]), np.zeros(2))
    method = (rx.ramsgrad if maximum else rx.radam)(0.3, 0.7, 0.6, 1e-3)
    result = rx.minimize(problem, method, steps=4, batch_size=2, x0=x0, seed=2, driver="eager", first_batch_size=2)

    drawn = batches(6, seed=2, steps=4, batch_size=2, first_batch_size=2)
    factors = (
        (hand_computed.GEOMETRIES["sphere normalise projection"], lambda x, s: pulls[s].mean(0), x0[0]),
        (hand_computed.EUCLIDEAN, lambda x, s: 2 * (x - targets[s].mean(0)), x0[1]),
    )
    for (geometry, ambient, start), found in zip(factors, result.x, strict=True):
        points, _ = hand_computed.ramsgrad(
            geometry,
            lambda x, s, geometry=geometry, ambient=ambient: geometry.gradient(x, ambient(x, s)),
            start,
            drawn,
            lambda t: 0.3 / np.sqrt(t),
            0.7,
            0.6,
            1e-3,
            maximum,
        )
        np.testing.assert_allclose(found, points[-1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("sides", ["L", "LR"])
def test_rasa_on_a_vector_scales_its_entries(sides):
    """A vector has rows and one column: d_i / √(largest moment of row i + ε), twice."""
    scaling, manifold, x = rx.scalings.RASA(0.6, 1e-3, sides), rx.Euclidean(3), np.zeros(3)
    memory, moment, largest = scaling.init(manifold, x), np.zeros(3), np.zeros(3)
    for gradient in (np.array([1.0, -2.0, 0.5]), np.array([3.0, 0.0, 0.1])):
        found, memory = scaling.apply(manifold, x, rx.estimators.Estimate(gradient, gradient), memory)
        moment = 0.6 * moment + 0.4 * gradient**2
        largest = np.maximum(largest, moment)
        np.testing.assert_allclose(found, gradient / np.sqrt(largest + 1e-3), rtol=1e-14)
