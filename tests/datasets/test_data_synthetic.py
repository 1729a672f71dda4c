"""The laws of the synthetic generators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrax.datasets import DataError, synthetic


@pytest.mark.parametrize(("make", "shape"), [(synthetic.syn1, (10_000, 100)), (synthetic.syn3, (10_000, 100))])
def test_shapes_and_seeds(make, shape):
    x = make(seed=3)
    assert x.shape == shape
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, make(seed=3))
    assert not np.allclose(x, make(seed=4))


def test_syn2_has_500_dimensions():
    assert synthetic.syn2().shape == (10_000, 500)


def test_global_generator_is_untouched():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    synthetic.syn1()
    synthetic.spd(10)
    np.testing.assert_array_equal(before, np.random.get_state()[1])


@pytest.mark.parametrize(("d", "rank"), [(100, 10), (500, 10), (100, 20), (5, 1)])
def test_gap_spectrum_decays_with_one_real_gap(d, rank):
    values = synthetic.variances(d, rank, "gap")
    ratios = values[:-1] / values[1:]
    assert np.all(ratios > 1)
    assert np.argmax(ratios) == rank - 1
    assert ratios[rank - 1] >= 2.5 - 1e-12
    assert values[0] == 1


def test_sample_covariance_has_the_spectrum_and_the_gap():
    for rank, x in ((10, synthetic.syn1()), (20, synthetic.syn3())):
        sample = np.linalg.eigvalsh(x.T @ x / len(x))[::-1]
        np.testing.assert_allclose(sample, synthetic.variances(100, rank), rtol=0.25)
        assert sample[rank - 1] / sample[rank] > 1.7


def test_exponential_spectrum_is_of_variances():
    np.testing.assert_allclose(synthetic.variances(60, 5, "exponential"), np.exp(-np.arange(60) / 20))
    x = synthetic.pca(200_000, 4, 2, spectrum=[9.0, 4.0, 1.0, 0.0], seed=1)
    np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ x / len(x)), [0, 1, 4, 9], rtol=0.02, atol=1e-12)


def test_samples_are_rotated():
    x = synthetic.pca(20_000, 6, 2, spectrum=[5, 4, 3, 2, 1, 0.5], seed=0)
    correlation = np.corrcoef(x.T) - np.eye(6)
    assert np.abs(correlation).max() > 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_spd_condition_number_is_exact(seed):
    matrices = synthetic.spd(seed=seed)
    assert matrices.shape == (5000, 10, 10)
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    values = np.linalg.eigvalsh(matrices)
    np.testing.assert_allclose(values[:, -1] / values[:, 0], 20, rtol=1e-12)
    np.testing.assert_allclose(values, np.broadcast_to(np.geomspace(1 / 20, 1, 10), values.shape), rtol=1e-12)


def test_spd_mean_is_not_a_multiple_of_the_identity():
    values = np.linalg.eigvalsh(synthetic.spd().mean(axis=0))
    assert values[-1] / values[0] > 1.5


def test_spd_is_seeded():
    np.testing.assert_array_equal(synthetic.spd(20, seed=8), synthetic.spd(20, seed=8))
    assert not np.allclose(synthetic.spd(20, seed=8), synthetic.spd(20, seed=9))


@given(d=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_haar_is_orthogonal(d, seed):
    q = synthetic.haar(d, np.random.default_rng(seed), 3)
    np.testing.assert_allclose(q @ q.transpose(0, 2, 1), np.broadcast_to(np.eye(d), (3, d, d)), atol=1e-12)


def test_haar_has_no_preferred_sign():
    q = synthetic.haar(3, np.random.default_rng(0), 20_000)
    assert np.abs(q.mean(axis=0)).max() < 0.02
    np.testing.assert_allclose((q**2).mean(axis=0), 1 / 3, atol=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: synthetic.pca(10, 5, 5), "rank must be"),
        (lambda: synthetic.pca(0, 5, 2), "at least one sample"),
        (lambda: synthetic.pca(10, 5, 2, spectrum="gab"), "unknown spectrum 'gab'"),
        (lambda: synthetic.pca(10, 5, 2, spectrum=[1, 2, 3]), "5 finite, non-negative variances"),
        (lambda: synthetic.pca(10, 3, 2, spectrum=[1, 2, -3]), "non-negative"),
        (lambda: synthetic.spd(condition=0.5), "condition >= 1"),
    ],
)
def test_mistakes_are_explained(call, words):
    with pytest.raises(DataError, match=words):
        call()
