"""Numbers that a run would have to change are refused; those that it can hold keep their digits."""

import os

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

X = np.random.default_rng(0).standard_normal((200, 5))
HUGE = (X * 1e12).astype(np.int64)


def loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def run(data, **others):
    return rx.minimize(rx.Problem(loss, rx.Grassmann(5, 2), data), rx.rsgd(0.01), steps=4, record=2, **others)


def forms(array, directory):
    """The same samples as an array, a file and a stream."""
    np.save(directory / "samples.npy", array)
    return array, directory / "samples.npy", rx.Stream(np.array_split(array, 7))


def test_integers_that_single_precision_cannot_hold_are_refused(tmp_path):
    for data in forms(HUGE, tmp_path):
        with pytest.raises(ValueError, match=r"integers from -\d+ to \d+.*int32.*dtype='float64'"):
            run(data)
    run_ = rx.Run(rx.Problem(loss, rx.Grassmann(5, 2), rx.Pushed(HUGE[:0])), rx.rsgd(0.01))
    with pytest.raises(ValueError, match="the batch handed over has integers"):
        run_.advance(batches=HUGE)


def test_integers_in_double_precision_are_what_they_are():
    exact = run(HUGE, dtype="float64").history["loss"][0]
    np.testing.assert_allclose(exact, run(HUGE.astype(float)).history["loss"][0], rtol=1e-14)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_greater(X, 2.0)
    for data in (masked, iter([masked]), (masked, X)):
        with pytest.raises(ValueError, match=r"masked array.*\.filled"):
            run(data)
    with pytest.raises(ValueError, match="masked array"):
        rx.problems.PCA(masked, 2)
    assert run(np.ma.masked_array(X)).steps == 4  # nothing is masked


def test_more_digits_than_a_run_has_are_refused(tmp_path):
    if np.longdouble is np.float64 or np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long doubles are doubles here")
    for data in forms(X.astype(np.longdouble), tmp_path):
        with pytest.raises(ValueError, match="more digits than a run has"):
            run(data)


def test_the_other_byte_order_keeps_its_precision(tmp_path):
    wanted = run(X)
    assert wanted.x.dtype == np.float64
    swapped = X.astype(X.dtype.newbyteorder())
    for data in forms(swapped, tmp_path)[:2]:
        assert run(data).x.dtype == np.float64
        np.testing.assert_array_equal(run(data).x, wanted.x)
    start = np.eye(5, 2).astype(swapped.dtype)
    assert run(X.astype("f4"), x0=start).x.dtype == np.float64


def test_a_complex_start_is_refused():
    with pytest.raises(TypeError, match="x0 must be made of real numbers, not complex128"):
        run(X, x0=np.eye(5, 2) + 0j)


def test_a_map_whose_file_was_replaced_shows_what_it_showed(tmp_path):
    path = tmp_path / "samples.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    np.save(tmp_path / "other.npy", np.zeros_like(X))
    os.replace(tmp_path / "other.npy", path)
    np.testing.assert_array_equal(run(mapped).x, run(X).x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_shrinks_is_found(order, tmp_path):
    path = tmp_path / "samples.npy"
    np.save(path, np.asarray(np.tile(X, (1000, 1)), order=order))
    problem = rx.Problem(loss, rx.Grassmann(5, 2), path)
    assert problem.source.size == 200_000
    os.truncate(path, 1000)
    with pytest.raises(ValueError, match="shorter than it was"):
        rx.minimize(problem, rx.rsgd(0.01), steps=4)
