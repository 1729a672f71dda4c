"""What every estimator keeps: copies, kinds of arrays, data frames, streams of one sample, tiny and bad input."""

import pickle
import subprocess
import sys

import numpy as np
import pyriemann.estimation
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import retrax.manifolds.spd
import retrax.sklearn
from retrax.sklearn import _spd

generator = np.random.default_rng(0)
ROWS = generator.laplace(size=(1000, 4)) @ generator.standard_normal((4, 4)) + 3
VIEW = ROWS[:, :2] + generator.standard_normal((1000, 2))
SIGNALS = generator.standard_normal((1000, 12, 3)) * np.array([1, 2, 0.5])
MATRICES = np.swapaxes(SIGNALS, 1, 2) @ SIGNALS / 12
LABELS = np.arange(1000) % 2
PLACES = np.stack(np.divmod(generator.permutation(40 * 40)[:1000], 40), axis=1)
ENTRIES = 3 + np.sin(PLACES[:, 0]) * np.cos(PLACES[:, 1])

ESTIMATORS = {
    "PCA": (retrax.sklearn.PCA(2), (ROWS,)),
    "CCA": (retrax.sklearn.CCA(2), (ROWS, VIEW)),
    "SPDMean": (retrax.sklearn.SPDMean(), (MATRICES,)),
    "MinimumDistanceToMean": (retrax.sklearn.MinimumDistanceToMean(), (MATRICES, LABELS)),
    "TangentSpace": (retrax.sklearn.TangentSpace(), (MATRICES,)),
    "JointDiagonalizer": (retrax.sklearn.JointDiagonalizer(), (MATRICES,)),
    "SOBI": (retrax.sklearn.SOBI(n_lags=5), (ROWS,)),
    "JADE": (retrax.sklearn.JADE(), (ROWS,)),
    "MatrixCompletion": (retrax.sklearn.MatrixCompletion(2, random_state=0), (PLACES, ENTRIES)),
}
STREAMS = [name for name, (estimator, _) in ESTIMATORS.items() if hasattr(estimator, "partial_fit")]


def results(estimator, X):
    """What an estimator gives for data, by whatever method it has for that."""
    methods = [name for name in ("transform", "predict", "predict_proba") if hasattr(estimator, name)]
    return [np.asarray(getattr(estimator, name)(X)) for name in methods] or [estimator.mean_]


def assert_same(first, second, tolerance=0.0):
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_all_are_here():
    assert set(ESTIMATORS) == set(retrax.sklearn.__all__)
    assert tuple(retrax.manifolds.spd.METRICS) == _spd.METRICS


def test_importing_them_does_not_load_jax():
    command = [sys.executable, "-c", "import retrax.sklearn, sys; sys.exit('jax' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_copies(name):
    estimator, data = ESTIMATORS[name]
    fitted = clone(estimator).fit(*data)
    expected = results(fitted, data[0])
    assert_same(results(pickle.loads(pickle.dumps(fitted)), data[0]), expected)
    fresh = clone(fitted)
    assert fresh.get_params() == estimator.get_params()
    assert not [one for one in vars(fresh) if one.endswith("_")]
    assert_same(results(fresh.fit(*data), data[0]), expected)  # the same random_state, the same result
    assert isinstance(fitted.solver_, str)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("library", ["torch", "jax", "array_api_strict"])
def test_arrays_of_other_libraries(name, library):
    """In a process of its own, where SciPy was told before it was loaded, results are of the library given."""
    xp = pytest.importorskip("jax.numpy" if library == "jax" else library)
    estimator, data = ESTIMATORS[name]
    if library != "array_api_strict":  # which NumPy does not read
        expected = results(clone(estimator).fit(*[np.asarray(xp.asarray(one)) for one in data]), data[0])
        found = clone(estimator).fit(*[xp.asarray(one) for one in data])
        assert_same(results(found, xp.asarray(data[0])), expected, 1e-12 if library == "torch" else 1e-4)


DISPATCH = """
import numpy as np, torch, array_api_strict, sklearn, warnings
warnings.simplefilter("ignore")
from sklearn.base import clone
from tests.estimators.test_all import ESTIMATORS
for xp in (torch, array_api_strict):
    for name, (estimator, data) in ESTIMATORS.items():
        given = [xp.asarray(one) for one in data]
        with sklearn.config_context(array_api_dispatch=True):
            found = clone(estimator).fit(*given)
            methods = [one for one in ("transform", "predict", "predict_proba") if hasattr(found, one)]
            results = [getattr(found, one)(given[0]) for one in methods]
        plain = clone(estimator).fit(*data)
        for method, result in zip(methods, results, strict=True):
            assert type(result) is type(given[0]), (name, method, type(result))
            np.testing.assert_allclose(np.asarray(result), getattr(plain, method)(data[0]), rtol=1e-9, atol=1e-9)
"""


def test_results_are_of_the_library_given_where_scikit_learn_dispatches():
    environment = {"SCIPY_ARRAY_API": "1", "PYTHONPATH": ":".join(sys.path)}
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", DISPATCH], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", ["PCA", "CCA", "SOBI", "JADE"])
def test_data_frames_in_and_out(name):
    pandas = pytest.importorskip("pandas")
    estimator, data = ESTIMATORS[name]
    frame = pandas.DataFrame(data[0], columns=list("abcd"))
    found = clone(estimator).set_output(transform="pandas").fit(frame, *data[1:])
    assert list(found.feature_names_in_) == list("abcd")
    scores = found.transform(frame)
    assert list(scores.columns) == list(found.get_feature_names_out())
    assert scores.columns[0] == name.lower() + "0"
    np.testing.assert_allclose(scores, clone(estimator).fit(*data).transform(data[0]), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        found.transform(frame[list("dcba")])


def test_tangent_vectors_as_a_data_frame():
    pytest.importorskip("pandas")
    vectors = retrax.sklearn.TangentSpace().set_output(transform="pandas").fit_transform(MATRICES)
    assert list(vectors.columns) == [f"tangentspace{number}" for number in range(6)]


@pytest.mark.parametrize("name", STREAMS)
def test_a_thousand_samples_one_by_one_are_one_call_with_a_thousand(name):
    """To rounding: rows that are summed up differ in the order of sums only, blocks of one length in nothing."""
    estimator, data = ESTIMATORS[name]
    more = {"classes": [0, 1]} if name == "MinimumDistanceToMean" else {}
    single, whole = clone(estimator), clone(estimator).partial_fit(*data, **more)
    for number in range(1000):
        single.partial_fit(*[one[number : number + 1] for one in data], **more)
    assert_same(results(single, data[0][:50]), results(whole, data[0][:50]), 1e-9)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if hasattr(ESTIMATORS[name][0], "max_iter")])
