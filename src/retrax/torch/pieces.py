"""Steps of many small matrices, a few at a time: what lies between a step's operations then stays in the cache."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import torch
from torch import Tensor

_ENTRIES = 2**17
"""Of a piece: half a megabyte in single precision, which a second-level cache holds."""


class Found(NamedTuple):
    """What a step has found, and the sums of all tensors in it, taken while they are at hand."""

    tree: Any
    sums: list[Tensor]


def in_pieces(step: Callable[..., Any], batched: bool, x: Tensor, *given: Any) -> Found:
    """`step(x, *given)`, of trees whose tensors, if `batched`, all begin with x's first axis, and so must the result's.

    Pieces of that axis take the step one after the other, where x is too large for the cache and lies in main memory.
    """
    length = _length(x) if batched else None
    if length is None:
        tree = step(x, *given)
        return Found(tree, [leaf.sum() for leaf in tensors(tree)])
    whole: Any = None
    sums: list[Tensor] = []
    for start in range(0, len(x), length):
        part = step(*jax.tree.map(lambda leaf: _piece(leaf, start, length), (x, *given)))  # noqa: B023
        if whole is None:
            whole = jax.tree.map(lambda leaf: _room(leaf, len(x)), part)
        jax.tree.map(lambda room, leaf: _write(_piece(room, start, length), leaf), whole, part)  # noqa: B023
        sums += [leaf.sum() for leaf in tensors(part)]
    return Found(whole, sums)


def _length(x: Tensor) -> int | None:
    """How many indices of the first axis make a piece; None where pieces would not pay."""
    if not x.is_cpu or x.numel() < 2 * _ENTRIES or torch.compiler.is_compiling():
        return None
    length = _ENTRIES * len(x) // x.numel()
    return length if length > 1 else None


def _piece(leaf: Any, start: int, length: int) -> Any:
    return leaf.narrow(0, start, min(length, len(leaf) - start)) if _is_batch(leaf) else leaf


def _room(leaf: Any, count: int) -> Any:
    return leaf.new_empty((count, *leaf.shape[1:])) if _is_batch(leaf) else leaf


def _write(room: Any, leaf: Any) -> None:
    if _is_batch(leaf):
        room.copy_(leaf)


def _is_batch(leaf: Any) -> bool:
    """Whether it has a first axis; a number, or a tensor that holds one, is the same for all pieces."""
    return isinstance(leaf, Tensor) and leaf.ndim > 0


def tensors(tree: Any) -> list[Tensor]:
    """The floating-point tensors of nested dicts, tuples and lists (spelled out, so that torch can compile it)."""
    if isinstance(tree, Tensor):
        return [tree] if tree.is_floating_point() else []
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, tuple | list) else ()
    return [leaf for part in parts for leaf in tensors(part)]
