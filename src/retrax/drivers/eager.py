"""The eager driver: a plain Python loop on NumPy arrays, for debugging and as a reference for the compiled one."""

from typing import Any

import jax
import numpy as np

from retrax.drivers.jax import JaxDriver, measure
from retrax.methods import Method, State
from retrax.problems.base import BatchOracle, LargeBatchOracle, Objective, Problem
from retrax.sources import Fed
from retrax.typing import Batch, Point, Tangent


class _NumpyObjective(Objective):
    """An objective whose gradients come out as NumPy arrays, whatever library computed them."""

    def gradient(self, x: Point, batch: Batch) -> Tangent:
        """grad f_S(x)."""
        if self.riemannian_gradient is not None:
            return _numpy(self.riemannian_gradient(x, batch))
        ambient = self.ambient_gradient or jax.grad(self.loss)
        return self.manifold.gradient(x, _numpy(ambient(x, batch)))


class _NumpyMean:
    """A mean over samples whose values come out as NumPy arrays."""

    def __init__(self, mean: Any) -> None:
        self.mean = mean

    def __call__(self, x: Point) -> Any:
        return _numpy(self.mean(x))

    def gradient(self, x: Point) -> Tangent:
        return _numpy(self.mean.gradient(x))


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


class EagerDriver(JaxDriver):
    """As `JaxDriver`, but every step is Python and every array NumPy's; set a breakpoint anywhere."""

    def __init__(self, problem: Problem, method: Method, dtype: str) -> None:
        super().__init__(problem, method, dtype)
        self.method = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=dtype)[()], method)
        given = problem.objective
        self.numpy_objective = _NumpyObjective(
            given.loss, given.manifold, given.ambient_gradient, given.riemannian_gradient
        )
        self.host_data = None if self.data is None else _numpy(self.data)

    def start(self, x0: Point) -> tuple[Point, State]:
        """The first point as NumPy arrays, and the method's empty state."""
        x = jax.tree.map(lambda a: np.asarray(a, dtype=self.dtype), x0)
        return x, self.method.init(self.objective.manifold, x)

    def restart(self, x: Point, state: State, payload: Any, first: int) -> tuple[Point, State]:
        """One restart."""
        oracle = LargeBatchOracle(_NumpyMean(self.mean_over(payload)))
        return self.method.restart(self.objective.manifold, oracle, x, state, float(first))

    def advance(self, x: Point, state: State, payload: Any, first: int, count: int) -> tuple[Point, State]:
        """`count` steps, one by one."""
        data, indices = tuple(payload) if isinstance(payload, Fed) else (self.host_data, payload)
        for i in range(count):
            rows = indices[i]
            batch = jax.tree.map(lambda a, rows=rows: a[rows], data)
            oracle = BatchOracle(self.numpy_objective, batch)
            x, state = self.method.step(self.objective.manifold, oracle, x, state, float(first + i))
        return x, state

    def measure(self, mean: Any, with_error: bool, x: Point, state: State) -> dict[str, float]:
        """A record's figures."""
        row = measure(self.numpy_objective, _NumpyMean(mean), with_error, x, state)
        return {name: float(value) for name, value in row.items()}

    def load(self, tree: Any) -> Any:
        """Points and states are NumPy arrays already."""
        return tree

    def compile_restart(self, x: Point, state: State, payload: Any) -> None:
        """Nothing to compile."""

    def compile_advance(self, x: Point, state: State, payload: Any) -> None:
        """Nothing to compile."""
