"""PCA on arrays, files and streams, against scikit-learn's own PCA and plain NumPy."""

import pickle

import numpy as np
import pytest
import sklearn.decomposition
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from retrax.sklearn import PCA


@parametrize_with_checks([PCA(), PCA(n_components=1, whiten=True, solver="covariance")])
def test_conventions(estimator, check):
    check(estimator)


def rows(n=900, d=12, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal((n, d)) * np.geomspace(3, 0.3, d) + np.arange(d)).astype(dtype)


ATTRIBUTES = ("mean_", "components_", "explained_variance_", "explained_variance_ratio_", "singular_values_")


@pytest.mark.parametrize("shape", [(900, 12), (7, 12)])
@pytest.mark.parametrize("whiten", [False, True])
def test_is_scikit_learns_model(shape, whiten):
    X = rows(*shape)
    ours = PCA(4, whiten=whiten).fit(X)
    theirs = sklearn.decomposition.PCA(4, whiten=whiten, svd_solver="full").fit(X)
    assert ours.solver_ == ("covariance" if len(X) > 12 else "svd")
    for name in ATTRIBUTES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9, err_msg=name)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-9)
    scores = ours.transform(X)
    np.testing.assert_allclose(scores, theirs.transform(X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.inverse_transform(scores), theirs.inverse_transform(scores), rtol=1e-7, atol=1e-9)
    # The model of the data is the same with whitening, which is of the scores; scikit-learn's then scales it twice.
    theirs = sklearn.decomposition.PCA(4, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.get_precision(), theirs.get_precision(), rtol=1e-7, atol=1e-7)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-9)


def test_files_streams_and_loaders_give_the_model_of_the_array(tmp_path):
    X = rows(dtype=np.float32)
    np.save(tmp_path / "rows.npy", X)
    torch = pytest.importorskip("torch")
    tensors = torch.utils.data.TensorDataset(torch.as_tensor(X), torch.arange(len(X)))
    ways = {
        "file": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "generator": (part for part in np.array_split(X, 7)),
        "list": np.array_split(X, 5),
        "loader": torch.utils.data.DataLoader(tensors, batch_size=64),
    }
    expected = PCA(3).fit(X)
    for name, data in ways.items():
        found = PCA(3).fit(data)
        assert found.n_samples_seen_ == len(X)
        np.testing.assert_array_equal(found.components_, expected.components_, err_msg=name)
    assert expected.components_.dtype == np.float32


def test_small_integers_are_as_good_as_numbers():
    X = np.random.default_rng(0).integers(0, 255, (500, 6)).astype(np.uint8)
    found, expected = PCA(2).fit(X), sklearn.decomposition.PCA(2).fit(X)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-4)
    assert found.components_.dtype == np.float64


def test_a_large_mean_does_not_cancel():
    X = rows() + 1e7
    found = PCA(3).fit(X)
    np.testing.assert_allclose(found.explained_variance_, PCA(3).fit(rows()).explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("solver", ["covariance", "rsrm"])
def test_how_rows_are_handed_over_makes_no_difference(solver):
    X = rows(4300)
    at_once = PCA(3, solver=solver, random_state=0).partial_fit(X)
    bit_by_bit = PCA(3, solver=solver, random_state=0)
    for row in X[:1000]:
        bit_by_bit.partial_fit(row[None])
    bit_by_bit.partial_fit(X[1000 : 1000 + 777])
    bit_by_bit = pickle.loads(pickle.dumps(bit_by_bit))  # a run is kept in it
    assert bit_by_bit.components_.shape == (3, 12)  # looking changes nothing
    bit_by_bit.partial_fit(X[1777:])
    for name in ATTRIBUTES:
        np.testing.assert_allclose(getattr(bit_by_bit, name), getattr(at_once, name), rtol=1e-12, atol=1e-13)


def test_one_pass_of_the_stochastic_solver_is_nearly_as_good():
    X = rows(30_000)
    held_out = rows(5000, seed=1)
    found = PCA(3, solver="rsrm", random_state=0).fit(X)
    exact = sklearn.decomposition.PCA(3).fit(X)
    explained = np.sum(found.transform(held_out) ** 2) / np.sum(exact.transform(held_out) ** 2)
    assert explained > 0.995
    np.testing.assert_allclose(found.explained_variance_, exact.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(found.mean_, exact.mean_, atol=1e-10)
    assert found.noise_variance_ == pytest.approx(exact.noise_variance_, rel=0.05)


def test_no_compilation_after_the_first_blocks():
    import jax

    X = rows(6000)
    found = PCA(3, solver="rsrm").partial_fit(X[:3000])
    seen = []
    listener = lambda event, seconds, **_: seen.append(event) if "compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        for part in np.array_split(X[3000:], 40):
            found.partial_fit(part)
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert found.n_samples_seen_ == 6000
    assert seen == []


def test_sample_weights_count_rows():
    X = rows(300)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    expected = PCA(3).fit(np.repeat(X, weights, axis=0))
    found = PCA(3).partial_fit(X[:100], sample_weight=weights[:100]).partial_fit(X[100:], sample_weight=weights[100:])
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-9)


def test_the_solver_is_chosen_by_size():
    def solver(n, d, components):
        data = iter([np.zeros((2, d))]) if n is None else np.zeros((n, d))
        return PCA(components).partial_fit(next(data)).solver_ if n is None else PCA(components).fit(data).solver_

    assert solver(10, 50, 2) == "svd"
    assert solver(60, 50, 2) == "covariance"
    assert solver(None, 50, 2) == "covariance"
    assert solver(None, 2000, 40) == "covariance"
    assert solver(None, 2000, 2) == "rsrm"
    assert solver(None, 5000, 100) == "rsrm"


def test_more_can_come_after_fit():
    X = rows(40, 50)
    found = PCA(3).fit(X[:30])
    assert found.solver_ == "svd"
    found.partial_fit(X[30:])
    np.testing.assert_allclose(found.components_, PCA(3).fit(X).components_, rtol=1e-9, atol=1e-9)


def test_search_and_clone():
    search = GridSearchCV(PCA(), {"n_components": [1, 3]}, cv=2).fit(rows())
    assert search.best_params_ == {"n_components": 3}
    assert clone(PCA(2, solver="rsrm")).get_params()["solver"] == "rsrm"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PCA(13).fit(rows()), "n_components must be an integer from 1 to 12, not 13"),
        (lambda: PCA(solver="fast").fit(rows()), "solver must be one of 'auto', 'svd'"),
        (lambda: PCA(solver="rsrm").fit(rows()), "set n_components"),
        (lambda: PCA(2, solver="svd").partial_fit(rows()), "needs fit"),
        (lambda: PCA(2).fit(iter([])), "without a single batch"),
        (lambda: PCA(2).fit(iter([rows()]), sample_weight=np.ones(900)), "partial_fit"),
        (lambda: PCA(2).partial_fit(rows()).partial_fit(rows(d=3)), "3 features"),
        (lambda: PCA(2).partial_fit(rows()).partial_fit(rows() * np.nan), "NaN"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
