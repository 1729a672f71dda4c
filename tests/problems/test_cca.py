"""Canonical correlations against scikit-learn's covariances and NumPy, of finite data and of a stream."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.problems import cca


@pytest.fixture(scope="module")
def views():
    """Two views with three common factors among noise."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=(1500, 3))
    x = common @ generator.normal(size=(3, 8)) + generator.normal(size=(1500, 8)) + 5
    y = common @ generator.normal(size=(3, 6)) + generator.normal(size=(1500, 6)) - 1
    return x, y


def exact(x, y, rank):
    """By the eigenvalues of C_xx⁻¹ C_xy C_yy⁻¹ C_yx, whose roots the correlations are."""
    covariance = np.cov(x.T, y.T, bias=True)
    p = x.shape[1]
    product = np.linalg.solve(covariance[:p, :p], covariance[:p, p:])
    product = product @ np.linalg.solve(covariance[p:, p:], covariance[p:, :p])
    return np.sqrt(np.sort(np.linalg.eigvals(product).real)[::-1][:rank])


def test_optimum_and_solution(views):
    problem = rx.problems.CCA(*views, 3, ridge=0.0)
    expected = exact(*views, 3)
    assert problem.optimum == pytest.approx(-expected.sum(), rel=1e-10)
    np.testing.assert_allclose(problem.correlations(problem.solution), expected, rtol=1e-10)
    problem.manifold.check_point(problem.solution)
    assert float(cca.loss(problem.solution, problem.data)) == pytest.approx(problem.optimum, rel=1e-10)


def test_gradient_is_that_of_automatic_differentiation(views):
    problem = rx.problems.CCA(*views, 2)
    with jax.enable_x64(True):
        point = jax.tree.map(jnp.asarray, problem.initial_point(1))
        batch = jax.tree.map(lambda a: jnp.asarray(a[:50]), problem.data)
        automatic = jax.jit(jax.grad(cca.loss))(point, batch)
        ours = cca.ambient_gradient(point, batch)
    for view in ("x", "y"):
        np.testing.assert_allclose(ours[view], automatic[view], atol=1e-13)


def test_running_moments_are_those_of_all_samples(views):
    x, y = views
    moments = cca.ViewMoments((8, 6))
    for part in np.array_split(np.arange(1500), 7):
        moments.add(x[part], y[part])
    xx, yy, xy = moments.covariances(0.0)
    expected = np.cov(x.T, y.T, bias=True)
    np.testing.assert_allclose(np.block([[xx, xy], [xy.T, yy]]), expected, atol=1e-12)


def test_one_pass_over_a_stream(views):
    x, y = views
    parts = np.array_split(np.arange(1500), 30)
    point, moments = cca.follow(((x[part], y[part]) for part in parts), 3)
    found = cca.correlations_of(moments, point["x"][:, :3], point["y"][:, :3])
    assert found.sum() >= 0.999 * exact(x, y, 3).sum()
    for view, d in (("x", 8), ("y", 6)):
        rx.GeneralizedStiefel(d, 3).check_point(point[view])


def test_refusals(views):
    x, y = views
    with pytest.raises(ValueError, match="X has 1500 and Y 1499"):
        rx.problems.CCA(x, y[1:], 2)
    with pytest.raises(ValueError, match="rank"):
        rx.problems.CCA(x, y, 7)
    with pytest.raises(ValueError, match="no samples"):
        cca.follow([], 2)
    with pytest.raises(ValueError, match="NaN"):
        cca.ViewMoments((8, 6)).add(x * np.nan, y)
