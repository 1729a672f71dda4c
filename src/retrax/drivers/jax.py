"""The compiled driver: it hands a run's arguments to the programs of `loops`, in the form that `choosing` finds."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from retrax import _cache
from retrax._programs import circumstances, compiled, kind, lowered
from retrax.drivers import loops, trial
from retrax.drivers.base import Figures, Means, as_of
from retrax.drivers.choosing import choose
from retrax.drivers.devices import OneDevice, SplitRows, devices_of, whole
from retrax.drivers.kernel import Fit
from retrax.drivers.loops import Form
from retrax.drivers.partwise import AtOnePoint, PartwiseMean, stacked
from retrax.methods import Method, State
from retrax.problems.base import Problem, SampleMean, chunk_length
from retrax.sources import LargeBatch, Samples
from retrax.typing import Point


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
        self._asked: dict[Any, Any] = {}
        """For each shape of a stretch's payload, what the form of its loop depends on."""
        self._loops: dict[Any, Any] = {}
        """The programs so far, which are quicker to find here than among all that the process has."""

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
                put(loops.step_number(first, self.dtype)),
            )
            return compiled(loops.restart_drawn, (self.objective, self.form, chunk, fed), *arguments), arguments
        mean = self._computed(payload, x) if not isinstance(payload, Samples) else self.mean_over(payload)
        arguments = (mean, self.method, x, state, put(loops.step_number(first, self.dtype)))
        return compiled(loops.restart, (self.objective, self.form), *arguments), arguments

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
        statics, arguments = self._loop_arguments(method, x, state, payload, first, count)
        # Of all that is handed over, only the payload and the step's number may look different from call to call.
        key = circumstances(), _shapes(payload), arguments[-2].shape
        if key not in self._loops:
            lower = functools.partial(self._lowered_loop, statics, arguments)
            self._loops[key] = compiled(
                loops.advance_in_form, statics, *arguments, options=loops.LOOP_OPTIONS, lower=lower
            )
        return self._loops[key], arguments

    def _loop_arguments(
        self, method: Method, x: Point, state: State, payload: Samples, first: int, count: int
    ) -> tuple[Any, ...]:
        """What a loop's program depends on, and its arguments: NumPy arrays, which a call takes over quickly."""
        fed = payload.data is not None
        data, indices, numbers = (
            payload.data if fed else self.data,
            payload.indices,
            (loops.step_number(first, self.dtype), np.asarray(count)),
        )
        if not isinstance(self.form.devices, OneDevice):
            indices, numbers = self.form.devices.put((indices, numbers))
        statics, arguments = (self.objective, self.form, fed), (data, method, x, state, indices, *numbers)
        if _shapes(payload) not in self._asked:
            self._asked[_shapes(payload)] = statics, kind(arguments[:5])
        return statics, arguments

    @property
    def forms(self) -> list[tuple[Form, Fit]]:
        """The form of the loop for each shape of a stretch's payload so far, and whether it is one kernel, and why."""
        return [choose(*statics, found) for statics, found in self._asked.values()]

    def _lowered_loop(self, statics: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """The loop in the form that is chosen for such arguments; compiled, if that was tried in another process."""
        objective, as_written, fed = statics
        form, _ = choose(objective, as_written, fed, kind(arguments[:5]))

        def lower(form: Form) -> Any:
            return lowered(loops.advance_in_form, (objective, form, fed), *arguments, options=loops.LOOP_OPTIONS)

        if not form.on_trial:
            return lower(form)
        # Where the trial failed, that may be the moment's fault: the next process shall try again.
        return trial.compiled(lambda: lower(form), loops.LOOP_OPTIONS) or _cache.compiled(
            lower(as_written), loops.LOOP_OPTIONS
        )

    def measure(self, mean: Any, with_error: bool, x: Point, state: State, step: int) -> Figures:
        """A record's figures."""
        if isinstance(mean, PartwiseMean):
            points = (x, state.last.point if with_error else None, self.average(state))
            mean = Means(*(_or_none(functools.partial(self._at_each, mean), point) for point in points))
        t = self.form.devices.put(loops.step_number(step, self.dtype))
        arguments = (mean, self.method, x, state, t)
        row = compiled(loops.measure, (self.objective, self.form, with_error), *arguments)(*arguments)
        values = jax.block_until_ready(row)
        host = np.asarray if self.form.several else float
        return as_of(step, {name: host(value) for name, value in values.items()})

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


def _shapes(payload: Samples) -> tuple[tuple[int, ...], ...]:
    return tuple(leaf.shape for leaf in jax.tree.leaves((payload.data, payload.indices)))


def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(tree: Any, i: int) -> Any:
    """Run number i of a sweep's arrays."""
    return jax.tree.map(lambda a: a[i], tree)


def _or_none(put: Any, value: Any) -> Any:
    return None if value is None else put(value)
