"""Another run is told from this one by whatever its numbers depend on, and by nothing else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.fingerprint import Fingerprint
from retrax.settings import Settings
from retrax.sources.digest import digest_rows

X = np.random.default_rng(0).standard_normal((500, 5))
FACTOR = 1.0


def loss(U, batch, factor=1.0):
    """PCA's, times a factor."""
    return -factor * jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def closure(factor):
    return lambda U, batch: loss(U, batch, factor)


class Weighted:
    """A loss with a number in it."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, U, batch):
        return loss(U, batch, self.factor)


def with_global():
    """A new function each time, as in another process: of one that it knows, JAX keeps the program."""
    return lambda U, batch: loss(U, batch, FACTOR)


def with_table(values):
    table = jnp.asarray(values)
    return lambda U, batch: loss(U, batch) + jnp.sum(table * U[:, 0])


def replaced_rows():
    """All rows but sixteen that are spread over them are others."""
    other = np.random.default_rng(1).standard_normal(X.shape)
    kept = np.linspace(0, len(X) - 1, 16).astype(int)
    other[kept] = X[kept]
    return other


def described(loss=loss, data=X, method=None, step=100, gradient=None, **others):
    problem = rx.Problem(loss, rx.Grassmann(5, 2), data, gradient=gradient)
    return Fingerprint(Settings(problem, method or rx.rsgd(0.1), steps=1000, **others)).at(step)


DIFFERENT = {
    "partial": ({"loss": functools.partial(loss, factor=1.0)}, {"loss": functools.partial(loss, factor=2.0)}, "loss"),
    "closure": ({"loss": closure(1.0)}, {"loss": closure(1.0000001)}, "loss"),
    "object": ({"loss": Weighted(1.0)}, {"loss": Weighted(2.0)}, "loss"),
    "array": ({"loss": with_table(np.zeros(5))}, {"loss": with_table(np.eye(5)[4])}, "loss"),
    "step size": ({"method": rx.rsgd(lambda t: 0.1 / t)}, {"method": rx.rsgd(lambda t: 0.2 / t)}, "method"),
    "gradient": ({"gradient": jax.grad(loss)}, {"gradient": lambda U, b: 2 * jax.grad(loss)(U, b)}, "gradient"),
    "rows": ({}, {"data": replaced_rows()}, "samples"),
    "batch sizes": ({"batch_size": lambda t: 5}, {"batch_size": lambda t: 5 + (t == 77)}, "batch sizes"),
    "restarts": (
        {"method": rx.rsvrg(0.1, restart_every=10), "first_batch_size": lambda t: 50},
        {"method": rx.rsvrg(0.1, restart_every=10), "first_batch_size": lambda t: 50 + (t == 81)},
        "large batch sizes",
    ),
    "columns": ({}, {"record": rx.Record(estimator_error=True)}, "estimator_error"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_a_run_depends_on_is_compared(kind):
    one, other, name = DIFFERENT[kind]
    assert described(**one) == described(**one)
    first, second = described(**one), described(**other)
    assert name in {key for key in first if first[key] != second[key]}


def test_globals_count_too(monkeypatch):
    before = described(loss=with_global())
    monkeypatch.setattr(f"{__name__}.FACTOR", 2.0)
    assert described(loss=with_global())["loss"] != before["loss"]


def test_what_lies_ahead_does_not_count():
    later = {"batch_size": lambda t: 5 + (t == 777)}
    assert described(batch_size=lambda t: 5) == described(**later)
    assert described(batch_size=lambda t: 5, step=800) != described(**later, step=800)


def test_what_cannot_be_compared_is_said():
    def outside(U, batch):
        return jax.pure_callback(lambda u: np.float32(0), jax.ShapeDtypeStruct((), "float32"), U) + loss(U, batch)

    problem = rx.Problem(outside, rx.Grassmann(5, 2), X.astype("f4"), gradient=jax.grad(loss))
    assert Fingerprint(Settings(problem, rx.rsgd(0.1), steps=10)).unchecked == ["what the loss calls outside JAX"]


def test_checksums_add_up_and_see_every_bit():
    whole = digest_rows(X)
    assert whole == (digest_rows(X[:123]) + digest_rows(X[123:], 123)) % 2**64 == digest_rows(np.asfortranarray(X))
    for change in (lambda a: a[::-1], lambda a: np.roll(a, 1, axis=1), lambda a: np.where(a == a[7, 3], -a, a)):
        assert digest_rows(np.ascontiguousarray(change(X))) != whole
    odd = X.view(np.uint8)[:, :37]
    assert digest_rows(odd) != digest_rows(odd ^ np.eye(500, 37, k=-36, dtype=np.uint8))
