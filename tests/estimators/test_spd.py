"""Means of covariance matrices and what is built on them, against pyRiemann."""

import pickle

import numpy as np
import pyriemann.classification
import pyriemann.tangentspace
import pytest
from pyriemann.geometry import distance, mean
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from retrax.sklearn import MinimumDistanceToMean, SPDMean, TangentSpace

from .of_rows import MinimumDistanceToMeanOfRows, SPDMeanOfRows, TangentSpaceOfRows

METRICS = {"affine-invariant": "riemann", "log-euclidean": "logeuclid", "bures-wasserstein": "wasserstein"}
"""Retrax's names and pyRiemann's."""


@parametrize_with_checks([SPDMeanOfRows(), MinimumDistanceToMeanOfRows(), TangentSpaceOfRows()])
def test_conventions(estimator, check):
    check(estimator)


def matrices(n=60, d=5, condition=20.0, seed=0):
    generator = np.random.default_rng(seed)
    rotations = np.linalg.qr(generator.standard_normal((n, d, d)))[0]
    skew = generator.standard_normal((d, d))
    X = skew @ (rotations * np.geomspace(1 / condition, 1, d)) @ np.swapaxes(rotations, 1, 2) @ skew.T
    return (X + np.swapaxes(X, 1, 2)) / 2


