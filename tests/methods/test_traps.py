"""Mistakes seen in other implementations (the notes on the paper count ten): those of methods and engine, by number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.problems.base import BatchOracle

from .small_problems import METHODS, SAMPLES, batches, case, pca_loss, spd_loss

TWO_POINT_METHODS = ("rsrm", "rsvrg", "rsrg", "rspider", "storm_plus")


class SpyingGrassmann(rx.Grassmann):
    """Writes down what is transported."""

    log: list

    def transport(self, x, y, u):
        self.log.append((x, y, u))
        return super().transport(x, y, u)


def spy() -> SpyingGrassmann:
    manifold = SpyingGrassmann(4, 2)
    object.__setattr__(manifold, "log", [])
    return manifold


# --- trap 2 ---------------------------------------------------------------------------------------------------


def test_trap_2_cost_and_optimum_share_one_scale():
    """A half too many in either, and the gap converges to a constant instead of zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * np.array([3.0, 2.0, 1.0, 0.5, 0.2])
    problem = rx.problems.PCA(X, 2)
    eigenvalues, eigenvectors = np.linalg.eigh(X.T @ X / len(X))
    best = eigenvectors[:, -2:]
    assert float(problem.objective.loss(best, X)) == pytest.approx(problem.optimum, rel=1e-12)
    assert problem.optimum == pytest.approx(-eigenvalues[-2:].sum(), rel=1e-12)

    result = rx.minimize(problem, rx.rsrg(0.05, restart_every=10), steps=400, batch_size=20, record=10, seed=1)
    gap = result.history["gap"]
    assert gap[0] > 1
    assert abs(gap[-1]) < 1e-9
    assert gap.min() > -1e-12


def test_trap_2_the_gap_is_the_loss_minus_the_optimum_that_was_given():
    here = case("stiefel qr projection")
    problem = rx.Problem(pca_loss, here.problem.manifold, here.problem.data, optimum=-123.5)
    history = rx.minimize(problem, rx.rsgd(0.1), steps=4, batch_size=2, record=2, driver="eager").history
    np.testing.assert_array_equal(history["gap"], history["loss"] + 123.5)
    assert "gap" not in rx.minimize(here.problem, rx.rsgd(0.1), steps=1, batch_size=2, driver="eager").history


# --- trap 5 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifold", ["grassmann polar projection", "spd exp parallel"])
@pytest.mark.parametrize("method", ["csgd_m", "ramsgrad", "radam"])
def test_trap_5_the_first_momentum_is_the_riemannian_gradient(method, manifold):
    """Not the ambient gradient (on SPD they differ even in length), not zero, not (1-β) times the gradient."""
    here = case(manifold)
    everything = np.arange(SAMPLES)
    riemannian = here.gradient(here.x0, everything)
    ambient = here.ambient_gradient(here.x0, here.problem.data)
    assert np.linalg.norm(riemannian - ambient) > 0.1
    result = rx.minimize(
        here.problem,
        METHODS[method],
        steps=1,
        first_batch_size=SAMPLES,
        x0=here.x0,
        record=rx.Record(every=1, estimator_error=True),
        driver="eager",
    )
    norm = here.geometry.norm(here.x0, riemannian)
    assert result.history["direction_norm"][1] == pytest.approx(norm, abs=1e-12)
    assert result.history["estimator_error"][1] < 1e-12


# --- trap 7 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_trap_7_two_point_methods_pay_2b_for_an_inner_step(method):
    here = case("stiefel qr projection")
    result = rx.minimize(
        here.problem, METHODS[method], steps=3, batch_size=2, first_batch_size=5, x0=here.x0, record=1, driver="eager"
    )
    inner = 4 if method in TWO_POINT_METHODS else 2
    assert result.history["sfo"].tolist() == [0, 5, 5 + inner, 5 + 2 * inner]


# --- trap 8 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rsgd", "crmsprop", "rasa-L", "rasa-R", "rasa-LR", "rdog", "rdowg", "nrdog"])
def test_trap_8_methods_without_momentum_transport_nothing(method):
    manifold = spy()
    problem = rx.Problem(pca_loss, manifold, case("stiefel qr projection").problem.data)
    rx.minimize(problem, METHODS[method], steps=5, batch_size=2, driver="eager")
    assert manifold.log == []


@pytest.mark.parametrize("method", ["csgd_m", "ramsgrad", "radam", *TWO_POINT_METHODS])
def test_trap_8_only_tangent_vectors_are_transported_and_from_their_own_point(method):
    """One vector a step, tangent at the point it is said to come from (a second moment is not)."""
    manifold = spy()
    problem = rx.Problem(pca_loss, manifold, case("stiefel qr projection").problem.data)
    rx.minimize(problem, METHODS[method], steps=5, batch_size=2, first_batch_size=4, driver="eager")
    restarts = 2 if METHODS[method].restart_every else 1
    assert len(manifold.log) == 5 - restarts
    for x, y, u in manifold.log:
        assert u.shape == (4, 2)
        assert np.abs(x.T @ u).max() < 1e-12
        assert np.abs(y.T @ u).max() > 1e-6  # it does need to be carried


