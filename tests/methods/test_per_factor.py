"""One smoothness for each factor of a product."""

import jax.numpy as jnp
import numpy as np

import retrax as rx
from retrax.estimators import Estimate
from retrax.scalings import PerFactor
from retrax.typing import Anchored


def test_factors_of_different_scale_both_converge():
    rng = np.random.default_rng(1)
    small, large = rng.standard_normal((2, 2000, 8)) * np.geomspace(3, 0.3, 8)
    large = 30 * large
    problem = rx.Problem(
        lambda x, batch: sum(-jnp.mean(jnp.sum((b @ u) ** 2, axis=1)) for u, b in zip(x, batch, strict=True)),
        rx.Product((rx.Grassmann(8, 2), rx.Grassmann(8, 2))),
        (small, large),
    )

    def gaps(scaling):
        result = rx.minimize(problem, rx.rsrm(scaling=scaling), steps=4000)
        return [_relative_gap(u, b) for u, b in zip(result.x, (small, large), strict=True)]

    assert gaps(None)[0] > 0.05  # the small one waits
    assert max(gaps(PerFactor())) < 2e-3


def _relative_gap(u, samples):
    eigenvalues = np.linalg.eigvalsh(samples.T @ samples / len(samples))
    optimum = eigenvalues[-u.shape[1] :].sum()
    return 1 - np.mean(np.sum((samples @ u) ** 2, axis=1)) / optimum


def test_by_hand_on_two_quadratics():
    """f = 2‖x‖² + 50‖y‖²: smoothness 4 and 100, so that steps along x are 25 times longer than along y, relatively."""
    manifold = rx.Product((rx.Euclidean(2), rx.Euclidean(2)))
    curvatures = 4.0, 100.0
    before = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    scaling = PerFactor()
    memory = scaling.init(manifold, before)

    def gradient(point):
        return tuple(c * part for c, part in zip(curvatures, point, strict=True))

    first, memory = scaling.apply(manifold, before, Estimate(gradient(before), gradient(before)), memory)
    assert all(np.array_equal(a, b) for a, b in zip(first, gradient(before), strict=True))
    here = tuple(part - 1e-3 * v for part, v in zip(before, first, strict=True))
    estimate = Estimate(gradient(here), gradient(here), Anchored(before, gradient(before)), one_step_back=True)
    direction, _ = scaling.apply(manifold, here, estimate, memory)
    expected = np.sqrt((4.0**2 + 100.0**2) / 2)
    for part, plain, curvature in zip(direction, gradient(here), curvatures, strict=True):
        np.testing.assert_allclose(part, expected / curvature * plain, rtol=1e-12)


def test_elsewhere_than_on_a_product_the_direction_stays():
    direction = np.ones(3)
    manifold = rx.Euclidean(3)
    scaled, memory = PerFactor().apply(manifold, direction, Estimate(direction, direction), ())
    assert scaled is direction
    assert memory == PerFactor().init(manifold, direction) == ()
