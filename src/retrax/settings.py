"""The arguments of a run, checked before anything is compiled, and the plan that follows from them."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from retrax.drivers.eager import EagerDriver
from retrax.drivers.jax import JaxDriver, precision
from retrax.drivers.sharded import ShardedDriver
from retrax.manifolds.base import ArrayManifold, Manifold
from retrax.methods import Method
from retrax.plan import Plan
from retrax.problems.base import Problem
from retrax.recording import Record
from retrax.schedules import is_number
from retrax.sources.arrays import Layout
from retrax.typing import Point

DRIVERS: dict[str, type[JaxDriver]] = {"jax": JaxDriver, "eager": EagerDriver}
BUFFER_STEPS = 1024
BUFFER_BYTES = 2**26
"""The most that the host reads for one stretch."""


class Settings:
    """The arguments of a run, checked before anything is compiled."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        steps: int,
        batch_size: Any,
        first_batch_size: Any,
        x0: Point | None,
        seed: int,
        record: int | Record | None,
        dtype: str | None,
        driver: str,
        checkpoint_every: int | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(f"problem must be a retrax.Problem, not {type(problem).__name__}")
        if not isinstance(method, Method):
            hint = "; call it with a step size, as in retrax.rsrm(0.1)" if callable(method) else ""
            raise TypeError(f"method must be a retrax method such as retrax.rsrm(0.1), not {method!r}{hint}")
        if driver not in DRIVERS:
            raise ValueError(f"driver must be one of {', '.join(map(repr, DRIVERS))}, not {driver!r}")
        self.problem, self.method, self.driver = problem, method, driver
        self.seed = integer(seed, "seed", least=0)
        if self.seed >= 2**64:
            raise ValueError(f"seed must be below 2**64, not {seed!r}")
        self.record = record if isinstance(record, Record) else Record(every=record)
        self.x0 = problem.initial_point(self.seed) if x0 is None else _start(x0, problem.manifold)
        self.layout: Layout | None = getattr(problem.source, "layout", None)
        if self.layout is not None and driver != "jax":
            raise ValueError(f"data on several devices need driver='jax', not {driver!r}")
        self.dtype = _dtype(dtype, x0, problem)
        self.plan = self._plan(integer(steps, "steps", least=1), batch_size, first_batch_size, checkpoint_every)
        _check_functions(problem, self.x0, self.dtype)

    @property
    def several_processes(self) -> bool:
        """Whether other processes hold some of the data, and take the same steps."""
        return self.layout is not None and self.layout.spans_processes

    def make_driver(self) -> JaxDriver:
        """The driver that the data and the arguments ask for."""
        if self.layout is not None:
            return ShardedDriver(self.problem, self.method, self.dtype, self.layout)
        return DRIVERS[self.driver](self.problem, self.method, self.dtype)

    def _plan(self, steps: int, batch_size: Any, first_batch_size: Any, checkpoint_every: int | None) -> Plan:
        source, method = self.problem.source, self.method
        small = _size_schedule(batch_size, "batch_size")
        large = _size_schedule(self._first_batch_size(first_batch_size, small), "first_batch_size")
        if source.size is not None:
            large = _at_most(large, source.size)
            large(1)
        restart_every = method.restart_every
        if restart_every == "epoch":
            if source.size is None:
                raise ValueError(f"{method.name} on a stream has no epoch: give restart_every as a number of steps")
            restart_every = max(1, source.size // small(1))
        length = min(BUFFER_STEPS, 2 ** math.ceil(math.log2(steps)))
        return Plan(
            steps=steps,
            batch_size=small,
            constant_batch=is_number(batch_size),
            large_batch_size=large,
            restart_every=restart_every,  # type: ignore[arg-type]
            evaluations=method.evaluations,
            record_every=self.record.interval(steps),
            checkpoint_every=checkpoint_every,
            seed=self.seed,
            length=length,
            pace=1 if source.size is None else 64,  # who knows how fast samples arrive
            # Batches that the host reads, or that are gathered from several devices, must fit into a buffer.
            room=None if source.resident and self.layout is None else BUFFER_BYTES // source.sample_bytes(self.dtype),
        )

    def _first_batch_size(self, given: Any, small: Callable[[int], int]) -> Any:
        if given is not None:
            return given
        size, default = self.problem.source.size, self.method.first_batch_size
        if default is None:
            return small(1)
        if default == "all":
            if size is None:
                raise ValueError(f"{self.method.name} on a stream needs first_batch_size: a stream has no 'all'")
            return size
        return default if size is None else min(int(default), size)


def _start(x0: Point, manifold: Manifold) -> Point:
    """A user's starting point: one point of the manifold, not a stack of them."""
    x0 = np.asarray(x0) if isinstance(manifold, ArrayManifold) and isinstance(x0, list | tuple) else x0
    manifold.check_point(x0)
    manifold.each(_check_single, x0)
    return x0


def _check_single(manifold: Manifold, point: Any) -> None:
    if tuple(point.shape) != tuple(manifold.ambient_shape):
        raise ValueError(f"x0 has shape {tuple(point.shape)}, but a point on {manifold} has {manifold.ambient_shape}")


def integer(value: Any, name: str, least: int) -> int:
    """`value` as an int, or a ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return int(value)


def _size_schedule(value: Any, name: str) -> Callable[[int], int]:
    """A batch size as a function of the step: from a number, or a function of t that returns one."""
    if is_number(value):
        size = integer(value, name, least=1)
        return lambda t: size
    if callable(value):
        return lambda t: integer(_whole(value(t)), f"{name}({t})", least=1)
    raise TypeError(f"{name} must be a number or a function of t, not {type(value).__name__}")


def _at_most(size: Callable[[int], int], samples: int) -> Callable[[int], int]:
    """The same sizes of large batches, refused where there are not so many samples."""

    def checked(t: int) -> int:
        if size(t) > samples:
            raise ValueError(
                f"first_batch_size={size(t)} is drawn without replacement, but there are only {samples} samples"
            )
        return size(t)

    return checked


def _whole(value: Any) -> Any:
    """A schedule's value, rounded up to a whole number of samples."""
    return math.ceil(value) if isinstance(value, numbers.Real) and math.isfinite(value) else value


def _dtype(dtype: str | None, x0: Point | None, problem: Problem) -> str:
    if dtype is not None:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        if name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {dtype!r}")
        return name
    for leaf in jax.tree.leaves((x0, problem.source.template)):
        if str(getattr(leaf, "dtype", "")) in ("float32", "float64"):
            return str(leaf.dtype)
    return "float32"


def _check_functions(problem: Problem, x0: Point, dtype: str) -> None:
    """The loss must return one number and the gradient must look like a point: found out without computing."""
    with precision(dtype):
        point = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), dtype), x0)
        batch = problem.source.example(dtype)
        loss = jax.eval_shape(problem.objective.loss, point, batch)
        if getattr(loss, "shape", None) != ():
            raise ValueError(
                f"loss must return one number, the mean over the batch; it returned "
                f"{'shape ' + str(loss.shape) if hasattr(loss, 'shape') else loss}"
            )
        gradient = jax.eval_shape(problem.objective.gradient, point, batch)
        shapes = [jax.tree.map(lambda a: tuple(a.shape), tree) for tree in (gradient, point)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"the gradient has shape {shapes[0]}, but a point has {shapes[1]}")
