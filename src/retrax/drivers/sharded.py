"""Data-parallel runs: the samples are split over devices or processes; point, state and steps are the same on all.

Each device finds the samples it holds, one sum brings the batches of a whole stretch together, and large mini-batches
are split again for their gradients. Samples are drawn as on one device, so the result is the same up to rounding.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from retrax._tree import pytree, static
from retrax.drivers import jax as single
from retrax.methods import Method, State
from retrax.problems.base import Objective, Problem, SampleMean, chunk_length
from retrax.sources.arrays import Layout
from retrax.typing import Array, Batch, Point, Tangent

WORTH_SPLITTING = 256
"""Samples for each device, from which on a mini-batch's gradient is worth the message that joins its parts."""


def largest(*values: int) -> tuple[int, ...]:
    """The largest of each value over all processes, which must ask together."""
    return tuple(np.max(multihost_utils.process_allgather(np.asarray(values, dtype=np.int32)), axis=0).tolist())


@dataclasses.dataclass(frozen=True)
class SplitObjective(Objective):
    """An objective on replicated mini-batches, of which each device takes its part."""

    layout: Layout | None = None

    def gradient(self, x: Point, batch: Batch) -> Tangent:
        """grad f_S(x): the mean of the devices' gradients."""
        parts, rows = self.layout.parts, jax.tree.leaves(batch)[0].shape[0]  # type: ignore[union-attr]
        if rows % parts or rows // parts < WORTH_SPLITTING:
            return super().gradient(x, batch)
        share, mine = rows // parts, jax.lax.axis_index(self.layout.axes)  # type: ignore[union-attr]
        part = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, mine * share, share), batch)
        return jax.lax.pmean(super().gradient(x, part), self.layout.axes)  # type: ignore[union-attr]

    def gradients(self, x: Point, y: Point, batch: Batch) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y)), each the mean of the devices' gradients."""
        return self.gradient(x, batch), self.gradient(y, batch)


def gather(layout: Layout, data: Batch, indices: Array) -> Batch:
    """Samples by their numbers, on all devices; `data` is this device's part."""
    mine = jax.lax.axis_index(layout.axes)

    def one(local: Array) -> Array:
        places = indices - (mine * local.shape[0]).astype(indices.dtype)
        held = (places >= 0) & (places < local.shape[0])
        rows = local[jnp.where(held, places, 0)]
        mask = held.reshape(held.shape + (1,) * (rows.ndim - held.ndim))
        return jax.lax.psum(jnp.where(mask, rows, jnp.zeros_like(rows)), layout.axes)

    return jax.tree.map(one, data)


@pytree
class _GatheredMean(SampleMean):
    """A mean over samples that are gathered part by part."""

    layout: Layout | None = static(default=None)

    def _part(self, start: Any, size: int) -> Batch:
        return gather(self.layout, self.data, jax.lax.dynamic_slice_in_dim(self.indices, start, size))  # type: ignore


@pytree
class SplitMean:
    """F over the samples of all devices, or over those that `indices` names; to be called inside `on_all`."""

    objective: Objective = static()
    layout: Layout = static()
    chunk: int = static()
    data: Batch
    indices: Array | None = None

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        return self._joined(lambda mean: mean(x))

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        return self._joined(lambda mean: mean.gradient(x))

    def _joined(self, evaluate: Callable[[Any], Any]) -> Any:
        if self.indices is None:
            return jax.lax.pmean(evaluate(SampleMean(self.objective, self.chunk, self.data)), self.layout.axes)
        objective = SplitObjective(**vars(self.objective), layout=self.layout)
        return evaluate(_GatheredMean(objective, self.chunk, self.data, self.indices, self.layout))


