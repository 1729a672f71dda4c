"""Joint diagonalization against pyRiemann's Jacobi rotations and by construction; sources found again after mixing."""

import numpy as np
import pytest
from pyriemann.geometry.ajd import rjd
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from retrax.sklearn import JADE, SOBI, JointDiagonalizer

from .of_rows import JointDiagonalizerOfRows


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # noise has no sources to settle on
@parametrize_with_checks([SOBI(), JADE(), JADE(refine=True), SOBI(n_components=1, n_lags=2), JointDiagonalizerOfRows()])
def test_conventions(estimator, check):
    check(estimator)


def amari(product):
    """Amari's distance of a square matrix from a scaled permutation, from 0 to 1 (Amari, Cichocki & Yang 1996)."""
    magnitude = np.abs(product)
    size = len(magnitude)
    rows = np.sum(magnitude / magnitude.max(axis=1, keepdims=True)) - size
    columns = np.sum(magnitude / magnitude.max(axis=0, keepdims=True)) - size
    return (rows + columns) / (2 * size * (size - 1))


def nearly_diagonal(n=30, d=7, noise=0.02):
    generator = np.random.default_rng(0)
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    errors = noise * generator.standard_normal((n, d, d))
    diagonals = generator.uniform(0.5, 3, (n, d))
    return basis, (basis * diagonals[:, None, :]) @ basis.T + (errors + np.swapaxes(errors, 1, 2)) / 2


def objective(matrices, rows):
    return np.sum(np.einsum("ki,nij,kj->nk", rows, matrices, rows) ** 2)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_exactly_diagonalizable_matrices_are_diagonalized(d):
    basis, X = nearly_diagonal(d=d, noise=0.0)
    found = JointDiagonalizer().fit(X)
    turned = found.transform(X)
    np.testing.assert_allclose(turned * (1 - np.eye(d)), 0, atol=1e-9)
    if d > 1:
        assert amari(found.components_ @ basis) < 1e-9
    assert np.all(np.diff(np.diagonal(turned.mean(axis=0))) <= 1e-12)


@pytest.mark.parametrize("n", [10, 200])
def test_the_optimum_is_that_of_pyriemanns_rotations(n):
    X = nearly_diagonal(n, noise=0.3)[1]
    theirs = rjd(X, eps=1e-10, n_iter_max=1000)[0]
    found = JointDiagonalizer().fit(X)
    assert objective(X, found.components_) >= objective(X, theirs.T) * (1 - 1e-9)
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(7), atol=1e-12)


def test_batches_and_weights_make_no_difference():
    X = nearly_diagonal(100, 5, noise=0.1)[1]
    whole = JointDiagonalizer().fit(X).components_
    stream = JointDiagonalizer().fit(iter(np.array_split(X, 9))).components_
    np.testing.assert_allclose(stream, whole, atol=1e-7)
    resumed = JointDiagonalizer().fit(X[:10]).partial_fit(X[10:]).components_
    np.testing.assert_allclose(resumed, whole, atol=1e-7)
    weights = np.random.default_rng(0).integers(0, 3, 100)
    weighted = JointDiagonalizer().fit(X[:12], sample_weight=weights[:12]).components_
    repeated = JointDiagonalizer().fit(np.repeat(X[:12], weights[:12], axis=0)).components_
    np.testing.assert_allclose(weighted, repeated, atol=1e-7)


def sources(n=20_000):
    """Signals of different spectra, none Gaussian."""
    generator = np.random.default_rng(0)
    time = np.arange(n)
    smooth = np.convolve(generator.laplace(size=n), np.ones(9) / 9, mode="same")
    alternating = np.convolve(generator.laplace(size=n), [1, -0.9, 0.8], mode="same")
    return np.stack(
        [np.sin(time / 17), np.sign(np.sin(time / 5)), smooth, alternating, generator.laplace(size=n)], axis=1
    )


@pytest.mark.parametrize("estimator", [SOBI(), JADE(), JADE(refine=True)])
def test_mixed_sources_are_found_again(estimator):
    S = sources()
    mixing = np.random.default_rng(1).standard_normal((5, 5))
    X = S @ mixing.T + 3
    found = estimator.fit(X)
    assert amari(found.components_ @ mixing) < 0.02
    assert amari(found.mixing_.T @ np.linalg.inv(mixing).T) < 0.05
    separated = found.transform(X)
    np.testing.assert_allclose(separated.std(axis=0), 1, rtol=1e-9)
    np.testing.assert_allclose(found.inverse_transform(separated), X, atol=1e-9)
    fewer = type(estimator)(3).fit(X)
    assert fewer.components_.shape == (3, 5)
    assert fewer.get_feature_names_out()[0] == type(estimator).__name__.lower() + "0"


def test_cumulants_are_those_of_their_definition():
    signals = np.random.default_rng(0).laplace(size=(500, 3))
    signals -= signals.mean(axis=0)
    signals = signals @ np.linalg.inv(np.linalg.cholesky(signals.T @ signals / 500)).T
    found = JADE()._statistics(signals)
    expected = np.einsum("ni,nj,nk,nl->ijkl", *[signals] * 4) / 500
    identity = np.eye(3)
    for pairing in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"):
        expected -= np.einsum(pairing, identity, identity)
    for number, (i, j) in enumerate(zip(*np.triu_indices(3), strict=True)):
        np.testing.assert_allclose(found[number], expected[i, j] * (1 if i == j else np.sqrt(2)), atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_refinement_is_ahead_of_one_statistic_for_all(seed):
    """Skewed, heavy-tailed, two-valued and uniform sources: each kind has another best nonlinearity."""
    generator = np.random.default_rng(seed)
    n = 4000
    kinds = [generator.exponential(size=(n, 2)), generator.laplace(size=(n, 2)), generator.standard_t(3, size=(n, 2))]
    S = np.concatenate([*kinds, generator.choice([-1.0, 1], (n, 1)), generator.uniform(-1, 1, (n, 1))], axis=1)
    mixing = generator.standard_normal((8, 8))
    X = S @ mixing.T
    found = JADE(refine=True).fit(X)
    refined, plain = (amari(one.components_ @ mixing) for one in (found, JADE().fit(X)))
    one_for_all = FastICA(whiten="unit-variance", max_iter=1000, random_state=0).fit(X).components_
    assert found.solver_ == "jacobi, fixed-point"
    assert refined < min(plain, amari(one_for_all @ mixing))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JADE(9).fit(sources(100)), "n_components must be an integer from 1 to 5"),
        (lambda: SOBI(n_lags=0).fit(sources(100)), "n_lags must be an integer of at least 1"),
        (lambda: JointDiagonalizer().partial_fit(np.ones((1, 64, 64))), "up to 63 rows"),
        (lambda: JointDiagonalizer().fit(np.arange(8.0).reshape(2, 2, 2)), "symmetric"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_rotations_that_have_not_settled_are_told():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        JointDiagonalizer(max_iter=1).fit(nearly_diagonal(noise=0.3)[1])
