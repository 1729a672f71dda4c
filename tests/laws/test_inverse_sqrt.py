"""s^(-1/2) in compiled programs: by polynomials near the identity, by Newton-Schulz elsewhere, always to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from retrax import _linalg

EPSILON = {dtype: float(np.finfo(dtype).eps) for dtype in ("float32", "float64")}


def matrix(distance, r, seed=0):
    """I + E with ‖E‖ = distance, E of both signs."""
    generator = np.random.default_rng(seed)
    q = np.linalg.qr(generator.standard_normal((r, r)))[0]
    values = distance * np.linspace(-0.5, 1, r)
    return np.eye(r) + (q * values) @ q.T


def exact(s):
    values, vectors = np.linalg.eigh(s)
    return (vectors / np.sqrt(values)) @ vectors.T


def distances(dtype):
    """On either side of where one way gives way to the next; the row sums of E are up to √r times its norm."""
    ends = [_linalg._reach_of_series(degree, EPSILON[dtype]) for degree in _linalg._DEGREES]
    return [0.0, *(factor * end for end in ends for factor in (0.05, 0.4, 0.999, 1.001, 3)), 0.9, 100.0, 1e6]


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("r", [1, 4, 10])
def test_it_is_exact_to_rounding_at_every_distance(dtype, r):
    with jax.enable_x64(dtype == "float64"):
        for distance in distances(dtype):
            s = matrix(distance, r) if distance < 1 else np.diag(np.linspace(1, distance, r))
            found = jax.jit(_linalg.inverse_sqrt)(jnp.asarray(s, dtype))
            given = np.asarray(jnp.asarray(s, dtype), dtype=float)
            np.testing.assert_allclose(found, exact(given), rtol=0, atol=8 * r * EPSILON[dtype], err_msg=f"{distance}")


@pytest.mark.parametrize("degree", _linalg._DEGREES)
def test_the_polynomials_are_the_binomial_series(degree):
    """At a distance where all their terms count, they are the series of (1 + e)^(-1/2) to their degree."""
    e, term, expected = 0.3, 1.0, 0.0
    for k in range(degree + 1):
        expected += term
        term *= e * (-1 / 2 - k) / (k + 1)
    with jax.enable_x64(True):
        found = _linalg._series_for_inverse_sqrt(degree, jnp.asarray([[1 + e]]))
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", EPSILON)
def test_their_reach_leaves_less_than_rounding(dtype):
    """Summed up, what is left out is below half a unit, and at three times the distance it no longer is."""
    for degree in _linalg._DEGREES:
        end = _linalg._reach_of_series(degree, EPSILON[dtype])
        left = []
        for e in (-end, -3 * end):
            term, total = 1.0, 0.0
            for k in range(200):
                total += term if k > degree else 0
                term *= e * (-1 / 2 - k) / (k + 1)
            left.append(total)
        assert left[0] < EPSILON[dtype] / 2 < left[1]


def test_several_at_once_and_under_vmap():
    """One of them far away: all take the long way, and each is as exact as alone."""
    stack = np.stack([matrix(distance, 5, seed) for seed, distance in enumerate([0.0, 1e-3, 0.5])])
    with jax.enable_x64(True):
        for function in (_linalg.inverse_sqrt, jax.vmap(_linalg.inverse_sqrt)):
            found = jax.jit(function)(jnp.asarray(stack))
            np.testing.assert_allclose(found, [exact(s) for s in stack], rtol=0, atol=1e-14)


def test_its_derivative_is_that_of_the_exact_one():
    s, direction = matrix(1e-3, 4), matrix(1.0, 4, seed=1)
    with jax.enable_x64(True):
        _, found = jax.jvp(_linalg.inverse_sqrt, (jnp.asarray(s),), (jnp.asarray(direction),))
    step = 1e-5
    expected = (exact(s + step * direction) - exact(s - step * direction)) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_what_is_not_a_number_stays_none_and_harms_no_other():
    stack = np.stack([np.full((3, 3), np.nan), matrix(0.5, 3), matrix(1e-3, 3)])
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(_linalg.inverse_sqrt)(jnp.asarray(stack)))
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1:], [exact(s) for s in stack[1:]], rtol=0, atol=1e-14)