@pytest.mark.parametrize("method", ["crmsprop", "ramsgrad", "rasa-LR"])
def test_trap_8_second_moments_are_means_of_squares(method):
    """Never negative, and carried over as they are: β v + (1-β) times the new square."""
    here, chosen = case("grassmann polar projection"), METHODS[method]
    manifold, beta = here.problem.manifold, chosen.scaling.beta
    with jax.enable_x64(True):
        x = jnp.asarray(here.x0)
        state = chosen.init(manifold, x)
        for t in range(1, 6):
            before = jax.tree.leaves(state.scaling)
            gradient = here.gradient(np.asarray(x), np.arange(t - 1, t + 1))
            oracle = BatchOracle(here.problem.objective, jnp.asarray(here.problem.data[t - 1 : t + 1]))
            x, state = (chosen.restart if t == 1 else chosen.step)(manifold, oracle, x, state, float(t))
            squares = {
                "crmsprop": [gradient**2],
                "ramsgrad": [np.sum(gradient**2)],
                "rasa-LR": [(gradient**2).mean(1, keepdims=True), None, (gradient**2).mean(0, keepdims=True)],
            }[method]
            after = jax.tree.leaves(state.scaling)
            for old, new, square in zip(before, after, squares, strict=False):
                if square is not None:
                    np.testing.assert_allclose(new, beta * old + (1 - beta) * square, rtol=0, atol=1e-13)
            assert all((np.asarray(leaf) >= 0).all() for leaf in after)


# --- trap 9 ---------------------------------------------------------------------------------------------------


def stationary(kind):
    """A problem and a point where every sample's gradient is exactly zero; on SPD with repeated eigenvalues."""
    axes = np.tile(np.diag([2.0, 1.0, 0.0, 0.0])[:2], (3, 1))
    if kind == "sphere":
        return rx.Problem(pca_loss, rx.Sphere(4, transport="parallel"), axes), np.array([1.0, 0.0, 0.0, 0.0])
    if kind == "grassmann":
        return rx.Problem(pca_loss, rx.Grassmann(4, 2, transport="parallel"), axes), np.eye(4)[:, :2]
    if kind == "stiefel":
        return rx.Problem(pca_loss, rx.Stiefel(4, 2, transport="rotation"), axes), np.eye(4)[:, :2]
    if kind == "spd":
        return rx.Problem(spd_loss, rx.SPD(3), np.tile(np.eye(3), (6, 1, 1))), np.eye(3)
    if kind == "centroid":
        return rx.problems.Centroid(np.tile(np.eye(3), (6, 1, 1))), np.eye(3)
    return rx.Problem(lambda x, batch: jnp.sum(x**2) + 0 * jnp.sum(batch), rx.Euclidean(2, 3), axes), np.zeros((2, 3))


@pytest.mark.parametrize("kind", ["euclidean", "sphere", "grassmann", "stiefel", "spd", "centroid"])
def test_trap_9_a_zero_gradient_leaves_the_point_in_place(kind):
    problem, x0 = stationary(kind)
    for name, method in METHODS.items():
        if name.startswith("rasa") and x0.ndim < 2:
            continue
        result = rx.minimize(
            problem, method, steps=4, batch_size=2, first_batch_size=3, x0=x0, record=1, driver="eager"
        )
        assert np.isfinite(result.x).all(), name
        np.testing.assert_allclose(result.x, x0, rtol=0, atol=1e-15, err_msg=name)
        assert result.history["direction_norm"].max() == 0, name
        assert result.status is rx.Status.MAX_STEPS


@pytest.mark.parametrize("method", ["rspider", "rasa-LR"])
def test_trap_9_compiled(method):
    """Where a 0/0 in an untaken branch would turn up, if anywhere."""
    problem, x0 = stationary("spd")
    result = rx.minimize(problem, METHODS[method], steps=4, batch_size=2, first_batch_size=3, x0=x0)
    np.testing.assert_allclose(result.x, x0, rtol=0, atol=1e-15)


# --- trap 10: in full in test_estimator_laws.py; here once, compiled ------------------------------------------


def test_trap_10_the_laws_of_rsrm_hold_in_compiled_code():
    here = case("grassmann polar projection")
    constant = rx.schedules.constant
    options = {"steps": 6, "batch_size": 2, "first_batch_size": 2, "x0": here.x0, "seed": 3}
    plain = rx.minimize(here.problem, rx.rsgd(constant(0.2)), **options)
    rho_1 = rx.minimize(here.problem, rx.rsrm(constant(0.2), constant(1.0)), **options)
    rho_0 = rx.minimize(here.problem, rx.rsrm(constant(0.2), constant(0.0)), **options)
    recursive = rx.minimize(here.problem, rx.rsrg(0.2, restart_every=100), **options)
    np.testing.assert_allclose(rho_1.x, plain.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rho_0.x, recursive.x, rtol=0, atol=1e-13)
    assert np.abs(rho_0.x - rho_1.x).max() > 1e-3


def test_trap_10_not_the_reverse_as_the_papers_text_has_it():
    """After eq. (5) the paper says ρ = 0 is RSGD; by its formula ρ = 1 is."""
    here = case("euclidean")
    drawn = batches(SAMPLES, seed=0, steps=2, batch_size=1, first_batch_size=3)
    last = drawn[1][1]
    for rho, at_rho in ((1.0, "plain"), (0.0, "recursive")):
        result = rx.minimize(
            here.problem,
            rx.rsrm(rx.schedules.constant(0.1), rx.schedules.constant(rho)),
            steps=2,
            batch_size=1,
            first_batch_size=3,
            x0=here.x0,
            driver="eager",
        )
        d_1 = here.gradient(here.x0, drawn[0][1])
        x_2 = here.x0 - 0.1 * d_1
        plain = here.gradient(x_2, last)
        expected = {"plain": plain, "recursive": plain + d_1 - here.gradient(here.x0, last)}[at_rho]
        np.testing.assert_allclose((x_2 - result.x) / 0.1, expected, rtol=0, atol=1e-12)
