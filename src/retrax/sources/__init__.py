"""Where samples come from: arrays in memory, memory-mapped files, or any iterable of batches.

A source hands the driver what one stretch of steps needs: indices into arrays that live on the device, or the samples
themselves. It draws nothing at random (see `sampling`), so an array and a file of the same numbers give the same run.
"""

import os
from typing import Any

import jax

from retrax.sources.arrays import ArraySource, check_arrays
from retrax.sources.base import (
    Feed,
    LargeBatch,
    Payload,
    Samples,
    Source,
    Stretch,
    check_numbers,
    check_range,
    device_dtype,
)
from retrax.sources.generated import Generated, GeneratedSource
from retrax.sources.layout import Layout
from retrax.sources.mapped import MappedSource, is_mapped
from retrax.sources.pushed import Pushed, PushedSource
from retrax.sources.several import SeveralFeeds, SharedFeed
from retrax.sources.stream import Stream, StreamSource

__all__ = [
    "ArraySource",
    "Feed",
    "Generated",
    "GeneratedSource",
    "LargeBatch",
    "Layout",
    "MappedSource",
    "Payload",
    "Pushed",
    "PushedSource",
    "Samples",
    "SeveralFeeds",
    "SharedFeed",
    "Source",
    "Stream",
    "StreamSource",
    "Stretch",
    "as_source",
    "check_arrays",
    "check_numbers",
    "check_range",
    "device_dtype",
    "is_mapped",
]


def as_source(data: Any) -> Source:
    """The source for what a user gave as data.

    Arrays, and tuples or dicts of arrays, are data in memory. Memory-mapped arrays and paths of .npy files, or a list
    of either (read end to end), are files. Anything else that can be iterated over is a stream of batches.
    """
    if isinstance(data, Pushed):
        return PushedSource(data)
    if isinstance(data, Stream):
        return StreamSource(data)
    if isinstance(data, Generated):
        return GeneratedSource(data)
    if hasattr(data, "__next__"):
        return StreamSource(Stream(data))
    leaves = jax.tree.leaves(data, is_leaf=is_mapped)
    if any(is_mapped(leaf) for leaf in leaves):
        return MappedSource(data)
    if all(_is_array(leaf) for leaf in leaves):
        return ArraySource(jax.tree.map(_as_array, data))
    if not _is_container(data) and hasattr(data, "__iter__"):
        return StreamSource(Stream(data))
    bad = next(leaf for leaf in leaves if not _is_array(leaf))
    raise ValueError(
        f"data must be arrays, paths of .npy files or an iterable of batches; found {type(bad).__name__}. "
        "Lists of numbers: use numpy.asarray. A list of batches: use retrax.Stream(list)"
    )


def _is_container(data: Any) -> bool:
    return isinstance(data, list | tuple | dict | str | os.PathLike)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _as_array(leaf: Any) -> Any:
    array = leaf if isinstance(leaf, jax.Array) else check_numbers(leaf)
    if array.dtype.kind not in "fiubcV":  # JAX's own small floats, such as bfloat16, count as "V"
        raise TypeError(f"data must be made of numbers, not {array.dtype}")
    return array
