"""Matrix completion: a matrix of low rank is found again; scikit-learn's checks run with rows made into places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import retrax as rx
from retrax.sklearn import MatrixCompletion


class CompletionOfRows(MatrixCompletion):
    """The first and the last number of a row, rounded, as a place: scikit-learn's checks make rows of any length."""

    def _places(self, X):
        return np.round(X[:, 0], 1), np.round(X[:, -1], 1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [CompletionOfRows(n_components=1, random_state=0)],
)
def test_conventions(estimator, check):
    check(estimator)


def low_rank(rows=40, columns=30, rank=2, seed=0):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((rows, rank)) @ generator.standard_normal((rank, columns)) + 3
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1).reshape(-1, 2)
    order = generator.permutation(len(places))
    return places[order], matrix.reshape(-1)[order]


def test_entries_left_out_are_found():
    X, y = low_rank()
    model = MatrixCompletion(4, reg=1e-3, max_iter=1000, tol=1e-6, random_state=0).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > 0.98


def test_it_is_where_the_problem_on_the_manifold_has_its_minimum():
    X, y = low_rank(8, 6)
    known = X[:30], y[:30]
    arguments = {"offset_reg": (3.0, 2.0), "max_iter": 20_000, "tol": 1e-15, "random_state": 0}
    model = MatrixCompletion(2, reg=0.5, **arguments).fit(*known)
    problem = rx.problems.MatrixCompletion(
        *X[:30].T, y[:30], 2, shape=(8, 6), regularization=0.5, bias_regularization=(3.0, 2.0)
    )
    left, values, right = np.linalg.svd(model.row_factors_ @ model.column_factors_.T)
    x = np.concatenate([left[:, :2], np.diag(values[:2]), right[:2].T])
    np.testing.assert_allclose(model.predict(X), problem.predict(x, *X.T), atol=1e-12)
    with jax.enable_x64(True):
        ambient = problem.objective.ambient_gradient(jnp.asarray(x), problem.data)
        gradient = problem.manifold.gradient(jnp.asarray(x), ambient)
        assert float(problem.manifold.norm(jnp.asarray(x), gradient)) < 1e-6


def test_what_was_never_seen_is_predicted_by_what_is_known():
    X, y = low_rank()
    model = MatrixCompletion(2, random_state=0).fit(X, y)
    unknown = model.predict([[999, 3], [2, 999], [999, 999]])
    expected = model.mean_ + np.array([model.column_offsets_[3], model.row_offsets_[2], 0])
    np.testing.assert_allclose(unknown, expected)


def test_names_need_not_be_numbers_in_order():
    X, y = low_rank()
    renamed = np.stack([1000 - 7 * X[:, 0], 5 + 3 * X[:, 1]], axis=1)
    first = MatrixCompletion(2, reg=0.1, max_iter=2000, tol=1e-12, random_state=0).fit(X, y)
    second = MatrixCompletion(2, reg=0.1, max_iter=2000, tol=1e-12, random_state=0).fit(renamed, y)
    np.testing.assert_allclose(second.predict(renamed), first.predict(X), atol=1e-3)


def test_search():
    X, y = low_rank()
    search = GridSearchCV(MatrixCompletion(reg=1e-3, max_iter=200, random_state=0), {"n_components": [1, 2]}, cv=2).fit(
        X, y
    )
    assert search.best_params_ == {"n_components": 2}


def test_an_iteration_that_has_not_settled_is_told():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        MatrixCompletion(2, reg=0.1, max_iter=1).fit(*low_rank())


def test_refusals():
    with pytest.raises(ValueError, match="two columns"):
        MatrixCompletion().fit(np.ones((5, 3)), np.ones(5))
    with pytest.raises(ValueError, match="n_components must be an integer"):
        MatrixCompletion(0).fit(np.ones((5, 2)), np.ones(5))
    with pytest.raises(ValueError, match="reg must be a number from 0 on, not -1"):
        MatrixCompletion(reg=-1).fit(np.ones((5, 2)), np.ones(5))
    with pytest.raises(ValueError, match="offset_reg must be two numbers"):
        MatrixCompletion(offset_reg=(1,)).fit(np.ones((5, 2)), np.ones(5))
