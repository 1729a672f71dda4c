"""Parts written outside the package run everywhere: against the same steps in plain NumPy, which know no Retrax.

All samples are the same, so that whatever batches are drawn, the steps can be computed by hand.
"""

import numpy as np
import pytest

import retrax as rx
from retrax.methods import Method

from .own_parts import Bold, ByLargest, Corrected, Lookback, Middle, RoundSphere, Unread

SAMPLE = np.array([1.0, -0.5, 2.0, 0.3])
START = np.array([0.5, 0.5, -0.5, 0.5])
STEPS, ETA = 12, 0.3
RATES = [ETA, 0.1]

PARTS = {
    "nothing": {},
    "manifold": {"radius": 2.0},
    "problem": {"delta": 0.2},
    "estimator": {"lookback": 0.4},
    "scaling": {"floor": 0.6},
    "step size": {"bold": True},
    "all": {"radius": 2.0, "delta": 0.2, "lookback": 0.4, "floor": 0.6, "bold": True},
}


def by_hand(eta, *, radius=1.0, delta=1.0, lookback=0.0, floor=None, bold=False):
    """x_T in plain NumPy."""
    x = radius * START
    size, last_norm, largest, last_gradient = eta / 1.1, np.inf, floor, np.zeros(4)
    for _ in range(STEPS):
        away = x - SAMPLE
        gradient = away / np.sqrt(delta**2 + away @ away)
        gradient = gradient - (x @ gradient) / radius**2 * x
        direction = gradient + lookback * (last_gradient - (x @ last_gradient) / radius**2 * x)
        last_gradient = gradient
        norm = np.linalg.norm(gradient)
        if floor is not None:
            largest = max(largest, np.linalg.norm(direction))
            direction = direction / largest
        size = size * (1.1 if norm < last_norm else 0.5) if bold else eta
        last_norm = norm
        x = x - size * direction
        x = radius * x / np.linalg.norm(x)
    return x


def parts(eta, *, radius=1.0, delta=1.0, lookback=None, floor=None, bold=False):
    """The manifold and the method of a case: Retrax's own parts where the case names no other."""
    manifold = rx.Sphere(4) if radius == 1.0 else RoundSphere(4, radius)
    method = Method(
        rx.estimators.Plain() if lookback is None else Lookback(lookback),
        rx.scalings.Identity() if floor is None else ByLargest(floor),
        Bold(eta) if bold else rx.schedules.constant(eta),
    )
    return manifold, method


def made(case, eta=ETA):
    """The problem and the method of a case."""
    manifold, method = parts(eta, **PARTS[case])
    return Middle(np.tile(SAMPLE, (20, 1)), manifold, PARTS[case].get("delta", 1.0)), method


def start(case):
    """The start on the manifold of a case."""
    return PARTS[case].get("radius", 1.0) * START


@pytest.mark.parametrize("driver", ["jax", "eager"])
@pytest.mark.parametrize("case", PARTS)
def test_minimize(case, driver):
    problem, method = made(case)
    result = rx.minimize(problem, method, steps=STEPS, batch_size=3, x0=start(case), driver=driver)
    np.testing.assert_allclose(result.x, by_hand(ETA, **PARTS[case]), atol=1e-13)


@pytest.mark.parametrize("case", PARTS)
def test_sweep(case):
    problem, _ = made(case)
    arguments = {"steps": STEPS, "batch_size": 3, "record": STEPS, "x0": start(case)}
    swept = rx.sweep(problem, {case: lambda eta: made(case, eta)[1]}, RATES, seeds=2, **arguments)[case]
    for rate, losses in zip(RATES, swept.curves["loss"], strict=True):
        away = by_hand(rate, **PARTS[case]) - SAMPLE
        expected = np.sqrt(PARTS[case].get("delta", 1.0) ** 2 + away @ away)
        np.testing.assert_allclose(losses[:, -1], expected, atol=1e-13)


@pytest.mark.parametrize("case", PARTS)
def test_torch(case):
    torch = pytest.importorskip("torch")

    class Optimizer(rx.torch.RiemannianOptimizer):
        recipe = staticmethod(lambda learning_rate: _with_rate(case, learning_rate))

    x = torch.nn.Parameter(torch.tensor(start(case)))
    sample, delta = torch.as_tensor(SAMPLE), PARTS[case].get("delta", 1.0)
    optimizer = Optimizer([{"params": [x], "manifold": parts(ETA, **PARTS[case])[0]}], lr=ETA)

    def closure():
        optimizer.zero_grad()
        loss = torch.sqrt(delta**2 + ((x - sample) ** 2).sum())
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), by_hand(ETA, **PARTS[case]), atol=1e-13)