def test_what_has_not_converged_is_told(name):
    estimator, data = ESTIMATORS[name]
    tight = clone(estimator).set_params(max_iter=1, tol=1e-15)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        tight.fit(*data)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("PCA", {"n_components": [1, 2]}),
        ("CCA", {"reg": [0.0, 0.1]}),
        ("MinimumDistanceToMean", {"metric": ["affine-invariant", "log-euclidean"]}),
        ("MatrixCompletion", {"reg": [1e-3, 10.0]}),
    ],
)
def test_searches(name, grid):
    estimator, data = ESTIMATORS[name]
    search = GridSearchCV(clone(estimator), grid, cv=2, error_score="raise").fit(*data)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_pipelines_with_pyriemann():
    signals, labels = np.swapaxes(SIGNALS, 1, 2).copy(), LABELS
    signals[labels == 1, 0] *= 3
    classifiers = (
        make_pipeline(pyriemann.estimation.Covariances("lwf"), retrax.sklearn.MinimumDistanceToMean()),
        make_pipeline(pyriemann.estimation.Covariances("lwf"), retrax.sklearn.TangentSpace(), LogisticRegression()),
    )
    for classifier in classifiers:
        assert classifier.fit(signals[:500], labels[:500]).score(signals[500:], labels[500:]) > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_not_a_number_is_refused(name):
    estimator, data = ESTIMATORS[name]
    bad = [one.astype(float) for one in data[:1]]
    bad[0][7].flat[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        clone(estimator).fit(*bad, *data[1:])
    fitted = clone(estimator).fit(*data)
    for method in ("transform", "predict"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match="NaN"):
                getattr(fitted, method)(bad[0])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_smallest_input_is_solved_or_refused_in_words(name):
    """One column or channel, and one sample where one can do."""
    estimator, data = ESTIMATORS[name]
    if "n_components" in estimator.get_params():
        estimator = clone(estimator).set_params(n_components=1)
    narrow = data[0] if name == "MatrixCompletion" else data[0][:, :1, :1] if data[0].ndim == 3 else data[0][:, :1]
    others = [one[:, :1] if one.ndim == 2 else one for one in data[1:]]
    assert all(np.all(np.isfinite(one)) for one in results(clone(estimator).fit(narrow, *others), narrow))
    one_sample = [part[:1] for part in data]
    if name in ("CCA", "SOBI", "JADE"):
        with pytest.raises(ValueError, match="minimum of 2"):
            clone(estimator).fit(*one_sample)
    else:
        assert all(np.all(np.isfinite(one)) for one in results(clone(estimator).fit(*one_sample), one_sample[0]))
