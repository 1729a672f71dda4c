"""A method is estimator × scaling × schedule: combinations nobody has tried are one expression."""

import numpy as np
import pytest

import retrax as rx
from retrax.estimators import SVRG, Momentum, RecursiveMomentum, StormPlus
from retrax.scalings import RASA, AMSGrad, Coordinatewise, Identity, Normalised

from .small_problems import METHODS, SAMPLES, batches, case, pca_loss

power, constant = rx.schedules.power, rx.schedules.constant


def spiked_problem():
    data = np.random.default_rng(2).standard_normal((300, 8)) * np.array([3.0, 2.5, 1, 1, 1, 0.5, 0.5, 0.5])
    optimum = -np.linalg.eigvalsh(data.T @ data / len(data))[-2:].sum()
    return rx.Problem(pca_loss, rx.Grassmann(8, 2), data, optimum=float(optimum))


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(rx.rsrm(0.1, scaling=RASA(0.9, 1e-8)), id="rsrm × rasa"),
        pytest.param(
            rx.Method(RecursiveMomentum(power(0.1, -2 / 3)), RASA(0.9, 1e-8, sides="L"), power(0.1, -1 / 3)),
            id="rsrm × rasa-L in parts",
        ),
        pytest.param(rx.rsrm(0.1, scaling=AMSGrad(0.9, 1e-8)), id="rsrm × amsgrad"),
        pytest.param(
            rx.Method(SVRG(), Coordinatewise(0.9, 1e-8), constant(0.02), restart_every=50, first_batch_size="all"),
            id="rsvrg × rmsprop",
        ),
        pytest.param(rx.Method(Momentum(constant(0.9)), Normalised(), power(0.1, -1 / 2)), id="normalised momentum"),
        pytest.param(rx.rsrm(rx.step_sizes.DistanceOverGradients(1e-3)), id="rsrm × rdog"),
        pytest.param(rx.Method(StormPlus(), Identity(), rx.step_sizes.Secant()), id="storm+ × secant"),
    ],
)
def test_untried_combinations_run_and_descend(method):
    result = rx.minimize(spiked_problem(), method, steps=400, batch_size=5, record=100)
    gap = result.history["gap"]
    assert result.status is rx.Status.MAX_STEPS
    assert gap[-1] < 0.1 * gap[0]
    assert result.history["violation"].max() < 1e-13


@pytest.mark.parametrize("method", METHODS)
def test_every_method_descends(method):
    """In the eager driver, so that this stays quick: a few steps of a size that suits the method."""
    factory = {
        "rsgd": rx.rsgd(0.05),
        "csgd_m": rx.csgd_m(0.1, 0.9),
        "crmsprop": rx.crmsprop(0.05),
        "ramsgrad": rx.ramsgrad(0.3, 0.9),
        "radam": rx.radam(0.02),
        "rasa-L": rx.rasa(0.1, "L"),
        "rasa-R": rx.rasa(0.1, "R"),
        "rasa-LR": rx.rasa(0.1),
        "rsrm": rx.rsrm(0.03),
        "rsvrg": rx.rsvrg(0.02),
        "rsrg": rx.rsrg(0.02),
        "rspider": rx.rspider(0.05),
        "rdog": rx.rdog(1e-2),
        "rdowg": rx.rdowg(1e-2),
        "nrdog": rx.nrdog(1e-2),
        "storm_plus": rx.storm_plus(),
    }
    steps = 240 if method == "storm_plus" else 60  # STORM+'s own step sizes begin far too long here, and fall slowly
    result = rx.minimize(spiked_problem(), factory[method], steps=steps, batch_size=10, record=steps, driver="eager")
    assert result.history["gap"][-1] < 0.5 * result.history["gap"][0]


def test_rsrm_with_rasa_is_what_it_says():
    """The estimator recurses on unscaled directions; moments are of the mini-batch gradient; then one projection."""
    here, eta, rho, beta, epsilon = case("stiefel qr projection"), 0.1, 0.3, 0.6, 1e-3
    drawn = batches(SAMPLES, seed=0, steps=4, batch_size=2, first_batch_size=3)
    x = here.x0
    row_moment = row_max = np.zeros((4, 1))
    previous = d = None
    for t, (restart, batch) in enumerate(drawn, start=1):
        g = here.gradient(x, batch)
        if restart:
            d = g
        else:
            difference = d - here.gradient(previous, batch)
            d = g + (1 - rho * t ** (-2 / 3)) * here.geometry.transport(previous, x, difference)
        row_moment = beta * row_moment + (1 - beta) * (g**2).mean(1, keepdims=True)
        row_max = np.maximum(row_max, row_moment)
        scaled = here.geometry.project(x, d / np.sqrt(row_max + epsilon))
        previous, x = x, here.geometry.retract(x, -eta * t ** (-1 / 3) * scaled)
    result = rx.minimize(
        here.problem,
        rx.rsrm(eta, rho, scaling=RASA(beta, epsilon, sides="L")),
        steps=4,
        batch_size=2,
        first_batch_size=3,
        x0=here.x0,
        driver="eager",
    )
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-12)


def test_methods_are_values():
    """Equal numbers, equal methods; and a name that says what they are."""
    assert rx.rsrm(0.1) == rx.rsrm(0.1)
    assert rx.rsrm(0.1) != rx.rsrm(0.2)
    assert [method.name for method in METHODS.values()] == [
        "RSGD",
        "cSGD-M",
        "cRMSProp",
        "RAMSGRAD",
        "RADAM",
        "RASA-L",
        "RASA-R",
        "RASA-LR",
        "RSRM",
        "RSVRG",
        "RSRG",
        "RSPIDER",
        "RDoG",
        "RDoWG",
        "NRDoG",
        "STORM+",
    ]


def test_unit_steps_with_leading_batch_axes():
    manifold = rx.Product((rx.Stiefel(4, 2), rx.Euclidean(3)))
    generator = np.random.default_rng(0)
    x = manifold.random_point((generator.normal(size=(5, 4, 2)), generator.normal(size=(5, 3))))
    u = manifold.random_tangent(x, (generator.normal(size=(5, 4, 2)), generator.normal(size=(5, 3))))
    u = (u[0] * np.array([1.0, 2, 0, 4, 5])[:, None, None], u[1] * np.array([1.0, 2, 0, 4, 5])[:, None])
    scaled, _ = rx.scalings.Normalised().apply(manifold, x, rx.estimators.Estimate(u, u), ())
    np.testing.assert_allclose(manifold.norm(x, scaled), [1, 1, 0, 1, 1], atol=1e-14)
