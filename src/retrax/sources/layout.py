"""Samples that are split over devices: how, and programs that run on all of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from retrax._precision import precision
from retrax.typing import Array, Batch


@dataclasses.dataclass(frozen=True)
class Layout:
    """How samples are split over devices: along these axes of a mesh."""

    mesh: Mesh
    axes: tuple[str, ...]
    by_feature: bool = False
    """Whether each device holds some entries of every sample, instead of some of the samples."""

    @property
    def parts(self) -> int:
        """The number of parts."""
        return int(np.prod([self.mesh.shape[axis] for axis in self.axes]))

    @property
    def spans_processes(self) -> bool:
        """Whether other processes hold some of the parts."""
        return len({device.process_index for device in self.mesh.devices.flat}) > 1


def layout_of(data: Batch) -> Layout | None:
    """How the data are split over devices; None where one device holds them."""
    shardings = [leaf.sharding if isinstance(leaf, jax.Array) else None for leaf in jax.tree.leaves(data)]
    if all(sharding is None or len(sharding.device_set) == 1 for sharding in shardings):
        return None
    layouts = {_layout_of_sharding(sharding) for sharding in shardings}
    is_matrix = getattr(data, "ndim", 0) == 2
    if len(layouts) > 1 or None in layouts or any(layout.by_feature and not is_matrix for layout in layouts):  # type: ignore[union-attr]
        raise ValueError(
            "data on several devices must be split along the samples, all arrays alike, or one matrix along its "
            "features: use jax.device_put(data, NamedSharding(mesh, PartitionSpec('data')))"
        )
    return layouts.pop()


def _layout_of_sharding(sharding: Any) -> Layout | None:
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    split = [place for place, entry in enumerate(sharding.spec) if entry is not None]
    if split not in ([0], [1]):
        return None
    axis = sharding.spec[split[0]]
    mesh = sharding.mesh
    if split == [1]:  # JAX is to divide whole programs, which it does along axes of this kind only
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
    return Layout(mesh, axis if isinstance(axis, tuple) else (axis,), by_feature=split == [1])


def on_all(layout: Layout, function: Callable[..., Any], data: Batch, *others: Any) -> Any:
    """`function(data, *others)` on every device: it sees its own part of the data, the whole of the rest."""
    specs = (PartitionSpec(layout.axes), *(PartitionSpec() for _ in others))
    return jax.shard_map(function, mesh=layout.mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)(
        data, *others
    )


def second_moment(layout: Layout, data: Array) -> np.ndarray:
    """XᵀX/n in float64, for the rows X of all devices."""

    def local(rows: Array) -> Array:
        product = jnp.matmul(rows.T, rows, preferred_element_type=jnp.float64)
        return jax.lax.pmean(product / rows.shape[0], layout.axes)

    with precision("float64"):
        return np.asarray(jax.jit(lambda rows: on_all(layout, local, rows))(data))


def sum_over_processes(values: list[int]) -> list[int]:
    """The sums mod 2⁶⁴ of all processes' values, which must ask together."""
    with precision("float64"):
        every = np.asarray(multihost_utils.process_allgather(np.asarray(values, dtype=np.uint64)))
    return [sum(map(int, column)) % 2**64 for column in every.reshape(-1, len(values)).T]
