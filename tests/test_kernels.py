"""Small matrices in kernels of our own, against LAPACK, SciPy and exactly known spectra."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from retrax import _jacobi, _kernel, _linalg, _triangular

SIZES = [1, 2, 3, 5, 8, 11, 16]


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def orthogonal(generator, *shape):
    return np.linalg.qr(generator.standard_normal(shape))[0]


def with_spectrum(values, seed=0):
    """Symmetric matrices with given eigenvalues (the last axis) and random eigenvectors."""
    values = np.asarray(values, dtype=float)
    vectors = orthogonal(np.random.default_rng(seed), *values.shape, values.shape[-1])
    return (vectors * values[..., None, :]) @ vectors.mT


def kernel(function, *arguments):
    """A kernel's result, as NumPy arrays."""
    return jax.tree.map(np.asarray, jax.jit(functools.partial(_kernel.in_one_kernel, function))(*arguments))


def eigh(a):
    return tuple(np.asarray(result) for result in jax.jit(_jacobi.positive_eigh)(jnp.asarray(a)))


def assert_solves(a, values, vectors, tolerance):
    eye = np.eye(a.shape[-1])
    assert np.max(np.abs(vectors.mT @ vectors - eye)) <= tolerance
    scale = np.max(np.abs(a), axis=(-2, -1), keepdims=True)
    assert np.max(np.abs((vectors * values[..., None, :]) @ vectors.mT - a) / scale) <= tolerance


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 7), (41,)], ids=str)
def test_eigenproblems_of_any_number_of_matrices(n, leading):
    spectra = np.exp(np.random.default_rng(n).standard_normal((*leading, n)))
    a = with_spectrum(spectra)
    values, vectors = eigh(a)
    assert_solves(a, values, vectors, 3e-15 * n)
    np.testing.assert_allclose(np.sort(values), np.sort(spectra), rtol=1e-14 * n)


def test_single_precision():
    spectra = np.exp(np.random.default_rng(0).standard_normal((5, 10)))
    a = with_spectrum(spectra).astype(np.float32)
    values, vectors = eigh(a)
    assert values.dtype == vectors.dtype == np.float32
    assert_solves(a.astype(float), values.astype(float), vectors.astype(float), 5e-6)


