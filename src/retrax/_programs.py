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

from retrax import _cache
from retrax._precision import lowered

MOST = 40
"""So many programs are kept; a run needs three. What is dropped and asked for again is compiled again."""

_kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()
_lock = threading.Lock()


def compiled(
    function: Callable[..., Any],
    statics: tuple[Any, ...],
    *arguments: Any,
    options: dict[str, Any] | None = None,
    attempt: Callable[[Callable[[], Any], dict[str, Any]], Any] | None = None,
    otherwise: tuple[Any, ...] = (),
) -> Callable[..., Any]:
    """`function(*statics, ...)` compiled for arguments of these structures, shapes, dtypes and places.

    Where there is an `attempt`, it may compile what the first of its arguments gives, given the compiler's options; if
    it returns None, `function(*otherwise, ...)` is what remains.
    """
    key = (function, statics, *_circumstances(), *kind(arguments))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    lower = functools.partial(_lowered, function, statics, arguments, options)
    if attempt is None:
        program = _cache.compiled(lower(), options)
    else:
        program = attempt(lower, options or {}) or compiled(function, otherwise, *arguments, options=options)
    with _lock:
        _kept[key] = program
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return program


def text(
    function: Callable[..., Any], statics: tuple[Any, ...], *arguments: Any, options: dict[str, Any] | None = None
) -> str:
    """The same program in StableHLO. Whoever compiles it next need not trace it again."""
    return _lowered(function, statics, arguments, options).as_text()


def forget() -> None:
    """Drop everything, as in a fresh process; JAX keeps what it keeps."""
    with _lock:
        _kept.clear()
    _last_lowered.cache_clear()


def call(function: Callable[..., Any], statics: tuple[Any, ...], *arguments: Any) -> Any:
    """`function(*statics, *arguments)`, compiled."""
    return compiled(function, statics, *arguments)(*arguments)


def kind(arguments: Any) -> tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]:
    """What of its arguments a program depends on: their structure, shapes and dtypes, and where they have to be."""
    leaves, structure = jax.tree.flatten(arguments)
    return structure, tuple(map(_abstract, leaves))


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    given = isinstance(leaf, jax.ShapeDtypeStruct) or getattr(leaf, "committed", False)
    place = leaf.sharding if given else None
    return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), sharding=place)


def _lowered(
    function: Callable[..., Any], statics: tuple[Any, ...], arguments: Any, options: dict[str, Any] | None
) -> Any:
    return _last_lowered(function, statics, *kind(arguments), tuple((options or {}).items()), *_circumstances())


@functools.lru_cache(maxsize=1)
def _last_lowered(
    function: Callable[..., Any], statics: tuple[Any, ...], structure: Any, leaves: Any, options: Any, *_: Any
) -> Any:
    # A function of its own for each program: JAX drops what it knows of it together with the function.
    program = jax.jit(functools.partial(function, *statics), compiler_options=dict(options) or None)
    return lowered(program, *jax.tree.unflatten(structure, leaves))


def _circumstances() -> tuple[Any, ...]:
    """Settings of JAX that a program depends on."""
    return jax.config.read("jax_enable_x64"), getattr(jax.config, "jax_default_device", None)
