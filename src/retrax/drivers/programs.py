"""Compiled programs: those used last are kept, so that a process can see any number of losses, methods and shapes.

A program is about 2 MB and 65 memory maps. JAX would keep every one whose function is alive; Linux allows a process
65530 maps, and beyond that the compiler crashes: after 330 runs with a new lambda each.
"""

import collections
import functools
import threading
from collections.abc import Callable
from typing import Any

import jax

from retrax.drivers import cache, trial

MOST = 40
"""So many programs are kept; a run needs three. What is dropped and asked for again is compiled again."""

_kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()
_lock = threading.Lock()


def compiled(
    function: Callable[..., Any],
    statics: tuple[Any, ...],
    *arguments: Any,
    options: dict[str, Any] | None = None,
    otherwise: tuple[Any, ...] | None = None,
) -> Callable[..., Any]:
    """`function(*statics, ...)` compiled for arguments of these structures, shapes, dtypes and places.

    Where there is an `otherwise`, it is tried in another process, and `function(*otherwise, ...)` is what remains.
    """
    key = (function, statics, jax.config.read("jax_enable_x64"), *_kind(arguments))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]

    def lower() -> Any:
        # A function of its own for each program: JAX drops what it knows of it together with the function.
        return jax.jit(functools.partial(function, *statics), compiler_options=options).lower(*arguments)

    if otherwise is None:
        program = cache.compiled(lower(), options)
    else:
        program = trial.compiled(lower, options or {}) or compiled(function, otherwise, *arguments, options=options)
    with _lock:
        _kept[key] = program
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return program


def call(function: Callable[..., Any], statics: tuple[Any, ...], *arguments: Any) -> Any:
    """`function(*statics, *arguments)`, compiled."""
    return compiled(function, statics, *arguments)(*arguments)


def _kind(arguments: Any) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple((leaf.shape, leaf.dtype, getattr(leaf, "sharding", None)) for leaf in leaves)
