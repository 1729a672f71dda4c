"""Where a run's samples are: on one device, or split over several, which then all take the same steps.

Samples split: each device finds the ones it holds, one sum brings the batches of a whole stretch together, and large
mini-batches are split again for their gradients. Samples are drawn as on one device, so the result is the same up to
rounding.

Features split: each device holds some entries of every sample, and the same rows of the point and of all that is like
it. JAX divides the program; steps in a span exchange nothing but their small Gram matrices.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from retrax._tree import pytree, static
from retrax.problems.base import Mean, Objective, SampleMean
from retrax.sources.layout import Layout, on_all
from retrax.typing import Array, Batch, Point, Tangent

WORTH_SPLITTING = 256
"""Samples for each device, from which on a mini-batch's gradient is worth the message that joins its parts."""


class _Placement:
    """Programs are run as they are written, where a subclass says nothing else."""

    def call(self, function: Callable[..., Any], data: Batch, *others: Any) -> Any:
        """`function(data, *others)`."""
        return function(data, *others)

    def steps(self, objective: Objective, data: Batch, batches: Any) -> tuple[Objective, Batch, Any]:
        """What `loop.advance` works on: batches are gathered by their indices, step by step."""
        return objective, data, batches

    def mean(self, objective: Objective, chunk: int, data: Batch, indices: Array | None) -> Mean:
        """F over the samples that `indices` names (None: all)."""
        return SampleMean(objective, chunk, data, indices)

    def along(self, function: Callable[..., tuple[Any, Any]], *matrices: Array) -> tuple[Any, Any]:
        """`function(*matrices)`, which works column by column: what it sums over columns, and what has them itself."""
        return function(*matrices)


@dataclasses.dataclass(frozen=True)
class OneDevice(_Placement):
    """All samples on one device."""

    def put(self, tree: Any) -> Any:
        """Host values as device arrays."""
        return jax.tree.map(jnp.asarray, tree)


@dataclasses.dataclass(frozen=True)
class SplitRows(_Placement):
    """Features split over devices or processes, and the rows of the point with them."""

    layout: Layout
    length: int
    """Of the axis that is split."""

    def put(self, tree: Any) -> Any:
        """Host values: matrices with as many rows are split, the rest is the same on all devices."""
        return jax.tree.map(lambda leaf: _placed(self.layout, leaf, self._is_split(leaf)), tree)

    def resident(self, data: Array) -> Array:
        """The samples, on this layout's own mesh."""
        return jax.device_put(data, NamedSharding(self.layout.mesh, PartitionSpec(None, self.layout.axes)))

    def along(self, function: Callable[..., tuple[Any, Any]], *matrices: Array) -> tuple[Any, Any]:
        """The same, of the columns that each device has; sums are added up."""
        axes, everywhere = self.layout.axes, PartitionSpec()
        split = PartitionSpec(None, axes)

        def local(*parts: Array) -> tuple[Any, Any]:
            sums, columns = function(*parts)
            return jax.lax.psum(sums, axes), columns

        specs = tuple(split if one.shape[1:] == (self.length,) else everywhere for one in matrices)
        out = (everywhere, split)
        return jax.shard_map(local, mesh=self.layout.mesh, in_specs=specs, out_specs=out, check_vma=False)(*matrices)

    def _is_split(self, leaf: Any) -> bool:
        return np.ndim(leaf) == 2 and np.shape(leaf)[0] == self.length


def _placed(layout: Layout, leaf: Any, split: bool) -> jax.Array:
    """A host value that all processes have, on the devices: its first axis split, or the whole on each."""
    array = np.asarray(leaf)
    sharding = NamedSharding(layout.mesh, PartitionSpec(layout.axes) if split else PartitionSpec())
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


@dataclasses.dataclass(frozen=True)
class SeveralDevices(_Placement):
    """Samples split over devices or processes; programs run on all of them."""

    layout: Layout

    def put(self, tree: Any) -> Any:
        """Host values, the same on all devices."""
        return jax.tree.map(lambda leaf: _placed(self.layout, leaf, split=False), tree)

    def call(self, function: Callable[..., Any], data: Batch, *others: Any) -> Any:
        """`function(data, *others)` on every device, with its own part of the data."""
        return on_all(self.layout, function, data, *others)

    def steps(self, objective: Objective, data: Batch, batches: Any) -> tuple[Objective, None, Any]:
        """What `loop.advance` works on: the batches of the whole stretch, on all devices."""
        return SplitObjective(**vars(objective), layout=self.layout), None, gather(self.layout, data, batches)

    def mean(self, objective: Objective, chunk: int, data: Batch, indices: Array | None) -> Mean:
        """F over the samples of all devices, or over those that `indices` names; inside `call`."""
        return SplitMean(objective, self.layout, chunk, data, indices)


Devices = OneDevice | SplitRows | SeveralDevices


def devices_of(layout: Layout | None, shape: Any) -> Devices:
    """Where samples of such a layout are, for points of such a shape."""
    if layout is None:
        return OneDevice()
    return SplitRows(layout, shape[0]) if layout.by_feature else SeveralDevices(layout)


def whole(leaf: Any) -> np.ndarray:
    """A NumPy copy, also of an array whose parts other processes hold; these must ask together."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable and not leaf.is_fully_replicated:
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
    return np.asarray(leaf)


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
    """F over the samples of all devices, or over those that `indices` names."""

    objective: Objective = static()
    layout: Layout = static()
    chunk: int = static()
    data: Batch
    indices: Array | None = None

    @property
    def size(self) -> int:
        """The number of samples."""
        if self.indices is not None:
            return int(self.indices.shape[0])
        return int(jax.tree.leaves(self.data)[0].shape[0]) * self.layout.parts

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        return self._joined(lambda mean: mean(x))

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        return self._joined(lambda mean: mean.gradient(x))

    def parts(self, first: int) -> Any:
        """F over the first so many of the samples that `indices` names, and over the rest."""
        if self.indices is None or not 0 < first < self.size:
            return None
        cut = (self.indices[:first], self.indices[first:])
        return tuple(dataclasses.replace(self, indices=indices) for indices in cut)

    def _joined(self, evaluate: Callable[[Any], Any]) -> Any:
        if self.indices is None:
            return jax.lax.pmean(evaluate(SampleMean(self.objective, self.chunk, self.data)), self.layout.axes)
        objective = SplitObjective(**vars(self.objective), layout=self.layout)
        return evaluate(_GatheredMean(objective, self.chunk, self.data, self.indices, self.layout))


def largest(*values: int) -> tuple[int, ...]:
    """The largest of each value over all processes, which must ask together."""
    with jax.enable_x64(True):
        return tuple(np.max(multihost_utils.process_allgather(np.asarray(values, dtype=np.int64)), axis=0).tolist())
