"""The programs of the compiled driver: stretches of steps inside one XLA loop, restarts and records.

A method's numbers, the samples and the step count are arguments, so that a second run compiles nothing. The same
programs serve one run or several at once (a sweep), and samples on one device or split over several; `Form` says which.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _kernel
from retrax._kernel import in_one_kernel
from retrax.drivers import factors, grouping, span, wide_span
from retrax.drivers.base import Means, figures
from retrax.drivers.devices import Devices, SplitMean
from retrax.drivers.partwise import AtOnePoint
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import scaled
from retrax.methods import Method, State
from retrax.problems.base import BatchOracle, LargeBatchOracle, Mean, Objective
from retrax.typing import Array, Batch, Point, Step


@dataclasses.dataclass(frozen=True)
class Form:
    """What distinguishes compiled programs besides their shapes."""

    devices: Devices
    several: bool = False
    """Whether every argument but resident data has a leading axis of runs."""
    one_kernel: bool = False
    """Whether the loop is one kernel."""
    on_trial: bool = False
    """Whether the loop is one kernel only if another process could compile it."""
    in_span: bool = False
    """Whether steps are taken in the span of what they start from."""
    wide: bool = False
    """Whether that span is of all that is long in the state, and not only of a point and a direction."""
    small_kernel: bool = False
    """Whether what is small in a span is one kernel, where the loop is too large for one."""
    short_transposes: bool = False
    """Whether of two tall factors the one with fewer columns is transposed, in a loop in its ordinary form."""
    in_turn: bool = False
    """Whether several runs take turns instead of stepping together: where steps are one kernel, nothing is shared."""


def fetch(data: Batch | None, batches: Batch, i: Any) -> Batch:
    """Batch i: gathered from resident data by its indices, or taken from a stack of batches."""
    if data is None:
        return jax.tree.map(lambda a: a[i], batches)
    indices = batches[i]
    return jax.tree.map(lambda a: a.at[indices].get(mode="promise_in_bounds"), data)


_LOW = 2**24
"""Integers below it are exact in single precision."""


def step_number(step: int, dtype: str) -> np.ndarray:
    """A step's number as a program takes it. Single precision has no integers from 2³¹ on: two, of which t is made."""
    if dtype == "float64" or step + 2**20 < 2**31:
        return np.asarray(step)
    return np.asarray(divmod(step, _LOW), dtype=np.int32)


