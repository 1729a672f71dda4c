"""The compiled driver: stretches of steps run inside one XLA loop whose length is data, not program.

A method's numbers, the samples and the step count are arguments, so that a second run compiles nothing.
"""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import ThreadpoolController

from retrax import schedules
from retrax._kernel import in_one_kernel
from retrax._tree import subtract
from retrax.drivers.partwise import Known, PartwiseMean
from retrax.methods import Method, State
from retrax.problems.base import BatchOracle, LargeBatchOracle, Objective, Problem, SampleMean, chunk_length
from retrax.sources import Fed, LargeBatch
from retrax.typing import Array, Batch, Point


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """The settings of a run, scoped: 64 bits without changing the user's global switch, and one BLAS thread.

    LAPACK calls on the small matrices of a step are several times slower where BLAS hands them to other threads.
    """
    with jax.enable_x64(dtype == "float64"), _blas().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _blas() -> ThreadpoolController:
    """A handle on the BLAS libraries of this process, SciPy's among them: JAX's factorisations call that one."""
    import scipy.linalg.cython_lapack  # noqa: F401  A library is seen only once it is loaded.

    return ThreadpoolController()


def _fetch(data: Batch | None, batches: Batch, i: Any) -> Batch:
    """Batch i: gathered from resident data by its indices, or taken from a stack of batches."""
    if data is None:
        return jax.tree.map(lambda a: a[i], batches)
    indices = batches[i]
    return jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)


def advance(
    objective: Objective,
    method: Method,
    data: Batch | None,
    x: Point,
    state: State,
    batches: Batch,
    first: Any,
    count: Any,
) -> tuple[Point, State]:
    """`count` steps, from step `first` on."""
    dtype = jnp.result_type(*jax.tree.leaves(x))

    def body(i: Any, carry: tuple[Point, State]) -> tuple[Point, State]:
        oracle = BatchOracle(objective, _fetch(data, batches, i))
        return method.step(objective.manifold, oracle, *carry, (first + i).astype(dtype))

    return jax.lax.fori_loop(0, count, body, (x, state))


def restart(objective: Objective, method: Method, mean: Any, x: Point, state: State, first: Any) -> tuple[Point, State]:
    """Step `first`, from a large batch."""
    dtype = jnp.result_type(*jax.tree.leaves(x))
    return method.restart(objective.manifold, LargeBatchOracle(mean), x, state, first.astype(dtype))


def measure(objective: Objective, mean: Any, with_error: bool, x: Point, state: State) -> dict[str, Array]:
    """What a record holds, apart from counters."""
    manifold, last = objective.manifold, state.last
    loss, gradient = mean(x)
    row = {
        "loss": loss,
        "gradient_norm": manifold.norm(x, gradient),
        "violation": manifold.violation(x),
        "direction_norm": manifold.norm(last.point, last.vector),
    }
    if with_error:
        difference = subtract(last.vector, mean.gradient(last.point))
        row["estimator_error"] = manifold.norm(last.point, difference)
    return row


def advance_in_one_kernel(objective: Objective, *arguments: Any) -> tuple[Point, State]:
    """`advance` as one kernel; only for what `fits_one_kernel`."""
    return in_one_kernel(functools.partial(advance, objective), *arguments)


# A step is made of operations so small that handing one to another thread costs more than doing it.
LOOP_OPTIONS = {"xla_cpu_multi_thread_eigen": False}
_advance = jax.jit(advance, static_argnums=0, compiler_options=LOOP_OPTIONS)
_advance_in_one_kernel = jax.jit(advance_in_one_kernel, static_argnums=0, compiler_options=LOOP_OPTIONS)
_restart = jax.jit(restart, static_argnums=0)
_measure = jax.jit(measure, static_argnums=(0, 2))


KERNEL_AXIS, KERNEL_SIZE = 128, 2048
"""The longest axis and the most entries of a point or a sample for which one kernel is the faster way: beyond them
XLA's own matrix products fall behind those of the library that it calls from outside a kernel."""


def fits_one_kernel(objective: Objective, *arguments: Any) -> bool:
    """Whether `advance_in_one_kernel` can be used with such arguments, and is the faster way."""
    if not objective.one_kernel:
        return False
    leaves, structure = jax.tree.flatten(arguments)
    return _fits(objective, structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))


