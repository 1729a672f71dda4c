"""Canonical correlations against scikit-learn's CCA and a plain singular value decomposition."""

import numpy as np
import pytest
import sklearn.cross_decomposition
from sklearn.utils.estimator_checks import parametrize_with_checks

from retrax.sklearn import CCA


@parametrize_with_checks([CCA(n_components=1)])
def test_conventions(estimator, check):
    check(estimator)


def views(n=600):
    generator = np.random.default_rng(0)
    common = generator.standard_normal((n, 3)) * [2, 1, 0.6]
    X = common @ generator.standard_normal((3, 6)) + generator.standard_normal((n, 6)) + 5
    Y = common @ generator.standard_normal((3, 4)) + generator.standard_normal((n, 4)) - 2
    return X, Y


def test_correlations_are_those_of_orthonormal_bases():
    X, Y = views()
    found = CCA(4).fit(X, Y)
    bases = [np.linalg.qr(part - part.mean(axis=0))[0] for part in (X, Y)]
    np.testing.assert_allclose(found.correlations_, np.linalg.svd(bases[0].T @ bases[1])[1], atol=1e-10)
    scores = found.transform(X, Y)
    for one in scores:
        np.testing.assert_allclose(np.cov(one.T), np.eye(4), atol=1e-9)
    products = scores[0].T @ scores[1] / (len(X) - 1)
    np.testing.assert_allclose(products, np.diag(found.correlations_), atol=1e-9)
    assert found.score(X, Y) == pytest.approx(found.correlations_.mean())


def test_scores_are_scikit_learns():
    X, Y = views()
    theirs = sklearn.cross_decomposition.CCA(2, max_iter=5000, tol=1e-12).fit(X, Y).transform(X, Y)
    for ours, expected in zip(CCA(2).fit_transform(X, Y), theirs, strict=True):
        for column in range(2):
            assert abs(np.corrcoef(ours[:, column], expected[:, column])[0, 1]) > 1 - 1e-6


def test_batches_make_no_difference():
    X, Y = views()
    whole = CCA(2, reg=1e-3).fit(X, Y)
    parts = zip(np.array_split(X, 7), np.array_split(Y, 7), strict=True)
    stream = CCA(2, reg=1e-3).fit(parts)
    single = CCA(2, reg=1e-3)
    for row, target in zip(X, Y, strict=True):
        single.partial_fit(row[None], target[None])
    for found in (stream, single):
        np.testing.assert_array_equal(found.x_rotations_, whole.x_rotations_)
        np.testing.assert_array_equal(found.correlations_, whole.correlations_)
    assert single.n_samples_seen_ == 600


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, Y: CCA(5).fit(X, Y), "n_components must be an integer from 1 to 4"),
        (lambda X, Y: CCA(1).fit(iter([])), "without a single pair"),
        (lambda X, Y: CCA(1).fit(iter([X])), "iterable of pairs"),
        (lambda X, Y: CCA(1).partial_fit(X, Y).partial_fit(X, Y[:, :2]), "y has 2 columns"),
        (lambda X, Y: CCA(1).correlations_, "not fitted"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make(*views())
