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


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rx.Sphere(2**64), ValueError, "d of Sphere must be at most 2147483647"),
        (lambda: rx.Sphere(3).check_point(np.empty((0, 3))), ValueError, "it holds no point"),
        (lambda: rx.schedules.piecewise(0.1, 3.0), ValueError, "piecewise needs a mapping"),
        (lambda: rx.schedules.constant("3"), TypeError, "must be a number, not str"),
        (lambda: rx.rsgd(10**400), TypeError, "expected a number"),
        (lambda: rx.rsgd(len), TypeError, "at t = 1 it fails"),
        (lambda: rx.check_retraction(3), TypeError, "check_retraction needs a retrax manifold"),
        (lambda: rx.check_gradient(3), TypeError, r"check_gradient needs a retrax\.Problem"),
        (lambda: rx.check_transport(rx.Sphere(3), seed=-1), ValueError, "seed must be an integer"),
        (lambda: rx.Stream(np.array(3)), TypeError, "a Stream needs something to iterate over"),
        (lambda: rx.Problem(len, rx.Sphere(3), X, sparse=3), TypeError, "sparse must name entries"),
        (lambda: rx.Problem(len, rx.Sphere(3), X, optimum="low"), ValueError, "optimum must be a number"),
        (lambda: rx.problems.PCA("nothing.npy", 1), FileNotFoundError, r"there is no file nothing\.npy"),
        (lambda: rx.sweep(rx.problems.PCA(X, 1), rx.rsgd, None, steps=1), TypeError, "learning_rates must be several"),
        (lambda: rx.sweep(rx.problems.PCA(X, 1), None, [0.1], steps=1), TypeError, "sweep needs functions"),
        (lambda: rx.sweep(rx.problems.PCA(X, 1), {1: rx.rsgd}, [0.1], steps=1), TypeError, "by words"),
        (lambda: rx.datasets.synthetic.spd(3, "2"), ValueError, "d >= 2"),
        (lambda: run(x0=[1, [2]]), ValueError, "x0 is no point"),
        (lambda: run(dtype=object()), ValueError, "dtype must be 'float32' or 'float64'"),
        (lambda: run(driver=np.array(["jax", "x"])), ValueError, "driver must be 'jax' or 'eager'"),
        (lambda: run(tolerance=10**400), ValueError, "tolerance must be a number"),
        (lambda: run(on_interrupt=[]), ValueError, "on_interrupt must be 'raise' or 'return'"),
    ],
)
def test_refusals_say_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def run(**arguments):
    """A run of one step."""
    return rx.minimize(rx.problems.PCA(X, 1), rx.rsgd(0.1), steps=1, **arguments)
