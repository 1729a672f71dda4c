"""Matrix completion: loss, gradient and biases by hand, and a matrix that is found again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx


def ratings(seed=0, users=30, items=40, known=700):
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(users, 2)) @ generator.normal(size=(2, items))
    places = generator.choice(users * items, known, replace=False)
    user, item = np.divmod(places, items)
    return matrix, user, item, matrix[user, item]


def test_loss_and_gradient_by_hand():
    _, user, item, value = ratings()
    problem = rx.problems.MatrixCompletion(user, item, value, 3, regularization=0.5)
    left, middle, right = problem.manifold.factors(problem.initial_point(0))
    whole = left @ middle @ right.T
    error = problem.data["value"] - whole[user, item]
    by_hand = np.mean(error**2) + 0.5 / 700 * np.sum(whole**2)
    with jax.enable_x64(True):
        x = jnp.asarray(problem.initial_point(0))
        assert float(problem.objective.loss(x, problem.data)) == pytest.approx(by_hand, rel=1e-12)
        automatic = jax.jit(jax.grad(problem.objective.loss))(x, problem.data)
        np.testing.assert_allclose(problem.objective.ambient_gradient(x, problem.data), automatic, atol=1e-14)


def test_biases_solve_the_normal_equations():
    _, user, item, value = ratings()
    problem = rx.problems.MatrixCompletion(user, item, value, 2, bias_regularization=(3.0, 4.0))
    indicators = np.zeros((700, 70))
    indicators[np.arange(700), user] = indicators[np.arange(700), 30 + item] = 1
    ridge = np.diag([3.0] * 30 + [4.0] * 40)
    exact = np.linalg.solve(indicators.T @ indicators + ridge, indicators.T @ (value - value.mean()))
    np.testing.assert_allclose(np.concatenate(problem.biases), exact, atol=1e-3)
    at_nothing = problem.predict(None, user, item)
    assert np.mean((at_nothing - value) ** 2) < np.var(value)


def test_a_matrix_of_rank_two_is_found_again():
    matrix, user, item, value = ratings()
    problem = rx.problems.MatrixCompletion(user, item, value, 2, regularization=0.0, bias_regularization=(1e9, 1e9))
    step = rx.schedules.constant(150.0)
    result = rx.minimize(
        problem, rx.rsgd(step), steps=1500, batch_size=200, record=1500, progress=False, dtype="float64"
    )
    everywhere = np.indices(matrix.shape).reshape(2, -1)
    found = problem.predict(result.x, *everywhere).reshape(matrix.shape)
    expected = np.clip(matrix, *problem.range)
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": [0.5]}, "whole numbers"),
        ({"rating": [1.0, 2.0]}, "one length"),
        ({"rating": [np.nan]}, r"rating\[0\]"),
        ({"shape": (1, 3)}, "no room"),
        ({"regularization": -1.0}, "regularization"),
    ],
)
def test_refusals(change, words):
    arguments = {"user": [1], "item": [2], "rating": [1.0], "rank": 1} | change
    with pytest.raises(ValueError, match=words):
        rx.problems.MatrixCompletion(**arguments)