@pytest.mark.parametrize("spread", [0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
def test_clustered_eigenvalues_are_told_apart(spread):
    """A sweep over almost orthogonal columns turns them by large angles, and is not the last."""
    spectra = 1 + spread * np.random.default_rng(1).standard_normal((6, 7))
    a = with_spectrum(spectra)
    assert_solves(a, *eigh(a), 1e-14)


def test_small_eigenvalues_of_a_graded_matrix_keep_all_their_digits():
    """D M D with D from 1 to 1e-8 and a well-conditioned M: LAPACK's absolute errors would exceed the smallest."""
    core = with_spectrum(np.linspace(1, 3, 6))
    grades = np.geomspace(1, 1e-8, 6)
    a = grades[:, None] * core * grades
    exact = np.sort(1 / scipy.linalg.eigvalsh(np.linalg.inv(core) / grades[:, None] / grades))[:2]
    np.testing.assert_allclose(np.sort(eigh(a)[0])[:2], exact, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_scale_does_not_matter(scale):
    a = with_spectrum(np.linspace(1, 3, 6))
    np.testing.assert_allclose(eigh(scale * a)[0], scale * eigh(a)[0], rtol=1e-14)


def test_a_lane_that_is_not_a_number_leaves_the_others_alone():
    a = with_spectrum(np.exp(np.random.default_rng(2).standard_normal((6, 4))))
    values, vectors = eigh(a)
    spoilt = a.copy()
    spoilt[2] = np.nan
    found = eigh(spoilt)
    assert np.all(np.isnan(found[0][2]))
    others = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(found[0][others], values[others], rtol=1e-14)
    np.testing.assert_allclose(found[1][others], vectors[others], atol=1e-14)


def test_mapped_over_axes_it_solves_the_same_problems():
    a = with_spectrum(np.exp(np.random.default_rng(3).standard_normal((3, 4, 5))))
    values, vectors = jax.jit(jax.vmap(jax.vmap(_jacobi.positive_eigh), in_axes=1, out_axes=1))(a)
    assert_solves(a, np.asarray(values), np.asarray(vectors), 1e-14)


@pytest.mark.parametrize("n", SIZES)
def test_factors_and_inverses(n):
    a = with_spectrum(np.geomspace(1, 1e-4, n) * np.ones((3, n)))
    lower = kernel(_triangular.cholesky, a)
    np.testing.assert_allclose(lower, np.linalg.cholesky(a), rtol=0, atol=1e-12)
    np.testing.assert_allclose(lower @ lower.mT, a, rtol=0, atol=1e-15 * n)
    inverse = kernel(_triangular.inverse_of_lower, lower)
    np.testing.assert_allclose(inverse @ lower, np.broadcast_to(np.eye(n), a.shape), rtol=0, atol=1e-12)
    assert np.all(np.triu(inverse, 1) == 0)


@pytest.mark.parametrize("many", [1, 5, 2 * _kernel.MOST_ENTRIES // 9])
@pytest.mark.parametrize("function", [_linalg.cholesky, _linalg.inverse_of_lower])
def test_one_by_one_together_mapped_and_eagerly(function, many):
    """Too many for a kernel go to LAPACK, also where `vmap` hides their number."""
    a = with_spectrum(np.exp(np.random.default_rng(4).standard_normal((many, 3))))
    start = jnp.asarray(np.linalg.cholesky(a) if function is _linalg.inverse_of_lower else a)
    expected = np.linalg.inv(start) if function is _linalg.inverse_of_lower else np.linalg.cholesky(a)
    for found in (function(start), jax.jit(function)(start), jax.jit(jax.vmap(function))(start)):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_an_indefinite_matrix_has_no_factor():
    assert np.isnan(kernel(_triangular.cholesky, np.diag([1.0, -1.0, 2.0]))).any()


def test_a_matrix_that_rounding_made_indefinite_has_one_close_by():
    a = with_spectrum([1, 0.5, -1e-17, -2e-17])
    lower = kernel(functools.partial(_triangular.cholesky, least_pivot=2.0**-52), a)
    np.testing.assert_allclose(lower @ lower.mT, a, rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [1e-12, 1e-3, 0.49, 0.51, 3.0, 40.0])
@pytest.mark.parametrize("n", [1, 4, 10, 30])
def test_the_exponential(n, size):
    a = with_spectrum(size * np.linspace(-1, 0.7, n))
    found, expected = np.asarray(jax.jit(_linalg.symmetric_exp)(a)), scipy.linalg.expm(a)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15 * n * (1 + 4 * size) * np.max(np.abs(expected)))


def test_the_exponential_of_a_batch_with_one_diverged_member():
    a = np.stack([with_spectrum([20.0, -1, 3]), np.full((3, 3), np.nan), np.full((3, 3), np.inf), np.zeros((3, 3))])
    found = np.asarray(jax.jit(_linalg.symmetric_exp)(a))
    np.testing.assert_allclose(found[0], scipy.linalg.expm(a[0]), rtol=1e-12)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[3], np.eye(3))


def test_derivatives_come_from_the_other_way():
    a, e = with_spectrum([1.0, 2, 4]), with_spectrum([0.3, -0.2, 0.1], seed=1)
    for function in (_linalg.cholesky, _linalg.symmetric_log, _linalg.symmetric_exp, _linalg.inverse_of_lower):
        start = np.linalg.cholesky(a) if function is _linalg.inverse_of_lower else a
        _, found = jax.jit(lambda p, t, f=function: jax.jvp(f, (p,), (t,)))(start, e)
        step = 1e-6
        finite = (function(jnp.asarray(start + step * e)) - function(jnp.asarray(start - step * e))) / (2 * step)
        np.testing.assert_allclose(found, finite, rtol=0, atol=1e-7)
        gradient = jax.jit(jax.grad(lambda p, f=function: jnp.sum(f(p) ** 2)))(start)
        assert np.all(np.isfinite(gradient))