@functools.lru_cache(maxsize=256)
def _fits(objective: Objective, structure: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> bool:
    arguments = jax.tree.unflatten(structure, leaves)
    method, data, x, _, batches, _, _ = arguments
    if not _of_this_package(method):
        return False
    one_of_each = [*jax.tree.leaves(x), *(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in jax.tree.leaves(data))]
    axes = [*(size for part in one_of_each for size in part.shape), *(a.shape[1] for a in jax.tree.leaves(batches))]
    small = max(axes, default=0) <= KERNEL_AXIS and all(part.size <= KERNEL_SIZE for part in one_of_each)
    if jax.default_backend() != "cpu" or not small:
        return False
    program = _advance_in_one_kernel.lower(objective, *arguments).as_text()
    # LAPACK cannot be called from inside a kernel.
    return not re.search(r"stablehlo\.(custom_call|cholesky|triangular_solve)", program)


def _of_this_package(part: Any) -> bool:
    """Whether a method consists of nothing but this package's own parts and numbers."""
    if not dataclasses.is_dataclass(part):
        return True
    ours = type(part).__module__.startswith("retrax.") and not isinstance(part, schedules.Function)
    return ours and all(_of_this_package(getattr(part, field.name)) for field in dataclasses.fields(part))


def with_dtype(method: Method, dtype: str) -> Method:
    """The method with its numbers as arrays of the run's dtype, so that they neither promote nor retrace."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=dtype), method)


def as_point(x0: Point, dtype: str) -> Point:
    """A user's starting point on the device."""
    return jax.tree.map(lambda a: jnp.asarray(a, dtype=dtype), x0)


class JaxDriver:
    """Runs one method on one problem; used inside `precision(dtype)`."""

    def __init__(self, problem: Problem, method: Method, dtype: str) -> None:
        self.problem, self.dtype = problem, dtype
        self.objective = problem.objective
        self.method = with_dtype(method, dtype)
        self.data = problem.on_device(dtype) if problem.source.resident else None
        self._loops: dict[Any, Any] = {}

    def start(self, x0: Point) -> tuple[Point, State]:
        """The first point on the device, and the method's empty state."""
        x = as_point(x0, self.dtype)
        return x, self.method.init(self.objective.manifold, x)

    def mean_over(self, payload: Any) -> Any:
        """F over a large batch: all the data, the rows that the payload names, or the payload itself."""
        if isinstance(payload, LargeBatch):
            return PartwiseMean(self.objective, payload, self.put)
        data, indices = self.put(self._fed(payload))
        if indices is None:
            return self.problem.full(data)
        return SampleMean(self.objective, chunk_length(data), data, indices)

    def _fed(self, payload: Any) -> tuple[Batch, Any]:
        """Samples, and indices into them."""
        return tuple(payload) if isinstance(payload, Fed) else (self.data, payload)

    def put(self, payload: Any) -> Any:
        """A payload as device arrays."""
        return jax.tree.map(jnp.asarray, payload)

    def restart(self, x: Point, state: State, payload: Any, first: int) -> tuple[Point, State]:
        """One restart."""
        mean = self.mean_over(payload)
        if isinstance(mean, PartwiseMean):
            gradient = mean.gradient(x)
            mean = Known(gradient, gradient)
        return _restart(self.objective, self.method, mean, x, state, jnp.asarray(first))

    def advance(self, x: Point, state: State, payload: Any, first: int, count: int) -> tuple[Point, State]:
        """`count` steps."""
        loop, arguments = self._loop(x, state, payload, first, count)
        return loop(*arguments)

    def _loop(self, x: Point, state: State, payload: Any, first: int, count: int) -> tuple[Any, tuple[Any, ...]]:
        """A compiled loop and its arguments; as NumPy arrays, which a call takes over faster than one by one."""
        data, batches = self._fed(payload)
        arguments = (self.objective, self.method, data, x, state, batches, np.asarray(first), np.asarray(count))
        shapes = tuple(leaf.shape for leaf in jax.tree.leaves(payload))
        if shapes not in self._loops:
            self._loops[shapes] = _advance_in_one_kernel if fits_one_kernel(*arguments) else _advance
        return self._loops[shapes], arguments

    def measure(self, mean: Any, with_error: bool, x: Point, state: State) -> dict[str, float]:
        """A record's figures."""
        if isinstance(mean, PartwiseMean):
            both = mean(x)
            mean = Known(both, mean.gradient(state.last.point) if with_error else both[1])
        row = _measure(self.objective, mean, with_error, x, state)
        return {name: float(value) for name, value in row.items()}

    def compile_restart(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        if isinstance(payload, LargeBatch):
            self.restart(x, state, payload, 1)
        else:
            _restart.lower(self.objective, self.method, self.mean_over(payload), x, state, jnp.asarray(1)).compile()

    def compile_advance(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        loop, arguments = self._loop(x, state, payload, 1, 1)
        loop.lower(*arguments).compile()

    @staticmethod
    def wait(tree: Any) -> None:
        """Until the device has finished."""
        jax.block_until_ready(tree)

    def load(self, tree: Any) -> Any:
        """Points and states from NumPy copies."""
        return self.put(tree)

    @staticmethod
    def to_numpy(tree: Any) -> Any:
        """NumPy copies."""
        return jax.tree.map(np.asarray, tree)