def labelled(n=400, d=4):
    """Two classes that overlap, mixed."""
    generator = np.random.default_rng(3)
    X, y = matrices(n, d), generator.integers(0, 2, n)
    X[y == 1] = matrices(n, d, condition=60.0, seed=1)[y == 1] * 1.5
    return X, np.array(["left", "right"])[y]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_is_pyriemanns(metric, weighted):
    X = matrices()
    weights = np.random.default_rng(1).uniform(0, 2, len(X)) if weighted else None
    arguments = {} if metric == "log-euclidean" else {"tol": 1e-12, "maxiter": 500}
    expected = getattr(mean, f"mean_{METRICS[metric]}")(X, sample_weight=weights, **arguments)
    found = SPDMean(metric).fit(X, sample_weight=weights)
    np.testing.assert_allclose(found.mean_, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert found.solver_ in ("anderson", "logarithms", "fixed-point")


@pytest.mark.parametrize("condition", [1e4, 1e7])
def test_the_mean_of_matrices_far_apart_solves_its_equation(condition):
    X = matrices(30, 3, condition)
    found = SPDMean(max_iter=200).fit(X).mean_
    values, vectors = np.linalg.eigh(found)
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(whitening @ X @ whitening)
    logarithms = (vectors * np.log(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    assert np.linalg.norm(logarithms.mean(axis=0)) < 1e-7


def test_the_mean_does_not_depend_on_coordinates():
    X, A = matrices(), np.random.default_rng(5).standard_normal((5, 5))
    moved = SPDMean().fit(A @ X @ A.T).mean_
    np.testing.assert_allclose(moved, A @ SPDMean().fit(X).mean_ @ A.T, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("metric", METRICS)
def test_one_pass_is_near_the_mean_and_does_not_depend_on_batches(metric):
    X = matrices(1500, 3)
    exact = SPDMean(metric).fit(X).mean_
    stream = SPDMean(metric).fit(iter(np.array_split(X, 11)))
    single = SPDMean(metric)
    for matrix in X[:1000]:
        single.partial_fit(matrix[None])
    single = pickle.loads(pickle.dumps(single)).partial_fit(X[1000:])
    np.testing.assert_array_equal(stream.mean_, single.mean_)
    assert stream.solver_ == "one-pass"
    scatter = np.mean(distance.distance(X, exact, metric=METRICS[metric]) ** 2)
    off = distance.distance(stream.mean_, exact, metric=METRICS[metric])
    assert off < 0.2 * np.sqrt(scatter / len(X))  # a part of the mean's own standard error


@pytest.mark.parametrize("metric", METRICS)
def test_the_classifier_is_pyriemanns(metric):
    X, y = labelled()
    ours = MinimumDistanceToMean(metric).fit(X[:300], y[:300])
    theirs = pyriemann.classification.MDM(metric=METRICS[metric]).fit(X[:300], y[:300])
    np.testing.assert_allclose(ours.transform(X[300:]), theirs.transform(X[300:]), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(ours.predict(X[300:]), theirs.predict(X[300:]))
    np.testing.assert_allclose(ours.predict_proba(X[300:]), theirs.predict_proba(X[300:]), rtol=1e-5, atol=1e-7)


def test_the_classifier_learns_in_one_pass():
    X, y = labelled(3000)
    whole = MinimumDistanceToMean().fit(X, y)
    stream = MinimumDistanceToMean()
    for start in range(0, 3000, 70):
        stream.partial_fit(X[start : start + 70], y[start : start + 70], classes=["left", "right", "rest"])
    assert list(stream.classes_) == ["left", "rest", "right"]
    assert np.mean(stream.predict(X) == whole.predict(X)) > 0.99
    assert np.all(stream.predict_proba(X[:9])[:, 1] == 0)  # nothing of this class has come


@pytest.mark.filterwarnings("ignore:Convergence not reached")
def test_tangent_vectors_are_pyriemanns():
    X = labelled()[0]
    theirs = pyriemann.tangentspace.TangentSpace().fit(X)
    ours = TangentSpace().fit(X)
    np.testing.assert_allclose(ours.reference_, theirs.reference_, atol=1e-5)
    theirs.reference_ = ours.reference_  # pyRiemann's mean has not converged here, as it says
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=1e-6, atol=1e-7)
    for metric in ("affine-invariant", "log-euclidean"):
        ours = TangentSpace(metric).fit(X)
        np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), X, rtol=1e-9, atol=1e-9)
    lengths = np.linalg.norm(ours.transform(X), axis=1)
    np.testing.assert_allclose(lengths, distance.distance_logeuclid(X, ours.reference_), rtol=1e-9)


def test_more_can_come_after_fit():
    X, y = labelled(600)
    found = MinimumDistanceToMean().fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    whole = MinimumDistanceToMean().fit(X, y)
    np.testing.assert_allclose(found.covmeans_, whole.covmeans_, atol=0.05)
    found, whole = SPDMean().fit(X[:300]).partial_fit(X[300:]), SPDMean().fit(X)
    np.testing.assert_allclose(found.mean_, whole.mean_, atol=0.05)


def test_pipelines_and_searches():
    X, y = labelled()
    pipeline = make_pipeline(TangentSpace(), LogisticRegression())
    assert np.mean(cross_val_score(pipeline, X, y, cv=3)) > 0.8
    search = GridSearchCV(MinimumDistanceToMean(), {"metric": list(METRICS)}, cv=2).fit(X, y)
    assert search.best_score_ > 0.6
    names = TangentSpace().fit(X).get_feature_names_out()
    assert len(names) == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: SPDMean("euclid").fit(X), "metric must be one of 'affine-invariant'"),
        (lambda X: SPDMean().fit(X[:, :2]), "shape \\(n_matrices, n_channels, n_channels\\)"),
        (lambda X: SPDMean().fit(X[:, :, ::-1]), "symmetric"),
        (lambda X: SPDMean().fit(np.concatenate([X, -X[:1]])), "matrix 60 is not positive definite"),
        (lambda X: SPDMean().fit(X, sample_weight=np.zeros(60)), "non-zero"),
        (lambda X: SPDMean().mean_, "not fitted"),
        (lambda X: TangentSpace("bures-wasserstein").fit(X), "metric must be one of"),
        (lambda X: MinimumDistanceToMean().partial_fit(X, np.zeros(60)), "classes must be given"),
        (lambda X: MinimumDistanceToMean().partial_fit(X, np.ones(60), [0, 2]), "not among classes"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make(matrices())


def test_a_mean_that_has_not_converged_is_told():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        SPDMean(max_iter=1).fit(matrices())
