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
    place = leaf.sharding if isinstance(leaf, jax.ShapeDtypeStruct) or getattr(leaf, "committed", False) else None
    if isinstance(place, jax.sharding.SingleDeviceSharding) and place.device_set == {_default_device()}:
        place = None  # where it would be anyway, as what programs of a trial return
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
    return *map(setting, ("jax_enable_x64", "jax_debug_nans", "jax_debug_infs")), _default_device()


def _default_device() -> Any:
    return setting("jax_default_device") or jax.local_devices()[0]


def setting(name: str) -> Any:
    """JAX reads settings that hold within a context in one way, and others in another."""
    return getattr(jax.config, name) if hasattr(jax.config, name) else jax.config.read(name)
