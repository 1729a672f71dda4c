"""The arguments of a run, checked before anything is compiled, and the plan that follows from them."""

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from retrax import schedules
from retrax._arguments import integer, one_of
from retrax._precision import setting
from retrax.drivers.base import Driver
from retrax.drivers.eager import EagerDriver
from retrax.drivers.jax import JaxDriver
from retrax.manifolds.base import ArrayManifold, Manifold
from retrax.methods import Averaged, Method
from retrax.plan import Plan
from retrax.problems.base import Problem
from retrax.problems.function_checks import check_functions
from retrax.recording import Record
from retrax.rows import RowByRow
from retrax.schedules import is_number
from retrax.sources import (
    Feed,
    Layout,
    MappedSource,
    PushedSource,
    SeveralFeeds,
    SharedFeed,
    check_numbers,
)
from retrax.typing import Point

DRIVERS = ("jax", "eager")
BUFFER_STEPS = 1024
PUSHED_STEPS = 32
"""Steps in a stretch, at the most; fewer where samples are pushed, a few at a time, and the buffer is filled anew."""
BUFFER_BYTES, LARGEST_BUFFER_BYTES, FEW_SAMPLES = 2**23, 2**26, 512
"""The most that the host reads, or devices exchange, for one stretch; for so many samples, if they are large, more.

Of larger arrays the system hands out the memory anew for each stretch, which takes longer than many a step.
"""


