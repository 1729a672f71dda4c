"""Retrax: the public path, `rx.minimize`, by its own clock; and the compiled loop alone, on given mini-batches."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from benchmarks.cases import Case
from benchmarks.timing import Run
from retrax._precision import precision
from retrax.drivers.jax import JaxDriver
from retrax.sources import Samples


def minimize(case: Case, method: rx.Method, batch: int, steps: int, dtype: str = "float64") -> Run:
    """Seconds per step of a whole run: drawing indices, handing them over, and the compiled loop."""

    def run() -> float:
        result = rx.minimize(
            case.problem, method, steps=steps, batch_size=batch, record=steps, progress=False, dtype=dtype
        )
        return result.seconds / result.steps

    return run


class Loop:
    """The compiled loop of `retrax.drivers.jax`, on given mini-batches."""

    def __init__(self, case: Case, method: rx.Method, indices: np.ndarray) -> None:
        self.indices, self.steps = indices, len(indices)
        with precision("float64"):
            self.driver = JaxDriver(case.problem, method, "float64")
            self.x, self.state = self.driver.start(case.start)
            self.payload = Samples(None, jnp.asarray(indices))

    def advance(self) -> np.ndarray:
        """The point after all steps."""
        with precision("float64"):
            x, state = self.driver.advance(self.x, self.state, self.payload, 2, self.steps)
            jax.block_until_ready((x, state))
            return x

    def __call__(self) -> float:
        """One repetition."""
        start = time.perf_counter()
        self.advance()
        return (time.perf_counter() - start) / self.steps
