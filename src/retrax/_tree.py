"""Arithmetic on pytrees of arrays, and dataclasses that are pytrees.

`pytree` makes a frozen dataclass whose numbers are leaves: a change of η₀ is then a change of data, not of program.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """A field of a `pytree` dataclass that is structure, not data."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static,))
def pytree(cls: type[T]) -> type[T]:
    """A frozen dataclass, registered with JAX; fields made by `static` are part of the structure."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def tree_map(function: Callable[..., Any], *trees: Any) -> Any:
    """`function` leaf by leaf; a bare array, the common case, takes the short way."""
    if hasattr(trees[0], "shape"):
        return function(*trees)
    return jax.tree.map(function, *trees)


def add(u: Any, v: Any) -> Any:
    """u + v."""
    return tree_map(lambda a, b: a + b, u, v)


def subtract(u: Any, v: Any) -> Any:
    """u - v."""
    return tree_map(lambda a, b: a - b, u, v)


def scale(factor: Any, u: Any) -> Any:
    """factor · u."""
    return tree_map(lambda a: factor * a, u)


def combine(a: Any, u: Any, b: Any, v: Any) -> Any:
    """a·u + b·v."""
    return tree_map(lambda p, q: a * p + b * q, u, v)