class Settings:
    """The arguments of one run, or of the runs of a sweep (`methods` × `seeds`), checked."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        *,
        steps: int | None = None,
        batch_size: Any = 5,
        first_batch_size: Any = None,
        x0: Point | None = None,
        seed: int = 0,
        record: int | Record | None = None,
        dtype: str | None = None,
        average: bool = False,
        driver: str = "jax",
        checkpoint_every: int | None = None,
        methods: list[Any] | None = None,
        seeds: tuple[int, ...] | None = None,
    ) -> None:
        _refuse_tracing()
        _check_kinds(problem, method, driver)
        self.problem, self.driver = problem, driver
        self.methods = methods
        self.method: Any = Averaged(method) if average else method
        if problem.objective.sparse:
            _check_rows(problem, driver)
            self.methods = None if methods is None else [_row_by_row(one) for one in methods]
            self.method = _row_by_row(self.method)
        self.seed = _seed(seed if seeds is None else seeds[0])
        self.seeds = None if seeds is None else tuple(map(_seed, seeds))
        self.record = record if isinstance(record, Record) else Record(every=record)
        given = None if x0 is None else _start(x0, problem.manifold)
        if self.seeds is None:
            self.x0 = problem.initial_point(self.seed) if given is None else given
        else:
            points = [problem.initial_point(one) if given is None else given for one in self.seeds]
            self.x0 = points * len(methods or ())
        self.layout: Layout | None = getattr(problem.source, "layout", None)
        if self.layout is not None and driver != "jax":
            raise ValueError(f"data on several devices need driver='jax', not {driver!r}")
        if self.layout is not None and self.layout.by_feature:
            _check_split_rows(problem, self.seeds)
        self.dtype = _dtype(dtype, x0, problem)
        steps = None if steps is None else integer(steps, "steps", least=1)
        self.plan = self._plan(steps, batch_size, first_batch_size, checkpoint_every)
        check_functions(problem, self.first_point, self.dtype)
        if driver == "jax":
            _check_compiling()
            _check_schedules(self.method)

    @property
    def first_point(self) -> Point:
        """The start; of a sweep, its first run's."""
        return self.x0 if self.seeds is None else self.x0[0]

    @property
    def several_processes(self) -> bool:
        """Whether other processes hold some of the data, and take the same steps."""
        return self.layout is not None and self.layout.spans_processes

    def make_driver(self) -> Driver:
        """The driver that the data and the arguments ask for."""
        if self.driver == "eager":
            return EagerDriver(self.problem, self.method, self.dtype)
        if self.methods is not None:
            runs = [method for method in self.methods for _ in self.seeds or ()]
            return JaxDriver(self.problem, runs, self.dtype)
        return JaxDriver(self.problem, self.method, self.dtype)

    def make_feed(self, place: Any) -> Feed:
        """What the run, or each run of a sweep, reads, from `place` on."""
        source, samples = self.problem.source, self.record.samples
        if self.seeds is None:
            return source.feed(self.seed, self.dtype, samples, place)
        if source.size is None:  # a stream can be read only once
            return SharedFeed(source.feed(self.seed, self.dtype, samples, place), len(self.x0))
        places = place or [None] * len(self.seeds)
        feeds = [source.feed(seed, self.dtype, samples, one) for seed, one in zip(self.seeds, places, strict=True)]
        return SeveralFeeds(feeds, len(self.methods or ()))

    def _plan(self, steps: int | None, batch_size: Any, first_batch_size: Any, checkpoint_every: int | None) -> Plan:
        source, method = self.problem.source, self.method
        asked = _size_schedule(batch_size, "batch_size")
        small = lambda t: method.estimator.draws(asked(t))  # noqa: E731
        large = _size_schedule(self._first_batch_size(first_batch_size, small), "first_batch_size")
        if source.size is not None:
            large = _at_most(large, source.size, first_batch_size is not None)
            large(1)
        restart_every = method.restart_every
        if restart_every == "epoch":
            if source.size is None:
                raise ValueError(f"{method.name} on a stream has no epoch: give restart_every as a number of steps")
            restart_every = max(1, source.size // small(1))
        longest = PUSHED_STEPS if isinstance(source, PushedSource) else BUFFER_STEPS
        return Plan(
            steps=steps,
            batch_size=small,
            constant_batch=is_number(batch_size),
            large_batch_size=large,
            restart_every=restart_every,
            cost=method.estimator.cost,
            record_every=self.record.interval(steps),
            checkpoint_every=checkpoint_every,
            seed=self.seed,
            length=longest if steps is None else min(longest, 2 ** math.ceil(math.log2(steps))),
            room=self._room(),
        )

    def _room(self) -> int | None:
        """The most samples in a stretch: those that the host reads or devices exchange must fit into a buffer."""
        source = self.problem.source
        if source.resident and (self.layout is None or self.layout.by_feature):
            return None
        runs = 1 if self.seeds is None else len(self.x0)
        bytes_each = source.sample_bytes(self.dtype) * runs
        return max(1, BUFFER_BYTES // bytes_each, min(FEW_SAMPLES, LARGEST_BUFFER_BYTES // bytes_each))

    def _first_batch_size(self, given: Any, small: Callable[[int], int]) -> Any:
        if given is not None:
            return given
        size, default = self.problem.source.size, self.method.first_batch_size
        if default == "all":
            if size is None:
                raise ValueError(f"{self.method.name} on a stream needs first_batch_size: a stream has no 'all'")
            return size
        default = small(1) if default is None else int(default)
        return default if size is None else min(default, size)


def _refuse_tracing() -> None:
    """A run is a loop on the host, which cannot be part of a compiled program."""
    if isinstance(jax.device_put(np.float32(0)), jax.core.Tracer):
        raise TypeError(
            "a run was started inside jax.jit, jax.vmap or jax.grad; it compiles its own steps: call it outside of them"
        )


def _check_compiling() -> None:
    if setting("jax_disable_jit"):
        raise ValueError("jax.disable_jit is on, but driver='jax' compiles its steps; take driver='eager'")


def _check_kinds(problem: Any, method: Any, driver: str) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a retrax.Problem, not {type(problem).__name__}")
    if not isinstance(method, Method):
        hint = "; call it with a step size, as in retrax.rsrm(0.1)" if callable(method) else ""
        raise TypeError(f"method must be a retrax method such as retrax.rsrm(0.1), not {method!r}{hint}")
    one_of(driver, "driver", *DRIVERS)


def _check_rows(problem: Problem, driver: str) -> None:
    """What sparse rows do not go with."""
    if driver != "jax":
        raise ValueError(f"sparse rows need driver='jax', not {driver!r}; without sparse= all rows take every step")
    if isinstance(problem.source, MappedSource) or getattr(problem.source, "layout", None) is not None:
        raise ValueError("sparse rows need data in the memory of one device, or a stream of batches")
    template = problem.source.template
    for name in problem.objective.sparse:
        entry = template.get(name) if isinstance(template, dict) else None
        if entry is None or not np.issubdtype(entry.dtype, np.integer):
            raise ValueError(f"sparse names the entry {name!r}, but the data is no dict with whole numbers under it")


def _check_split_rows(problem: Problem, seeds: Any) -> None:
    """What samples whose features are on several devices do not go with."""
    shape, features = problem.manifold.ambient_shape, problem.source.data.shape[1]
    if seeds is not None:
        raise ValueError("a sweep needs samples split along their leading axis, or on one device, not along features")
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[0] != features:
        raise ValueError(
            f"samples with {features} features, split over devices, need a point that is one matrix with as many rows, "
            f"not {problem.manifold}"
        )


def _row_by_row(method: Any) -> RowByRow:
    if method.restart_every is not None:
        raise ValueError(
            f"{method.name} restarts from a gradient of all rows, which sparse rows never compute; use rsrm or rsgd"
        )
    if method.estimator.draws(1) != 1:
        raise ValueError(
            f"{method.name} finds its gain by choosing between two halves of a batch for the whole point, which is not "
            "possible row by row; give a number, as in rsrm(0.1) or rsrm(rho=0.1)"
        )
    return RowByRow(method)


def _seed(seed: Any) -> int:
    value = integer(seed, "seed", least=0)
    if value >= 2**64:
        raise ValueError(f"seed must be below 2**64, not {seed!r}")
    return value


def _start(x0: Point, manifold: Manifold) -> Point:
    """A user's starting point: one point of the manifold, not a stack of them."""
    whole = isinstance(manifold, ArrayManifold) and isinstance(x0, list | tuple)
    x0 = _real(x0) if whole else jax.tree.map(_real, x0)
    manifold.check_point(x0)
    manifold.each(_check_single, x0)
    return x0


def _real(leaf: Any) -> Any:
    """A part of x0, if it is made of real numbers that a run can hold."""
    try:
        array = leaf if isinstance(leaf, jax.Array) else check_numbers(leaf)
    except (TypeError, ValueError) as error:
        raise type(error)(f"x0 is no point: {error}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"x0 must be made of real numbers, not {array.dtype}")
    return array if array.dtype.kind == "f" else np.asarray(array, dtype=np.float64)


def _check_single(manifold: Manifold, point: Any) -> None:
    if tuple(point.shape) != tuple(manifold.ambient_shape):
        raise ValueError(f"x0 has shape {tuple(point.shape)}, but a point on {manifold} has {manifold.ambient_shape}")


def _size_schedule(value: Any, name: str) -> Callable[[int], int]:
    """A batch size as a function of the step: from a number, or a function of t that returns one."""
    if is_number(value):
        size = integer(value, name, least=1)
        return lambda t: size
    if callable(value) and not isinstance(value, Method):
        return lambda t: integer(_whole(value(t)), f"{name}({t})", least=1)
    raise TypeError(f"{name} must be a number or a function of t, not {type(value).__name__}")


def _at_most(size: Callable[[int], int], samples: int, asked: bool) -> Callable[[int], int]:
    """The same sizes of large batches; where more were asked for than there are samples, they are refused."""

    def checked(t: int) -> int:
        if size(t) > samples and not asked:
            return samples
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
        return one_of(dtype if isinstance(dtype, str) else _dtype_name(dtype), "dtype", "float32", "float64")
    for leaf in jax.tree.leaves((x0, problem.source.template)):
        name = getattr(getattr(leaf, "dtype", None), "name", "")  # of either byte order
        if name in ("float32", "float64"):
            return name
    return "float32"


def _dtype_name(dtype: Any) -> Any:
    """The name of NumPy's and JAX's dtypes; what is none stays what it is."""
    try:
        return np.dtype(dtype).name
    except (TypeError, ValueError):
        return dtype


def _check_schedules(method: Any) -> None:
    """A function of t must be one that can be compiled: no `if` on t."""
    for part in jax.tree.leaves(method, is_leaf=lambda node: isinstance(node, schedules.Function)):
        if isinstance(part, schedules.Function):
            try:
                jax.eval_shape(part, jax.ShapeDtypeStruct((), "float32"))
            except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
                raise TypeError(
                    "a step size or momentum as a function of t is compiled: it cannot branch on t with `if` or call "
                    "NumPy; use retrax.schedules.piecewise(0.1, {100: 0.01}) or jax.numpy.where(t < 100, 0.1, 0.01)"
                ) from None
