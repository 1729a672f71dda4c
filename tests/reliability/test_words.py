"""The front door answers in our words."""

import jax
import numpy as np
import pytest

import retrax as rx

X = np.random.default_rng(0).standard_normal((20, 3))


def test_a_run_inside_jit_says_so():
    @jax.jit
    def inside(rate):
        return rx.minimize(rx.problems.PCA(X, 1), rx.rsgd(0.1), steps=2).x

    with pytest.raises(TypeError, match=r"inside jax\.jit.*call it outside"):
        inside(0.1)


def test_fewer_samples_than_a_batch_are_no_ones_fault():
    for n in (1, 3):
        result = rx.minimize(rx.problems.PCA(X[:n], 1), rx.rsgd(0.1), steps=2, driver="eager")
        assert result.steps == 2


def test_an_integer_start_will_do():
    result = rx.minimize(rx.Problem(lambda x, b: (b @ x).mean(), rx.Sphere(3), X), rx.rsgd(0.1), steps=2, x0=[1, 0, 0])
    assert np.isclose(np.linalg.norm(result.x), 1)


@pytest.mark.parametrize("point", [np.array([True, False, False]), np.array(["a", "b", "c"]), np.array([1j, 0, 0])])
def test_points_are_real_numbers(point):
    with pytest.raises(TypeError, match="must be made of real numbers, not"):
        rx.Sphere(3).check_point(point)


def test_data_sets_are_named_by_words():
    with pytest.raises(ValueError, match="unknown data set"):
        rx.datasets.load(3)
    with pytest.raises(ValueError, match="directory must be a path, not 2"):
        rx.datasets.load("mnist", 2)
