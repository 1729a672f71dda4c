"""What went wrong is said: NaN between records, points that leave the manifold, absurd steps."""

import itertools
import signal

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

X = np.random.default_rng(0).standard_normal((200, 5))


def loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def nan_from(step):
    """A step size that is NaN from a step on."""
    return rx.rsgd(lambda t: jnp.where(t < step, 0.01, jnp.nan))


def test_a_stream_that_ends_after_nan_has_diverged():
    stream = iter(np.array_split(np.tile(X, (2, 1)), 10))
    result = rx.minimize(
        rx.Problem(loss, rx.Grassmann(5, 2), stream), nan_from(20), steps=10_000, record=rx.Record(1000, samples=50)
    )
    assert result.status is rx.Status.DIVERGED
    assert np.isfinite(result.x).all()


def test_sigterm_after_nan_returns_a_good_point():
    def batches():
        for i in itertools.count():
            if i == 3000:  # far beyond the step that is NaN, and far from the next record
                signal.raise_signal(signal.SIGTERM)
            yield X[:5]

    result = rx.minimize(
        rx.Problem(loss, rx.Grassmann(5, 2), rx.Stream(batches())),
        nan_from(21),
        steps=10**8,
        record=rx.Record(10**8, samples=50),
        on_interrupt="return",
    )
    assert result.status is rx.Status.DIVERGED
    assert 21 <= result.steps < 10**8
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.output).all()


@pytest.mark.parametrize(
    ("manifold", "dtype"), [(rx.Sphere(5), "float32"), (rx.Sphere(5, retraction="exp"), "float32")], ids=str
)
def test_an_absurd_step_on_the_sphere_stays_there(manifold, dtype):
    problem = rx.Problem(lambda x, b: -jnp.mean((b @ x) ** 2), manifold, X)
    result = rx.minimize(problem, rx.rsgd(1e20), steps=10, record=1, dtype=dtype, tolerance=1e-30, patience=1)
    assert result.status in (rx.Status.MAX_STEPS, rx.Status.DIVERGED)
    assert abs(np.linalg.norm(result.x) - 1) < 1e-5


@pytest.mark.parametrize("retraction", ["polar", "qr"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e3, 1e8, 1e20, 1e37])
def test_retractions_survive_any_finite_step(retraction, dtype, size):
    rank_one = np.outer(np.array([0, 0, 3.0, 4.0]), [1.0, 0.5]).astype(dtype)
    x = np.eye(4, 2, dtype=dtype)
    for manifold in (rx.Grassmann(4, 2, retraction=retraction), rx.Stiefel(4, 2, retraction=retraction)):
        moved = manifold.retract(x, np.asarray(size * rank_one, dtype=dtype))
        assert manifold.violation(moved) < 10 * np.finfo(dtype).eps ** 0.5


def test_short_steps_are_the_same_bits_as_ever():
    u = np.random.default_rng(1).standard_normal((5, 2))
    np.testing.assert_array_equal(
        rx.Sphere(5).retract(np.eye(5)[0], u[:, 0]), (y := np.eye(5)[0] + u[:, 0]) / np.sqrt(np.sum(y * y))
    )


class Leaving(rx.Euclidean):
    """A manifold that a step leaves: where |x| > 1 it is violated."""

    def violation(self, x):
        return jnp.max(jnp.abs(x)) * 0 + (jnp.max(jnp.abs(x)) > 1)


def test_a_point_off_its_manifold_is_a_divergence():
    problem = rx.Problem(lambda x, b: jnp.mean(b @ x), Leaving(5), np.abs(X))
    result = rx.minimize(problem, rx.rsgd(10.0), steps=10, record=5, x0=np.zeros(5), tolerance=1e9, patience=2)
    assert result.status is rx.Status.DIVERGED
    assert "left the manifold (violation 1)" in result.detail
    assert np.array_equal(result.x, np.zeros(5))
