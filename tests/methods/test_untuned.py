"""RSRM that finds its own step size and gain: against the same filter in plain NumPy, and what it promises."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits

import retrax as rx
from retrax._precision import precision
from retrax.problems.base import BatchOracle
from retrax.step_sizes import secant

from .small_problems import MANIFOLDS, SAMPLES, batches, case, product_problem

SAFETY, FIRST_LENGTH, WEIGHT, SIGNIFICANCE, TOLERATED = 0.1, 1e-3, 0.01, 3.0, 0.1


class ByHand:
    """The filter and the secant step size, one scalar after the other, in plain NumPy."""

    def __init__(self, here, first, drawn):
        self.here, self.geometry = here, here.geometry
        self.x = here.x0
        half = len(first) // 2
        a, b = (here.gradient(self.x, part) for part in (first[:half], first[half:]))
        self.d = half / len(first) * a + (1 - half / len(first)) * b
        self.error = self._squared(self.x, a - b) / 4
        self.variance = len(first) * self.error
        self.share, self.moves, self.smoothness = 0.1, 0, 0.0
        self.secant, self.pairs = 0.0, 0
        self.size = FIRST_LENGTH / np.sqrt(self._squared(self.x, self.d))
        self.rhos, self.rested, self.points = [], 0, [self.x]
        moving = self._worth_it()
        for t, batch in enumerate(drawn, start=2):
            moving = self._step(t, batch, moving)
        self._move(moving)

    def _squared(self, x, u):
        return self.geometry.inner(x, u, u)

    def _worth_it(self):
        bound = self.error * min(TOLERATED, SIGNIFICANCE * self.share)
        return self.moves < 10 or self._squared(self.x, self.d) >= bound

    def _move(self, moving):
        old, length = self.x, self.size * np.sqrt(self._squared(self.x, self.d)) if moving else 0.0
        if moving:
            self.x = self.geometry.retract(old, -self.size * self.d)
        self.points.append(self.x)
        return old, length

    def _step(self, t, batch, moving):
        g, geometry = self.here.gradient, self.geometry
        old, length = self._move(moving)
        near = batch[: len(batch) // 2]
        carry = (lambda u: geometry.transport(old, self.x, u)) if moving else (lambda u: u)
        carried, n = carry(self.d), len(near) if moving else len(batch)
        if moving:
            difference = g(self.x, near) - carry(g(old, near))
            step_squared = self.size**2 * self._squared(self.x, carried)
            delta = self._squared(self.x, difference)
            noise = self.smoothness * step_squared if self.moves else delta
            innovation = g(self.x, near) - carried - difference
        else:
            difference, noise = 0 * self.d, 0.0
            innovation = g(self.x, batch) - carried
        expected = self.error + noise
        rho = expected / (expected + self.variance / n)
        self.d = carried + difference + rho * innovation
        squared = self._squared(self.x, innovation)
        weight = max(WEIGHT, 1 / (t + 10))
        cosine = geometry.inner(self.x, innovation, carried) ** 2 / (squared * self._squared(self.x, carried))
        self.share += weight * (cosine - self.share)
        self.error, old_variance = rho * self.variance / n, self.variance
        self.variance += weight * (n * max(0, squared - expected) - old_variance)
        if moving:
            self.moves += 1
            faster = max(WEIGHT, 2 / (self.moves + 1))
            self.smoothness += faster * (delta / step_squared - self.smoothness)
            self.secant += faster * (delta / length**2 - self.secant)
            boldness = min(5, max(1, len(near) / 5) ** 0.5)
            self.size = min(2 * self.size, SAFETY * boldness / np.sqrt(self.secant))
        self.rhos.append(rho)
        self.rested += not moving
        return self._worth_it()


def by_hand_and_by_retrax(name, steps, driver, batch_size=2, x0=None):
    here = case(name)
    if x0 is not None:
        here = dataclasses.replace(here, x0=x0)
    drawn = batches(SAMPLES, seed=7, steps=steps, batch_size=2 * batch_size, first_batch_size=6)
    expected = ByHand(here, drawn[0][1], [chosen for _, chosen in drawn[1:]])
    result = rx.minimize(
        here.problem,
        rx.rsrm(),
        steps=steps,
        batch_size=batch_size,
        first_batch_size=6,
        x0=here.x0,
        seed=7,
        record=1,
        driver=driver,
    )
    return expected, result


@pytest.mark.parametrize("name", MANIFOLDS)
def test_steps_are_those_computed_by_hand(name):
    expected, result = by_hand_and_by_retrax(name, 60, "eager")
    np.testing.assert_allclose(result.history["rho"][2:], expected.rhos, rtol=1e-6)
    np.testing.assert_allclose(result.x, expected.points[-1], rtol=0, atol=1e-8)
    assert result.sfo == 6 + 59 * 4


@pytest.mark.parametrize("driver", ["eager", "jax"])
def test_rests_are_those_computed_by_hand(driver):
    """At the solution the direction is noise: after the first ten steps most others stay."""
    data = case("grassmann polar projection").problem.data
    solution = np.linalg.eigh(data.T @ data)[1][:, -2:]
    expected, result = by_hand_and_by_retrax("grassmann polar projection", 60, driver, x0=solution)
    assert 5 < expected.rested < 50
    np.testing.assert_allclose(result.history["rho"][2:], expected.rhos, rtol=1e-6)
    np.testing.assert_allclose(result.x, expected.points[-1], rtol=0, atol=1e-8)
    assert np.sum(result.history["step_size"][1:-1] == 0) == expected.rested


def test_larger_batches_take_longer_steps():
    """Of 20 samples: c = 0.2, as computed by hand."""
    expected, result = by_hand_and_by_retrax("grassmann polar projection", 40, "eager", batch_size=20)
    np.testing.assert_allclose(result.x, expected.points[-1], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("samples", "factor"), [(1, 1.0), (5, 1.0), (20, 2.0), (125, 5.0), (10**6, 5.0)])
def test_the_step_grows_like_the_root_of_the_batch_within_bounds(samples, factor):
    assert secant._boldness(samples) == factor


def test_the_compiled_steps_are_the_same():
    expected, result = by_hand_and_by_retrax("grassmann polar projection", 60, "jax")
    np.testing.assert_allclose(result.x, expected.points[-1], rtol=0, atol=1e-8)


def test_the_gain_is_known_before_the_batch_is_drawn():
    """Another batch at the last step changes the direction, not ρ."""
    here = case("stiefel qr projection")
    manifold, method = here.problem.manifold, rx.rsrm()
    with precision("float64"):

        def last_gain(final):
            x = here.x0
            state = method.init(manifold, x)
            x, state = method.restart(manifold, BatchOracle(here.problem.objective, here.problem.data), x, state, 1.0)
            for t, rows in enumerate([[0, 1, 2, 3]] * 6 + [final], start=2):
                oracle = BatchOracle(here.problem.objective, here.problem.data[rows])
                x, state = method.step(manifold, oracle, x, state, float(t))
            return float(state.memory.rho), np.asarray(state.last.vector)

        (rho, direction), (other_rho, other) = last_gain([4, 5, 6, 1]), last_gain([3, 6, 2, 0])
    assert rho == other_rho
    assert np.abs(direction - other).max() > 1e-3


# --- what it promises -------------------------------------------------------------------------------------------------


def digits(rank=5, factor=1.0):
    return rx.problems.PCA(factor * load_digits().data, rank, center=True)


def test_digits_without_a_number_end_within_a_percent_of_the_optimum():
    problem = digits()
    result = rx.minimize(problem, rx.rsrm(), steps=2000)
    assert result.history["gap"][-1] <= 0.01 * abs(problem.optimum)


def test_a_centroid_of_covariances_in_volts_squared():
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((400, 4, 12))
    problem = rx.problems.Centroid(1e-12 * roots @ roots.swapaxes(1, 2) / 12)
    result = rx.minimize(problem, rx.rsrm(), steps=2000)
    assert result.history["gap"][-1] <= 0.01 * problem.optimum


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_of_the_data_changes_nothing(factor):
    plain, scaled = (rx.minimize(digits(factor=f), rx.rsrm(), steps=300).x for f in (1.0, factor))
    np.testing.assert_allclose(scaled, plain, rtol=0, atol=1e-9)


def test_each_of_the_two_can_be_automatic_alone():
    names = {
        "both": rx.rsrm(),
        "step size": rx.rsrm(rho=0.1),
        "gain": rx.rsrm(1e-4, rho="auto"),
        "neither": rx.rsrm(1e-4),
    }
    kinds = {key: (type(method.estimator).__name__, type(method.step_size).__name__) for key, method in names.items()}
    assert kinds == {
        "both": ("AutomaticMomentum", "Secant"),
        "step size": ("RecursiveMomentum", "Secant"),
        "gain": ("AutomaticMomentum", "Power"),
        "neither": ("RecursiveMomentum", "Power"),
    }
    problem = digits(2)
    for method in names.values():
        losses = rx.minimize(problem, method, steps=200).history["loss"]
        assert losses[-1] < losses[0]


def test_the_estimated_error_is_of_the_size_of_the_true_one():
    record = rx.Record(every=100, estimator_error=True)
    history = rx.minimize(digits(), rx.rsrm(), steps=3000, record=record).history
    ratio = history["estimator_error"][5:] / history["estimated_error"][5:]
    assert 0.5 < np.median(ratio) < 2


@pytest.mark.parametrize("scaling", [rx.scalings.RASA(0.9, 1e-8), rx.scalings.Coordinatewise(0.9, 1e-8)])
def test_with_other_scalings(scaling):
    losses = rx.minimize(digits(3), rx.rsrm(scaling=scaling), steps=400).history["loss"]
    assert losses[-1] < 0.98 * losses[0] < 0


def test_svrg_with_a_secant_step_size():
    """The second point is the anchor: the secant is the chord to it."""
    method = rx.Method(
        rx.estimators.SVRG(),
        rx.scalings.Identity(),
        rx.step_sizes.Secant(),
        restart_every=200,
        first_batch_size="all",
    )
    problem = digits(3)
    assert rx.minimize(problem, method, steps=2000).history["gap"][-1] < 0.01 * abs(problem.optimum)


def test_a_step_size_that_needs_pairs_is_refused_without_them():
    with pytest.raises(TypeError, match="Secant measures the smoothness from gradients at two points, but Plain"):
        rx.Method(rx.estimators.Plain(), rx.scalings.Identity(), rx.step_sizes.Secant())


def test_on_a_product_in_single_precision_and_in_a_sweep():
    product = product_problem()
    history = rx.minimize(product, rx.rsrm(), steps=400, batch_size=2).history
    assert history["loss"][-1] < history["loss"][0]
    single = rx.minimize(digits(), rx.rsrm(), steps=2000, dtype="float32")
    assert single.history["gap"][-1] < 0.02 * 655
    swept = rx.sweep(digits(2), {"untuned": lambda _: rx.rsrm()}, [1.0], 3, steps=200)["untuned"]
    alone = rx.minimize(digits(2), rx.rsrm(), steps=200, seed=1)
    np.testing.assert_allclose(swept.curves["loss"][0, 1, -1], alone.history["loss"][-1], rtol=1e-9)


def test_on_a_stream_and_resumed_to_the_same_bits(tmp_path):
    data = load_digits().data - load_digits().data.mean(axis=0)

    def problem():
        stream = rx.Stream([data[i : i + 50] for i in range(0, 1500, 50)], deterministic=True)
        return rx.Problem(rx.problems.pca.loss, rx.Grassmann(64, 3), stream)

    whole = rx.minimize(problem(), rx.rsrm(), steps=120, first_batch_size=40)
    keep = {"checkpoint": rx.Checkpoint(tmp_path, every=50), "resume": True, "first_batch_size": 40}
    rx.minimize(problem(), rx.rsrm(), steps=50, **keep)
    resumed = rx.minimize(problem(), rx.rsrm(), steps=120, **keep)
    np.testing.assert_array_equal(whole.x, resumed.x)
    np.testing.assert_array_equal(whole.history["rho"][-1], resumed.history["rho"][-1])


def test_nothing_moves_where_the_gradient_is_zero():
    problem = rx.problems.PCA(np.eye(4)[np.arange(40) % 2], 2)
    solution = np.eye(4)[:, :2]
    result = rx.minimize(problem, rx.rsrm(), steps=50, x0=solution)
    np.testing.assert_allclose(result.x @ result.x.T, solution @ solution.T, atol=1e-12)
    assert jax.tree.all(jax.tree.map(lambda a: bool(np.isfinite(a).all()), result.x))


@pytest.mark.parametrize("average", [True, False])
def test_the_average_is_formed_as_it_says(average):
    here = case("sphere exp parallel")
    result = rx.minimize(here.problem, rx.rsgd(0.1), steps=30, record=1, x0=here.x0, average=average)
    if not average:
        assert result.average is None
        return
    points = [rx.minimize(here.problem, rx.rsgd(0.1), steps=t, x0=here.x0).x for t in range(1, 31)]
    mean = points[0]
    for t, point in enumerate(points[1:], start=2):
        angle = np.arccos(np.clip(mean @ point, -1, 1))
        towards = point - (mean @ point) * mean
        if np.linalg.norm(towards) > 0:
            step = 3 / (t + 2) * angle
            mean = np.cos(step) * mean + np.sin(step) * towards / np.linalg.norm(towards)
    np.testing.assert_allclose(result.average, mean, atol=1e-7)
    np.testing.assert_allclose(result.history["average_loss"][-1], here.loss(mean), atol=1e-7)


def test_a_run_on_a_stream_stops_once_its_gradient_is_small_with_confidence():
    """The held samples' own gradient cannot tell: it stays at the noise of so few samples."""
    rng = np.random.default_rng(5)
    target = np.array([1.0, -2.0, 0.5])

    def stream():
        while True:
            yield target + 0.3 * rng.standard_normal((500, 3))

    def loss(x, batch):
        return jax.numpy.mean(jax.numpy.sum((batch - x) ** 2, axis=-1)) / 2

    problem = rx.Problem(loss, rx.Euclidean(3), rx.Stream(stream()))
    record = rx.Record(every=200, samples=10)
    result = rx.minimize(problem, rx.rsrm(), steps=20_000, x0=np.zeros(3), record=record, tolerance=0.05)
    assert result.status is rx.Status.CONVERGED
    assert "with confidence 0.95" in result.detail
    assert np.linalg.norm(result.x - target) <= 0.05
    assert result.history["gradient_norm"][-1] > 0.05


@pytest.mark.parametrize("confidence", [0, 1, 1.5, "high"])
def test_a_confidence_is_a_probability(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        rx.minimize(digits(2), rx.rsrm(), steps=10, confidence=confidence)


def test_a_single_sample_does_not_end_the_process():
    for problem in (rx.problems.PCA(np.ones((1, 3)), 1), rx.problems.Centroid(np.eye(3)[None])):
        for method in (rx.rsrm(), rx.rsrm(0.1)):
            assert np.isfinite(rx.minimize(problem, method, steps=12).x).all()
    swept = rx.sweep(rx.problems.PCA(np.ones((1, 3)), 1), rx.rsrm, [0.1], 2, steps=10)
    assert np.isfinite(swept["RSRM"].final).all()
