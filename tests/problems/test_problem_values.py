"""The ready-made problems against independent computations: NumPy by hand, scikit-learn, pyRiemann, autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyriemann.geometry.ajd import rjd
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.mean import mean_riemann
from sklearn.decomposition import PCA as SklearnPCA  # noqa: N811

import retrax as rx
from retrax.problems import centroid, joint_diagonalization, pca
from retrax.problems.base import SampleMean


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    return generator.normal(size=(500, 12)) * np.linspace(3, 0.2, 12) + 1


@pytest.fixture
def covariances():
    factors = np.random.default_rng(1).normal(size=(150, 5, 12))
    return factors @ factors.swapaxes(1, 2) / 12


def orthonormal(d, r, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, r)))[0]


@pytest.fixture
def nearly_diagonalizable():
    generator = np.random.default_rng(2)
    basis = orthonormal(6, 6, 3)
    diagonals = np.exp(generator.normal(size=(120, 6)))
    noise = 0.05 * generator.normal(size=(120, 6, 6))
    return basis @ (diagonals[:, :, None] * np.eye(6)) @ basis.T + noise + noise.swapaxes(1, 2)


def test_pca_loss_is_minus_the_captured_variance(rows):
    u = orthonormal(12, 3)
    by_hand = -np.mean([row @ u @ u.T @ row for row in rows])
    assert pca.loss(u, rows) == pytest.approx(by_hand, rel=1e-13)


def test_pca_optimum_and_solution_agree_with_scikit_learn(rows):
    problem = rx.problems.PCA(rows, 3, center=True)
    reference = SklearnPCA(3, svd_solver="full").fit(rows)
    n = len(rows)
    assert problem.optimum == pytest.approx(-reference.explained_variance_.sum() * (n - 1) / n, rel=1e-12)
    assert np.abs(problem.solution @ problem.solution.T - reference.components_.T @ reference.components_).max() < 1e-10
    assert pca.loss(problem.solution, rows - rows.mean(axis=0)) == pytest.approx(problem.optimum, rel=1e-12)


def test_pca_is_not_centred_unless_asked(rows):
    moment = rows.T @ rows / len(rows)
    assert rx.problems.PCA(rows, 2).optimum == pytest.approx(-np.linalg.eigvalsh(moment)[-2:].sum(), rel=1e-12)


def test_joint_diagonalization_loss_by_hand(covariances):
    u = orthonormal(5, 3)
    by_hand = -np.mean([np.sum(np.diag(u.T @ m @ u) ** 2) for m in covariances])
    assert joint_diagonalization.loss(u, covariances) == pytest.approx(by_hand, rel=1e-13)


def test_joint_diagonalization_reaches_what_jacobi_reaches(nearly_diagonalizable):
    problem = rx.problems.JointDiagonalization(nearly_diagonalizable)
    jacobi = np.asarray(rjd(nearly_diagonalizable, eps=1e-12, n_iter_max=200)[0])
    reference = min(joint_diagonalization.loss(candidate, nearly_diagonalizable) for candidate in (jacobi, jacobi.T))
    assert problem.optimum == pytest.approx(reference, rel=1e-9)
    at_solution = joint_diagonalization.loss(problem.solution, nearly_diagonalizable)
    assert at_solution == pytest.approx(problem.optimum, rel=1e-12)


def test_a_known_optimum_of_joint_diagonalization_is_taken_without_a_search(covariances, monkeypatch):
    monkeypatch.setattr(joint_diagonalization.deterministic, "best_of", None)
    result = rx.minimize(
        rx.problems.JointDiagonalization(covariances, optimum=-7.5), rx.rsgd(0.1), steps=2, progress=False
    )
    np.testing.assert_allclose(result.history["gap"], result.history["loss"] + 7.5, rtol=1e-12)


def test_centroid_loss_is_the_mean_squared_affine_invariant_distance(covariances):
    c = covariances[3] + np.eye(5)
    by_hand = np.mean([distance_riemann(c, m) ** 2 for m in covariances])
    assert centroid.loss(c, covariances) == pytest.approx(by_hand, rel=1e-12)


def test_centroid_agrees_with_pyriemann(covariances):
    problem = rx.problems.Centroid(covariances)
    reference = mean_riemann(covariances, tol=1e-13, maxiter=300)
    assert distance_riemann(problem.solution, reference) < 1e-8
    assert centroid.loss(problem.solution, covariances) == pytest.approx(problem.optimum, rel=1e-12)


def problems(rows, covariances):
    return {
        "pca": rx.problems.PCA(rows, 3),
        "joint": rx.problems.JointDiagonalization(covariances),
        "joint, rectangular": rx.problems.JointDiagonalization(covariances, 2),
        "centroid": rx.problems.Centroid(covariances),
    }


@pytest.mark.parametrize("name", ["pca", "joint", "joint, rectangular", "centroid"])
def test_closed_form_gradient_agrees_with_autodiff_and_finite_differences(name, rows, covariances):
    problem = problems(rows, covariances)[name]
    assert rx.check_gradient(problem, problem.initial_point(4))
    with jax.enable_x64(True):
        x, batch = jnp.asarray(problem.initial_point(4)), jnp.asarray(problem.data[:9])
        autodiff = problem.manifold.gradient(x, jax.grad(problem.objective.loss)(x, batch))
        np.testing.assert_allclose(problem.objective.gradient(x, batch), autodiff, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["pca", "joint", "joint, rectangular", "centroid"])
def test_full_objective_equals_the_plain_mean(name, rows, covariances):
    problem = problems(rows, covariances)[name]
    with jax.enable_x64(True):
        x, data = jnp.asarray(problem.initial_point(1)), problem.on_device("float64")
        value, gradient = problem.full(data)(x)
        np.testing.assert_allclose(value, problem.objective.loss(x, data), rtol=1e-12)
        np.testing.assert_allclose(gradient, problem.objective.gradient(x, data), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("chunk", [1, 7, 50, 149, 150, 1000])
def test_chunked_mean_does_not_depend_on_the_chunk(chunk, covariances):
    problem = rx.problems.Centroid(covariances)
    with jax.enable_x64(True):
        x, data = jnp.asarray(covariances[0]), problem.on_device("float64")
        value, gradient = SampleMean(problem.objective, chunk, data)(x)
        np.testing.assert_allclose(value, centroid.loss(x, data), rtol=1e-12)
        np.testing.assert_allclose(gradient, centroid.riemannian_gradient(x, data), rtol=1e-9, atol=1e-12)
        chosen = jnp.asarray([5, 1, 70, 33, 2])
        picked = SampleMean(problem.objective, chunk, data, chosen).gradient(x)
        np.testing.assert_allclose(picked, centroid.riemannian_gradient(x, data[chosen]), rtol=1e-9, atol=1e-12)


def test_centroid_gradient_is_finite_where_eigenvalues_repeat():
    matrices = np.stack([np.eye(3), 2 * np.eye(3)])
    with jax.enable_x64(True):
        gradient = centroid.riemannian_gradient(jnp.eye(3), jnp.asarray(matrices))
        np.testing.assert_allclose(gradient, -np.log(2) * np.eye(3), atol=1e-14)


@pytest.mark.parametrize("name", ["pca", "joint", "centroid"])
def test_runs_approach_the_optimum_from_above(name, rows, covariances, nearly_diagonalizable):
    problem, rate = {
        "pca": (rx.problems.PCA(rows, 3), 0.02),
        "joint": (rx.problems.JointDiagonalization(nearly_diagonalizable), 0.01),
        "centroid": (rx.problems.Centroid(covariances), 0.1),
    }[name]
    result = rx.minimize(problem, rx.rsrm(rate), steps=3000, batch_size=5, record=500)
    gap = result.history["gap"]
    assert gap.min() > -1e-12
    assert gap[-1] < 0.02 * gap[0]


def test_float32_problem_stays_float32(rows):
    result = rx.minimize(rx.problems.PCA(rows.astype(np.float32), 2), rx.rsrm(0.05), steps=20)
    assert result.x.dtype == np.float32


def test_gradients_of_pca_at_two_points_at_once():
    generator = np.random.default_rng(5)
    rows = generator.standard_normal((7, 6))
    x, y = (np.linalg.qr(generator.standard_normal((6, 2)))[0] for _ in range(2))
    for point, found in zip((x, y), pca.riemannian_gradients(x, y, rows), strict=True):
        by_hand = (np.eye(6) - point @ point.T) @ (-2 / 7 * rows.T @ rows @ point)
        np.testing.assert_allclose(found, by_hand, atol=1e-14)


def test_a_loss_whose_gradient_calls_python(rows):
    @jax.custom_vjp
    def loss(u, batch):
        return -jnp.mean((batch @ u) ** 2)

    def gradient(kept, g):  # a callback, which says nothing of how it is to be batched
        shape = jax.ShapeDtypeStruct(kept[0].shape, kept[0].dtype)
        return g * jax.pure_callback(lambda u, b: -2 * b.T @ (b @ u) / (len(b) * u.shape[1]), shape, *kept), None

    loss.defvjp(lambda u, batch: (loss(u, batch), (u, batch)), gradient)
    results = [
        rx.minimize(rx.Problem(one, rx.Grassmann(12, 3), rows), rx.rsrm(0.1), steps=20, progress=False).x
        for one in (loss, lambda u, batch: -jnp.mean((batch @ u) ** 2))
    ]
    np.testing.assert_allclose(*results, atol=1e-12)
