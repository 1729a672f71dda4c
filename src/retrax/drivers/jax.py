"""The compiled driver: stretches of steps run inside one XLA loop whose length is data, not program.

A method's numbers, the samples and the step count are arguments, so that a second run compiles nothing. The same
programs serve one run or several at once (a sweep), and samples on one device or split over several.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _kernel
from retrax._kernel import in_one_kernel
from retrax.drivers import factors, grouping, kernel, span, wide_span
from retrax.drivers.base import Figures, Means, figures
from retrax.drivers.devices import Devices, OneDevice, SeveralDevices, SplitMean, SplitRows, devices_of, whole
from retrax.drivers.partwise import AtOnePoint, PartwiseMean, stacked
from retrax.drivers.programs import compiled
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import scaled
from retrax.methods import Method, State
from retrax.problems.base import BatchOracle, LargeBatchOracle, Mean, Objective, Problem, SampleMean, chunk_length
from retrax.scalings import Identity
from retrax.sources import LargeBatch, Samples
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


# --- the programs ---------------------------------------------------------------------------------------------------


def _fetch(data: Batch | None, batches: Batch, i: Any) -> Batch:
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
        return one(method, _fetch(data, batches, i), carry, _number(first, i, dtype))

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
    # Coefficients stand for matrices, not for stacks of them.
    objective = dataclasses.replace(objective, at_once=False)
    manifold, dtype, rank = objective.manifold, x.dtype, x.shape[1]
    orthonormalise = getattr(manifold, "orthonormalise", None)
    most = jnp.inf if orthonormalise is None else _orthonormal.longest_step(x)

    def retracted(last: Step) -> Point:
        return manifold.retract(last.point, scaled(manifold, -last.size, last.vector))

    def step(basis: Any, others: Any) -> tuple[Any, Any, Any]:
        (moved, vector, batch), (size, (method, memories, t)) = basis, others
        last = Step(moved + size * vector, vector, size)
        point = retracted(last) if orthonormalise is None else orthonormalise(moved)
        new = method.step(manifold, BatchOracle(objective, batch), point, State(last, *memories), t)[1]
        return (new.last.point, new.last.vector), new.last.size, tuple(new[1:])

    def body(i: Any, carry: Any) -> Any:
        pair, size, memories = carry
        others = (method, memories, _number(first, i, dtype))
        small = in_one_kernel if form.small_kernel else lambda function, *arguments: function(*arguments)
        products = span.by_columns if form.one_kernel else span.by_rows
        # Elsewhere the long axis is split over devices, across which blocks would lie.
        in_blocks = isinstance(form.devices, OneDevice) and not form.one_kernel
        return span.step(step, pair, size, _fetch(data, batches, i), others, most, small, products, in_blocks)

    start = jnp.concatenate([state.last.point.T, state.last.vector.T]), state.last.size, tuple(state[1:])
    pair, size, memories = jax.lax.fori_loop(0, count, body, start)
    last = Step(pair[:rank].T, pair[rank:].T, size)
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
    objective = dataclasses.replace(objective, at_once=False)
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
        return one(*carry, _fetch(data, batches, i), _number(first, i, dtype))

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


def _advance(
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


def _restart_drawn(
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


def _restart(
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


def _measure(
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


# --- the driver -----------------------------------------------------------------------------------------------------


def with_dtype(method: Any, dtype: str) -> Any:
    """The method with its numbers as arrays of the run's dtype, so that they neither promote nor retrace."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=dtype), method)


def as_point(x0: Point, dtype: str) -> Point:
    """A user's starting point on the host."""
    return jax.tree.map(lambda a: np.asarray(a, dtype=dtype), x0)