def _number(first: Any, i: Any, dtype: Any) -> Any:
    """t = first + i, rounded once, however a run is cut into stretches."""
    if first.ndim == 0:
        return (first + i).astype(dtype)
    low = first[1] + i
    return (first[0] + low // _LOW).astype(dtype) * _LOW + (low % _LOW).astype(dtype)


def advance(
    objective: Objective,
    data: Batch | None,
    method: Method,
    x: Point,
    state: State,
    batches: Batch,
    first: Any,
    count: Any,
    arranged: Callable[[Any], Any] = lambda step: step,
) -> tuple[Point, State]:
    """`count` steps of one run, from step `first` on; `arranged` may rewrite a step's program."""
    dtype = jnp.result_type(*jax.tree.leaves(x))

    def step(method: Method, batch: Batch, carry: tuple[Point, State], t: Any) -> tuple[Point, State]:
        return method.step(objective.manifold, BatchOracle(objective, batch), *carry, t)

    one = arranged(step)

    def body(i: Any, carry: tuple[Point, State]) -> tuple[Point, State]:
        return one(method, fetch(data, batches, i), carry, _number(first, i, dtype))

    return jax.lax.fori_loop(0, count, body, (x, state))


def _advance_in_span(
    objective: Objective,
    form: Form,
    data: Batch | None,
    method: Method,
    x: Point,
    state: State,
    batches: Batch,
    first: Any,
    count: Any,
) -> tuple[Point, State]:
    """The same steps, each from the point before it, along the direction that was found there.

    A step's retraction is then the first thing in the next step, where it is small; x follows from the state.
    """
    manifold, dtype = objective.manifold, x.dtype
    orthonormalise = getattr(manifold, "orthonormalise", None)
    most = math.inf if orthonormalise is None else _orthonormal.longest_step(x)

    def retracted(last: Step) -> Point:
        return manifold.retract(last.point, scaled(manifold, -last.size, last.vector))

    def step(basis: Any, others: Any) -> tuple[Any, Any, Any]:
        (moved, vector, batch), (size, (method, memories, t)) = basis, others
        last = Step(moved + size * vector, vector, size)
        point = retracted(last) if orthonormalise is None else orthonormalise(moved)
        new = method.step(manifold, BatchOracle(objective, batch), point, State(last, *memories), t)[1]
        return (new.last.point, new.last.vector), new.last.size, tuple(new[1:])

    products = span.by_columns if form.one_kernel else span.by_rows
    passes = span.Passes(products, not form.one_kernel, form.devices.along)
    small = in_one_kernel if form.small_kernel else lambda function, *arguments: function(*arguments)

    def body(i: Any, carry: Any) -> Any:
        pair, lengths, size, memories = carry
        others, batch = (method, memories, _number(first, i, dtype)), fetch(data, batches, i)
        return span.step(step, pair, lengths, size, batch, others, most, small, passes)

    pair = state.last.point.T, state.last.vector.T
    start = pair, passes.squared_lengths(pair[1]), state.last.size, tuple(state[1:])
    (rows, vector), _, size, memories = jax.lax.fori_loop(0, count, body, start)
    last = Step(rows.T, vector.T, size)
    return retracted(last), State(last, *memories)


def _advance_in_wide_span(
    objective: Objective,
    form: Form,
    data: Batch | None,
    method: Method,
    x: Point,
    state: State,
    batches: Batch,
    first: Any,
    count: Any,
) -> tuple[Point, State]:
    """The same steps, each from the point itself and all else that is long in the state."""
    manifold, dtype = CutByColumns(objective.manifold), x.dtype
    leaves, structure = jax.tree.flatten((x, state))
    is_long = [leaf.ndim == 2 and leaf.shape[0] == x.shape[0] for leaf in leaves]

    def step(matrices: Any, others: Any) -> tuple[Any, Any]:
        (*long, batch), (small, method, t) = matrices, others
        before = jax.tree.unflatten(structure, _merged(is_long, long, small))
        found = method.step(manifold, BatchOracle(objective, batch), *before, t)
        return _divided(is_long, jax.tree.leaves(found))

    def one_step(rows: Any, small: Any, batch: Any, t: Any) -> Any:
        products = span.by_columns if form.one_kernel else span.by_rows
        return wide_span.step(step, [*rows, batch], (small, method, t), products)

    one: Any = grouping.in_small_kernels(one_step, x.shape[0]) if form.small_kernel else one_step

    def body(i: Any, carry: Any) -> Any:
        return one(*carry, fetch(data, batches, i), _number(first, i, dtype))

    long, small = _divided(is_long, leaves)
    rows, small = jax.lax.fori_loop(0, count, body, ([one.T for one in long], small))
    return jax.tree.unflatten(structure, _merged(is_long, [one.T for one in rows], small))


class CutByColumns:
    """A manifold whose retraction cuts vectors by the lengths of columns; coefficients do not tell those of entries."""

    def __init__(self, manifold: Any) -> None:
        self._manifold = manifold

    def __getattr__(self, name: str) -> Any:
        """The manifold's."""
        return getattr(self._manifold, name)

    def retract(self, x: Array, u: Array) -> Array:
        """The manifold's, of a vector of sensible length."""
        orthonormalise = getattr(self._manifold, "orthonormalise", None)
        if orthonormalise is None:
            return self._manifold.retract(x, u)
        most, longest = _orthonormal.longest_step(x), jnp.sqrt(jnp.max(jnp.sum(u * u, axis=0)))
        return orthonormalise(x + jnp.where(longest > most, most / longest, 1) * u)


def _divided(chosen: list[bool], leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    """The chosen ones, and the others."""
    pairs = list(zip(leaves, chosen, strict=True))
    return [leaf for leaf, is_chosen in pairs if is_chosen], [leaf for leaf, is_chosen in pairs if not is_chosen]


def _merged(chosen: list[bool], ones: list[Any], others: list[Any]) -> list[Any]:
    """What was divided."""
    first, second = iter(ones), iter(others)
    return [next(first if is_chosen else second) for is_chosen in chosen]


def advance_in_form(
    objective: Objective,
    form: Form,
    fed: bool,
    data: Batch,
    method: Method,
    x: Point,
    state: State,
    batches: Any,
    first: Any,
    count: Any,
) -> tuple[Point, State]:
    """Steps in the given form; `fed` says that the data were read for this stretch, by each run for itself."""

    def run(data: Batch, *others: Any) -> tuple[Point, State]:
        local, data, batches = form.devices.steps(objective, data, others[3])
        steps = functools.partial(advance, local)
        if form.short_transposes:
            steps = functools.partial(steps, arranged=factors.arranged)
        if form.in_span:
            in_span = _advance_in_wide_span if form.wide else _advance_in_span
            steps = functools.partial(in_span, local, form)
        arguments = (data, *others[:3], batches, *others[4:])
        return in_one_kernel(steps, *arguments) if form.one_kernel else steps(*arguments)

    def in_turn(data: Batch, *others: Any) -> tuple[Point, State]:
        return jax.lax.map(lambda one: run(data, *one, *others[4:]), others[:4])

    program = run
    if form.several:
        axes = (0 if fed else None, 0, 0, 0, 0, None, None)
        program = in_turn if form.in_turn and not fed else jax.vmap(run, in_axes=axes)
    return form.devices.call(program, data, method, x, state, batches, first, count)


def _restart_one(
    objective: Objective, mean: Mean, method: Method, x: Point, state: State, first: Any
) -> tuple[Point, State]:
    """Step `first` of one run, from a large batch."""
    dtype = jnp.result_type(*jax.tree.leaves(x))
    return method.restart(objective.manifold, LargeBatchOracle(mean), x, state, _number(first, 0, dtype))


def restart_drawn(
    objective: Objective,
    form: Form,
    chunk: int,
    fed: bool,
    data: Batch,
    method: Method,
    x: Point,
    state: State,
    indices: Any,
    first: Any,
) -> tuple[Point, State]:
    """A restart of each run from the samples that its indices name."""

    def run(data: Batch, method: Method, x: Point, state: State, indices: Any, first: Any) -> Any:
        mean = form.devices.mean(objective, chunk, data, indices)
        return _restart_one(objective, mean, method, x, state, first)

    if form.several:
        run = jax.vmap(run, in_axes=(0 if fed else None, 0, 0, 0, 0, None))
    return form.devices.call(run, data, method, x, state, indices, first)


def restart(
    objective: Objective, form: Form, mean: Any, method: Method, x: Point, state: State, first: Any
) -> tuple[Point, State]:
    """A restart of each run from one mean, or from a mean of its own that has been computed."""

    def run(data: Batch, mean: Any, method: Method, x: Point, state: State, first: Any) -> Any:
        mean = _with_data(mean, data)
        if not form.several:
            return _restart_one(objective, mean, method, x, state, first)
        if isinstance(mean, AtOnePoint):
            return jax.vmap(_restart_one, in_axes=(None, 0, 0, 0, 0, None))(objective, mean, method, x, state, first)
        # One run after another: a full gradient of many runs at once would not fit in bounded memory.
        return jax.lax.map(lambda one: _restart_one(objective, mean, one[0], one[1], one[2], first), (method, x, state))

    return form.devices.call(run, *_without_data(mean), method, x, state, first)


def measure(
    objective: Objective,
    form: Form,
    with_error: bool,
    mean: Any,
    method: Method,
    x: Point,
    state: State,
    t: Any,
) -> dict[str, Array]:
    """A record's figures, from one mean or from `Means` that have been computed."""

    def run(data: Batch, mean: Any, method: Method, x: Point, state: State, t: Any) -> Any:
        mean = _with_data(mean, data)
        t = _number(t, 0, jnp.result_type(*jax.tree.leaves(x)))

        def one(means: Means, method: Method, x: Point, state: State) -> Any:
            return figures(objective, method, means, with_error, x, state, t)

        if isinstance(mean, Means):
            return (jax.vmap(one) if form.several else one)(mean, method, x, state)
        means = Means(mean, mean, mean)
        if not form.several:
            return one(means, method, x, state)
        return jax.lax.map(lambda args: one(means, *args), (method, x, state))

    return form.devices.call(run, *_without_data(mean), method, x, state, t)


def _without_data(mean: Any) -> tuple[Batch, Any]:
    """The data of a mean, which are split, and the rest of it, which is not."""
    return (mean.data, dataclasses.replace(mean, data=None)) if isinstance(mean, SplitMean) else (None, mean)


def _with_data(mean: Any, data: Batch) -> Any:
    return dataclasses.replace(mean, data=data) if isinstance(mean, SplitMean) else mean


# A step is made of operations so small that handing one to another thread costs more than doing it.
LOOP_OPTIONS = {
    "xla_cpu_multi_thread_eigen": False,
    # The first would hand the gather of a batch to the thread pool, which costs more than the gather. The second makes
    # aᵀ b a product that reads a by columns, which XLA leaves to a library of half the speed: copying aᵀ costs less.
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner,transpose-folding",
    **_kernel.COMPILER_OPTIONS,
}
