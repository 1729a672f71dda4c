"""The eager driver: a plain Python loop on NumPy arrays, for debugging and as a reference for the compiled one."""

from typing import Any

import jax
import numpy as np

from retrax.drivers.base import Figures, Means, as_of, figures
from retrax.drivers.partwise import PartwiseMean
from retrax.methods import Method, State
from retrax.problems.base import BatchOracle, LargeBatchOracle, Mean, Objective, Problem, SampleMean, chunk_length
from retrax.sources import LargeBatch, Payload, Samples
from retrax.typing import Batch, Point, Tangent


class _NumpyObjective(Objective):
    """An objective whose gradients come out as NumPy arrays, whatever library computed them."""

    def gradient(self, x: Point, batch: Batch) -> Tangent:
        """grad f_S(x)."""
        if self.riemannian_gradient is not None:
            return _numpy(self.riemannian_gradient(x, batch))
        ambient = self.ambient_gradient or jax.grad(self.loss)
        return self.manifold.gradient(x, _numpy(ambient(x, batch)))

    def gradients(self, x: Point, y: Point, batch: Batch) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y))."""
        return self.gradient(x, batch), self.gradient(y, batch)


class _NumpyMean:
    """A mean over samples whose values come out as NumPy arrays."""

    def __init__(self, mean: Mean) -> None:
        self.mean, self.size = mean, mean.size

    def __call__(self, x: Point) -> Any:
        return _numpy(self.mean(x))

    def gradient(self, x: Point) -> Tangent:
        return _numpy(self.mean.gradient(x))

    def parts(self, first: int) -> Any:
        parts = self.mean.parts(first)
        return None if parts is None else tuple(map(_NumpyMean, parts))


def _numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


class EagerDriver:
    """Every step is Python and every array NumPy's; set a breakpoint anywhere."""

    def __init__(self, problem: Problem, method: Method, dtype: str) -> None:
        self.problem, self.dtype = problem, dtype
        self.method = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=dtype)[()], method)
        self.objective = _NumpyObjective(**vars(problem.objective))
        self.data = problem.on_device(dtype) if problem.source.resident else None
        self.host_data = None if self.data is None else _numpy(self.data)

    def start(self, x0: Point) -> tuple[Point, State]:
        """The first point as NumPy arrays, and the method's empty state."""
        x = jax.tree.map(lambda a: np.asarray(a, dtype=self.dtype), x0)
        return x, self.method.init(self.objective.manifold, x)

    def mean_over(self, payload: Payload) -> Any:
        """F over a large batch: all the data, the rows that the payload names, or the payload itself."""
        if isinstance(payload, LargeBatch):
            return PartwiseMean(self.problem.objective, payload, lambda part: part)
        data = self.data if payload.data is None else payload.data
        if payload.indices is None:
            return _NumpyMean(self.problem.full(data))
        return _NumpyMean(SampleMean(self.problem.objective, chunk_length(data), data, payload.indices))

    def restart(self, x: Point, state: State, payload: Payload, first: int) -> tuple[Point, State]:
        """One restart."""
        oracle = LargeBatchOracle(_evaluated(self.mean_over(payload), x))
        return self.method.restart(self.objective.manifold, oracle, x, state, float(first))

    def advance(self, x: Point, state: State, payload: Payload, first: int, count: int) -> tuple[Point, State]:
        """`count` steps, one by one."""
        assert isinstance(payload, Samples)  # as for every stretch of steps
        assert payload.indices is not None
        data = self.host_data if payload.data is None else payload.data
        for rows in payload.indices[:count]:
            batch = jax.tree.map(lambda a, rows=rows: a[rows], data)
            oracle = BatchOracle(self.objective, batch)
            x, state = self.method.step(self.objective.manifold, oracle, x, state, float(first))
            first += 1
        return x, state

    def measure(self, mean: Any, with_error: bool, x: Point, state: State, step: int) -> Figures:
        """A record's figures."""
        means = Means(*(_evaluated(mean, point) for point in (x, state.last.point, self.average(state))))
        row = figures(self.objective, self.method, means, with_error, x, state, float(step))
        return as_of(step, {name: float(value) for name, value in row.items()})

    def load(self, tree: Any) -> Any:
        """Points and states are NumPy arrays already."""
        return tree

    def to_numpy(self, tree: Any) -> Any:
        """As NumPy arrays, scalars too."""
        return _numpy(tree)

    def wait(self, tree: Any) -> None:
        """Nothing is under way."""

    def average(self, state: State) -> Point | None:
        """The average of the iterates, where the run keeps one."""
        return self.method.average(state)

    def compile_restart(self, x: Point, state: State, payload: Payload) -> None:
        """Nothing to compile."""

    def compile_advance(self, x: Point, state: State, payload: Payload) -> None:
        """Nothing to compile."""


def _evaluated(mean: Any, x: Point | None) -> Any:
    """A mean that can be asked at x: one over parts is computed there."""
    return _NumpyMean(mean.at(x)) if isinstance(mean, PartwiseMean) and x is not None else mean