def stack(trees: Any) -> Any:
    """The arrays and numbers of several runs, with a leading axis that counts them."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


class JaxDriver:
    """Runs one method, or several of one kind at once, on one problem; used inside `precision(dtype)`."""

    def __init__(self, problem: Problem, methods: Method | list[Method], dtype: str) -> None:
        self.problem, self.dtype = problem, dtype
        self.objective = problem.objective
        devices = devices_of(getattr(problem.source, "layout", None), problem.manifold.ambient_shape)
        self.form = Form(devices, several=isinstance(methods, list))
        self._given = methods
        self.method = devices.put(with_dtype(stack(methods) if isinstance(methods, list) else methods, dtype))
        self.data = problem.on_device(dtype) if problem.source.resident else None
        if isinstance(devices, SplitRows):
            self.data = devices.resident(self.data)
        self.verdicts: dict[Any, kernel.Fit] = {}
        """For each shape of a stretch's payload, whether its steps are one kernel, and why."""
        self._forms: dict[Any, Form] = {}

    def start(self, x0: Any) -> tuple[Point, State]:
        """The first point (of a sweep: the list of first points) on the device, and the method's empty state."""

        def one(method: Method, point: Point) -> tuple[Point, State]:
            x = as_point(point, self.dtype)
            return x, method.init(self.objective.manifold, x)

        # On the host, where nothing is compiled for it.
        methods = with_dtype(self._given, self.dtype)
        started = stack(list(map(one, methods, x0))) if isinstance(methods, list) else one(methods, x0)
        return self.form.devices.put(as_point(started, self.dtype))

    def mean_over(self, payload: Any) -> Any:
        """F over a large batch: all the data, the rows that the payload names, or the payload itself."""
        if isinstance(payload, LargeBatch):
            return PartwiseMean(self.objective, payload, self.form.devices.put)
        devices, fed = self.form.devices, payload.data is not None
        data = devices.put(payload.data) if fed else self.data
        if payload.indices is not None:
            indices = devices.put(payload.indices)
            place = OneDevice() if fed else devices
            return place.mean(self.objective, chunk_length(data), data, indices)
        mean = self.problem.full(data)
        if isinstance(mean, SampleMean):
            return mean if fed else devices.mean(mean.objective, mean.chunk, mean.data, None)
        return devices.put(mean)  # from a sufficient statistic

    def restart(self, x: Point, state: State, payload: Any, first: int) -> tuple[Point, State]:
        """One restart."""
        program, arguments = self._restart(x, state, payload, first)
        return program(*arguments)

    def _restart(self, x: Point, state: State, payload: Any, first: int) -> tuple[Any, tuple[Any, ...]]:
        """The program of a restart, and its arguments."""
        put = self.form.devices.put
        if isinstance(payload, Samples) and not (payload.data is None and payload.indices is None):
            fed = payload.data is not None
            data = payload.data if fed else self.data
            chunk = chunk_length(jax.tree.map(lambda a: a[0], data) if fed and self.form.several else data)
            indices = _or_none(put, payload.indices)
            arguments: tuple[Any, ...] = (
                put(data) if fed else data,
                self.method,
                x,
                state,
                indices,
                put(step_number(first, self.dtype)),
            )
            return compiled(_restart_drawn, (self.objective, self.form, chunk, fed), *arguments), arguments
        mean = self._computed(payload, x) if not isinstance(payload, Samples) else self.mean_over(payload)
        arguments = (mean, self.method, x, state, put(step_number(first, self.dtype)))
        return compiled(_restart, (self.objective, self.form), *arguments), arguments

    def _computed(self, payload: Any, x: Point) -> AtOnePoint:
        """The mean over a batch too large to hold (of a sweep: over one for each run), computed at x."""
        if not self.form.several:
            return self.mean_over(payload).at(x)
        return stacked([self.mean_over(one).at(_run(x, i)) for i, one in enumerate(payload)])

    def advance(self, x: Point, state: State, payload: Any, first: int, count: int) -> tuple[Point, State]:
        """`count` steps."""
        shares = self._shares(x, state, payload)
        prepared = [self._loop(*share, first, count) for share in shares]
        if len(prepared) == 1:
            program, arguments = prepared[0]
            return program(*arguments)

        def moved(program: Any, arguments: Any) -> Any:
            with jax.enable_x64(self.dtype == "float64"):  # which each thread has for itself
                return jax.tree.map(np.asarray, program(*arguments))

        with ThreadPoolExecutor(len(prepared)) as pool:
            found = list(pool.map(moved, *zip(*prepared, strict=True)))
        runs = len(jax.tree.leaves(x)[0])
        return jax.tree.map(lambda *parts: np.concatenate(parts)[:runs], *found)

    def _shares(self, x: Point, state: State, payload: Samples) -> list[tuple[Method, Point, State, Samples]]:
        """The runs of a sweep in as many groups as there are processors, which share nothing and step side by side.

        Groups are equally large, so that one program serves all; the last run fills up what is left.
        """
        together = (self.method, x, state, payload)
        if not self.form.several or not isinstance(self.form.devices, OneDevice) or jax.default_backend() != "cpu":
            return [together]
        runs = len(jax.tree.leaves(x)[0])
        groups = min(_processors(), runs)
        members = np.minimum(np.arange(groups * -(-runs // groups)), runs - 1).reshape(groups, -1)
        return [jax.tree.map(lambda a: np.asarray(a)[group], together) for group in members]  # noqa: B023

    def _loop(
        self, method: Method, x: Point, state: State, payload: Samples, first: int, count: int
    ) -> tuple[Any, tuple[Any, ...]]:
        """The program of a loop, and its arguments."""
        statics, arguments = self._advance_arguments(method, x, state, payload, first, count)
        objective, form, fed = statics
        ordinary = (objective, self.form, fed) if form.on_trial else None
        return compiled(_advance, statics, *arguments, options=LOOP_OPTIONS, otherwise=ordinary), arguments

    def _advance_arguments(
        self, method: Method, x: Point, state: State, payload: Samples, first: int, count: int
    ) -> tuple[Any, ...]:
        """What a loop's program depends on, and its arguments: NumPy arrays, which a call takes over quickly."""
        fed = payload.data is not None
        data, indices, numbers = (
            payload.data if fed else self.data,
            payload.indices,
            (step_number(first, self.dtype), np.asarray(count)),
        )
        if not isinstance(self.form.devices, OneDevice):
            indices, numbers = self.form.devices.put((indices, numbers))
        form = self._form(fed, data, x, state, indices)
        return (self.objective, form, fed), (data, method, x, state, indices, *numbers)

    def _form(self, fed: bool, data: Any, x: Point, state: State, indices: Any) -> Form:
        """The form of the loop for such arguments, decided once for each shape."""
        key = tuple(leaf.shape for leaf in jax.tree.leaves((data if fed else None, indices)))
        if key not in self._forms:
            form, self.verdicts[key] = self._decided(fed, data, x, state, indices)
            ordinary = not (form.in_span or form.one_kernel) and isinstance(form.devices, OneDevice)
            worth = ordinary and indices is not None and factors.is_worth_it(data, indices.shape[-1])
            self._forms[key] = dataclasses.replace(form, short_transposes=worth)
        return self._forms[key]

    def _decided(self, fed: bool, data: Any, x: Point, state: State, indices: Any) -> tuple[Form, kernel.Fit]:
        """Steps in a span where that is possible and worth it; the loop in one kernel where it fits into one."""
        if isinstance(self.form.devices, SeveralDevices):
            return self.form, kernel.Fit(False, "devices exchange samples, which a kernel cannot do")
        if self.form.several and fed:
            return self.form, kernel.Fit(False, "every run of the sweep has samples of its own: they step together")
        method = self.method
        if self.form.several:
            method, x, state, indices = (_run(tree, 0) for tree in (method, x, state, indices))
        arguments = jax.tree.map(_abstract, (data, method, x, state, indices, np.asarray(1), np.asarray(1)))

        def text(**choices: bool) -> str:
            return _advance_text(self.objective, self._with(several=False, **choices), fed, *arguments)

        if isinstance(self.form.devices, SplitRows):
            found = kernel.Fit(False, "devices exchange inner products, which a kernel cannot do")
            for wide in _worthwhile_spans(method, data, x, state, indices):
                with contextlib.suppress(span.OutOfSpanError):
                    if text(in_span=True, wide=wide):
                        return self._with(in_span=True, wide=wide), found
            return self.form, found
        for wide in _worthwhile_spans(method, data, x, state, indices):
            with contextlib.suppress(span.OutOfSpanError):
                choices = {"in_span": True, "wide": wide}
                found = kernel.verdict(lambda: text(one_kernel=True, **choices), data, x, indices)  # noqa: B023
                small = not found.fits and x.shape[1] <= _kernel.LARGEST and kernel.is_known(text(**choices))
                return self._with(one_kernel=found.fits, small_kernel=small, in_turn=True, **choices), found
        if not kernel.is_tried(self.objective):
            return self._on_trial(data, x, indices)
        found = kernel.verdict(lambda: text(one_kernel=True), data, x, indices)
        turns = found.fits and self.objective.loss not in kernel.FILLS_LANES
        return self._with(one_kernel=found.fits and (turns or not self.form.several), in_turn=turns), found

    def _on_trial(self, data: Any, x: Point, indices: Any) -> tuple[Form, kernel.Fit]:
        """One kernel, if another process can compile it, for a loss whose gradient alone speaks not against it."""
        if self.form.several:
            return self.form, kernel.Fit(False, "a loss that has not been tried: the runs of the sweep step together")
        found = kernel.promise(data, x, indices)
        if found.fits:
            batch = jax.eval_shape(_fetch, data, indices, 0)
            gradient = jax.jit(self.objective.gradient).lower(x, batch).as_text()
            objection = kernel.objection(gradient, kernel.LONGEST_GRADIENT)
            found = kernel.Fit(False, f"the loss would not be tried: {objection}") if objection else found
        return self._with(one_kernel=found.fits, on_trial=found.fits), found

    def _with(self, **choices: Any) -> Form:
        return dataclasses.replace(self.form, **choices)

    def measure(self, mean: Any, with_error: bool, x: Point, state: State, step: int) -> Figures:
        """A record's figures."""
        if isinstance(mean, PartwiseMean):
            points = (x, state.last.point if with_error else None, self.average(state))
            mean = Means(*(_or_none(functools.partial(self._at_each, mean), point) for point in points))
        t = self.form.devices.put(step_number(step, self.dtype))
        arguments = (mean, self.method, x, state, t)
        row = compiled(_measure, (self.objective, self.form, with_error), *arguments)(*arguments)
        values = jax.block_until_ready(row)
        return {name: np.asarray(value) if self.form.several else float(value) for name, value in values.items()}

    def _at_each(self, mean: PartwiseMean, x: Point) -> AtOnePoint:
        if not self.form.several:
            return mean.at(x)
        return stacked([mean.at(_run(x, i)) for i in range(jax.tree.leaves(x)[0].shape[0])])

    def compile_restart(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        self._restart(x, state, payload, 1)

    def compile_advance(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        self._loop(*self._shares(x, state, payload)[0], 1, 1)

    @staticmethod
    def wait(tree: Any) -> None:
        """Until the device has finished."""
        jax.block_until_ready(tree)

    def load(self, tree: Any) -> Any:
        """Points and states from NumPy copies."""
        return self.form.devices.put(tree)

    @staticmethod
    def to_numpy(tree: Any) -> Any:
        """NumPy copies."""
        return jax.tree.map(whole, tree)

    def average(self, state: State) -> Point | None:
        """The average of the iterates, where the run keeps one."""
        return self.method.average(state)


def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(tree: Any, i: int) -> Any:
    """Run number i of a sweep's arrays."""
    return jax.tree.map(lambda a: a[i], tree)


def _worthwhile_spans(method: Any, data: Any, x: Point, state: State, indices: Any) -> list[bool]:
    """The spans to try, short beside d: False for that of a point and a direction, True for the wide one."""
    if type(method) is not Method or getattr(x, "ndim", 0) != 2:
        return []
    samples: Any = data if indices is not None else None
    if getattr(samples, "ndim", 0) != 2 or samples.dtype != x.dtype:
        return []
    length, rank = x.shape
    memories, keeps_last = jax.tree.leaves(state[1:]), method.estimator.keeps_last
    if any(a.ndim > 2 or (a.ndim and length not in a.shape and a.size > rank * rank) for a in memories):
        return []
    wide = type(method.scaling) is not Identity or not keeps_last or any(a.ndim for a in memories)
    matrices = sum(a.shape == x.shape for a in memories) + (1 + 2 * keeps_last if wide else 2)
    return [wide] if span.is_worth_it(length, rank, matrices, indices.shape[1]) else []


def _or_none(put: Any, value: Any) -> Any:
    return None if value is None else put(value)


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


@functools.lru_cache(maxsize=64)
def _text(objective: Objective, form: Form, fed: bool, structure: Any, leaves: tuple[jax.ShapeDtypeStruct, ...]) -> str:
    program = functools.partial(_advance, objective, form, fed)
    return jax.jit(program).lower(*jax.tree.unflatten(structure, leaves)).as_text()


def _advance_text(objective: Objective, form: Form, fed: bool, *arguments: Any) -> str:
    """The loop's program in StableHLO, remembered by shapes: a second run asks again."""
    leaves, structure = jax.tree.flatten(arguments)
    return _text(objective, form, fed, structure, tuple(leaves))
