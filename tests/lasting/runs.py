"""What the tests of lasting runs share: a problem, ways to give its data, and what "the same run" means."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import retrax as rx

MANIFOLD = rx.Grassmann(12, 3)

METHODS = {
    "rsgd": rx.rsgd(0.01),
    "csgd_m": rx.csgd_m(0.01),
    "crmsprop": rx.crmsprop(0.01),
    "ramsgrad": rx.ramsgrad(0.01),
    "radam": rx.radam(0.01),
    "rasa": rx.rasa(0.01),
    "rsrm": rx.rsrm(0.01),
    "rsvrg": rx.rsvrg(0.001, restart_every=70),
    "rsrg": rx.rsrg(0.001, restart_every=70),
    "rspider": rx.rspider(0.001, restart_every=70),
    "rdog": rx.rdog(),
    "storm_plus": rx.storm_plus(),
}


def loss(U: Any, batch: Any) -> Any:
    """PCA's, by automatic differentiation."""
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def samples(n: int = 3000, seed: int = 0) -> np.ndarray:
    """Rows with a clear spectrum."""
    return np.random.default_rng(seed).standard_normal((n, 12)) * np.linspace(1, 3, 12)


def problem(data: Any) -> rx.Problem:
    """A problem without an optimum of its own."""
    return rx.Problem(loss, MANIFOLD, data)


def saved(directory: Path, array: np.ndarray, name: str = "samples.npy") -> Path:
    """An array as a file."""
    np.save(directory / name, array)
    return directory / name


def assert_same(a: rx.Result, b: rx.Result) -> None:
    """To the last bit, the clock apart."""
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.output, b.output)
    assert (a.sfo, a.steps, a.status) == (b.sfo, b.steps, b.status)
    assert list(a.history) == list(b.history)
    for column in set(a.history) - {"seconds"}:
        np.testing.assert_array_equal(a.history[column], b.history[column], err_msg=column)


@contextlib.contextmanager
def no_thread_left() -> Iterator[None]:
    """Whatever happens inside, no background thread outlives it."""
    before = set(threading.enumerate())
    try:
        yield
    finally:
        assert set(threading.enumerate()) <= before


class Counting:
    """Batches that can be iterated over again, always the same."""

    def __init__(self, array: np.ndarray, size: int) -> None:
        self.array, self.size = array, size

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.array), self.size):
            yield self.array[start : start + self.size]


class Stateful:
    """An iterator that knows its place, as Grain's do."""

    def __init__(self, array: np.ndarray, size: int) -> None:
        self.array, self.size, self.position = array, size, 0

    def __iter__(self) -> "Stateful":
        return self

    def __next__(self) -> np.ndarray:
        if self.position >= len(self.array):
            raise StopIteration
        self.position += self.size
        return self.array[self.position - self.size : self.position]

    def get_state(self) -> bytes:
        """Where it is."""
        return str(self.position).encode()

    def set_state(self, state: bytes) -> None:
        """Go there."""
        self.position = int(state)