def _with_rate(case, learning_rate):
    """A recipe: torch multiplies what the method's own step size, for the rate 1, says by the group's lr."""
    _, method = parts(1.0, **PARTS[case])
    step_size = method.step_size if learning_rate == 1.0 else learning_rate
    return Method(method.estimator, method.scaling, step_size)


PCA_PARTS = {
    "estimator": (Lookback(0.4), rx.scalings.Identity(), rx.schedules.constant(0.1)),
    "unread number": (Unread(0.4), rx.scalings.Identity(), rx.schedules.constant(0.1)),
    "two points": (Corrected(0.9), rx.scalings.Identity(), rx.schedules.constant(0.1)),
    "scaling": (rx.estimators.Plain(), ByLargest(0.6), rx.schedules.constant(0.1)),
    "step size": (rx.estimators.Plain(), rx.scalings.Identity(), Bold(0.1)),
    "all": (Corrected(0.9), ByLargest(0.6), Bold(0.1)),
}


@pytest.mark.parametrize("case", PCA_PARTS)
def test_in_one_kernel(case):
    """The whole loop is one kernel, and takes the steps of the plain loop.

    In most cases nothing looks at t: XLA ends the process over an argument without a use, if it gets one.
    """
    rows = np.random.default_rng(0).standard_normal((50, 8)) * np.linspace(1, 2, 8)
    problem, method = rx.problems.PCA(rows, 2), Method(*PCA_PARTS[case])
    run = rx.Run(problem, method)
    run.advance(STEPS)
    assert [fit.fits for _, fit in run._driver.forms] == [True], run._driver.forms
    eager = rx.minimize(problem, method, steps=STEPS, driver="eager")
    np.testing.assert_allclose(run.x, eager.x, atol=1e-12)


@pytest.mark.parametrize("case", ["manifold", "problem"])
def test_in_one_kernel_after_a_trial(case):
    """What nobody has tried goes there too, where another process could compile it."""
    problem, method = made(case)
    run = rx.Run(problem, method, x0=start(case))
    run.advance(STEPS)
    ((_, verdict),) = run._driver.forms
    assert verdict.fits
    assert "trial in another process" in verdict.reason
    eager = rx.minimize(problem, method, steps=STEPS, x0=start(case), driver="eager")
    np.testing.assert_allclose(run.x, eager.x, atol=1e-12)


def test_an_estimator_with_two_points_and_a_column_of_its_own():
    """The same samples in every batch: d_t = grad F(x_t) always, if both gradients are of one batch."""
    manifold, _ = parts(ETA)
    problem = Middle(np.tile(SAMPLE, (20, 1)), manifold)
    method = Method(Corrected(0.9), rx.scalings.Identity(), rx.schedules.constant(ETA))
    result = rx.minimize(problem, method, steps=STEPS, x0=START, record=rx.Record(every=1, estimator_error=True))
    np.testing.assert_allclose(result.x, by_hand(ETA), atol=1e-13)
    assert np.nanmax(result.history["estimator_error"][1:]) < 1e-14
    np.testing.assert_array_equal(result.history["weight"][1:], 0.9)
    assert result.sfo == 5 + 11 * 2 * 5


def _corrected(learning_rate, weight):
    step_size = rx.schedules.constant(1.0) if learning_rate == 1.0 else learning_rate
    return Method(Corrected(weight), rx.scalings.Identity(), step_size)


def test_two_points_in_torch_are_the_estimators_own():
    torch = pytest.importorskip("torch")

    class Optimizer(rx.torch.RiemannianOptimizer):
        recipe = staticmethod(lambda learning_rate, weight: _corrected(learning_rate, weight))

    x = torch.nn.Parameter(torch.tensor(START))
    optimizer = Optimizer([{"params": [x], "manifold": rx.Sphere(4)}], lr=ETA, weight=0.9)
    sample, visited = torch.as_tensor(SAMPLE), []

    def closure():
        optimizer.zero_grad()
        visited.append(x.detach().clone())
        loss = torch.sqrt(1 + ((x - sample) ** 2).sum())
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), by_hand(ETA), atol=1e-13)
    assert len(visited) == 1 + 2 * (STEPS - 1)