def on_all(layout: Layout, function: Callable[..., Any], data: Batch, *others: Any) -> Any:
    """`function(data, *others)` on every device: it sees its own part of the data, the whole of the rest."""
    specs = (PartitionSpec(layout.axes), *(PartitionSpec() for _ in others))
    return jax.shard_map(function, mesh=layout.mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)(
        data, *others
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _advance(
    layout: Layout,
    objective: Objective,
    method: Method,
    data: Batch,
    x: Point,
    state: State,
    indices: Array,
    first: Any,
    count: Any,
) -> tuple[Point, State]:
    def local(data: Batch, method: Method, x: Point, state: State, indices: Array, first: Any, count: Any) -> Any:
        batches = gather(layout, data, indices)
        split = SplitObjective(**vars(objective), layout=layout)
        return single.advance(split, method, None, x, state, batches, first, count)

    return on_all(layout, local, data, method, x, state, indices, first, count)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _restart(
    layout: Layout, objective: Objective, method: Method, mean: Any, x: Point, state: State, first: Any
) -> tuple[Point, State]:
    def local(data: Batch, mean: Any, method: Method, x: Point, state: State, first: Any) -> Any:
        return single.restart(objective, method, _with_data(mean, data), x, state, first)

    return on_all(layout, local, *_without_data(mean), method, x, state, first)


@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _measure(
    layout: Layout, objective: Objective, mean: Any, with_error: bool, x: Point, state: State
) -> dict[str, Array]:
    def local(data: Batch, mean: Any, x: Point, state: State) -> Any:
        return single.measure(objective, _with_data(mean, data), with_error, x, state)

    return on_all(layout, local, *_without_data(mean), x, state)


def _without_data(mean: Any) -> tuple[Batch, Any]:
    """The data of a mean, which are split, and the rest of it, which is not."""
    return (mean.data, dataclasses.replace(mean, data=None)) if isinstance(mean, SplitMean) else (None, mean)


def _with_data(mean: Any, data: Batch) -> Any:
    return dataclasses.replace(mean, data=data) if isinstance(mean, SplitMean) else mean


def second_moment(layout: Layout, data: Array) -> np.ndarray:
    """XᵀX/n in float64, for the rows X of all devices."""

    def local(rows: Array) -> Array:
        product = jnp.matmul(rows.T, rows, preferred_element_type=jnp.float64)
        return jax.lax.pmean(product / rows.shape[0], layout.axes)

    with single.precision("float64"):
        return np.asarray(jax.jit(lambda rows: on_all(layout, local, rows))(data))


class ShardedDriver(single.JaxDriver):
    """As `JaxDriver`, on data that are split along the samples."""

    def __init__(self, problem: Problem, method: Method, dtype: str, layout: Layout) -> None:
        super().__init__(problem, method, dtype)
        self.layout = layout
        self.everywhere = NamedSharding(layout.mesh, PartitionSpec())
        self._local_method = self.method
        self.method = self.put(self.method)

    def put(self, payload: Any) -> Any:
        """Host values, the same on all devices."""

        def one(leaf: Any) -> jax.Array:
            array = np.asarray(leaf)
            return jax.make_array_from_callback(array.shape, self.everywhere, lambda index: array[index])

        return jax.tree.map(one, payload)

    def start(self, x0: Point) -> tuple[Point, State]:
        """The first point and the method's empty state, on all devices."""
        x = single.as_point(x0, self.dtype)
        return self.put((x, self._local_method.init(self.objective.manifold, x)))

    def mean_over(self, payload: Any) -> Any:
        """F over all the data, or over the samples with these numbers."""
        if payload is None:
            mean = self.problem.full(self.data)
            if not isinstance(mean, SampleMean):
                return self.put(mean)  # from a sufficient statistic
        indices = None if payload is None else self.put(payload)
        return SplitMean(self.objective, self.layout, chunk_length(self.data), self.data, indices)

    def restart(self, x: Point, state: State, payload: Any, first: int) -> tuple[Point, State]:
        """One restart."""
        mean = self.mean_over(payload)
        return _restart(self.layout, self.objective, self.method, mean, x, state, self.put(first))

    def advance(self, x: Point, state: State, payload: Any, first: int, count: int) -> tuple[Point, State]:
        """`count` steps."""
        indices, first, count = self.put((payload, first, count))
        return _advance(self.layout, self.objective, self.method, self.data, x, state, indices, first, count)

    def measure(self, mean: Any, with_error: bool, x: Point, state: State) -> dict[str, float]:
        """A record's figures."""
        row = _measure(self.layout, self.objective, mean, with_error, x, state)
        return {name: float(value) for name, value in row.items()}

    def compile_restart(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        self.restart(x, state, payload, 1)

    def compile_advance(self, x: Point, state: State, payload: Any) -> None:
        """Compile ahead, so that the clock sees only running."""
        self.advance(x, state, payload, 1, 1)
