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

from retrax import _cache, _machine_code, _names, _precision

MOST = 40
"""So many programs are kept; a run needs three. What is dropped and asked for again is compiled again."""

_kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()
_lock = threading.Lock()


def compiled(
    function: Callable[..., Any],
    statics: tuple[Any, ...],
    *arguments: Any,
    options: dict[str, Any] | None = None,
    lower: Callable[[], Any] | None = None,
) -> Callable[..., Any]:
    """`function(*statics, ...)` compiled for arguments of these structures, shapes, dtypes and places.

    `lower` may give another program in its place, lowered or compiled, that does the same in a form of its own. It is
    not asked where the program is on disk and known by its parts; what is compiled already is not kept there.
    """
    structure, leaves = kind(arguments)
    key = (function, statics, lower is None, *circumstances(), structure, leaves)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    named = _cache.is_on() and _machine_code.is_possible()
    name = _names.of_parts(function, (statics, lower is None), arguments, leaves, options) if named else None
    program = None if name is None else _machine_code.found(name, arguments, leaves)
    if program is None:
        found = lowered(function, statics, *arguments, options=options) if lower is None else lower()
        program = _made(name, found, arguments, options)
    with _lock:
        _kept[key] = program
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    return program


def _made(name: str | None, found: Any, arguments: tuple[Any, ...], options: dict[str, Any] | None) -> Any:
    """What was lowered, compiled, and kept under this name; what was compiled, as it is."""
    if not isinstance(found, jax.stages.Lowered):
        return found
    if name is None:
        return _cache.compiled(found, options)
    program = found.compile()
    _machine_code.keep(name, found, program.runtime_executable(), arguments)
    return program


def text(
    function: Callable[..., Any], statics: tuple[Any, ...], *arguments: Any, options: dict[str, Any] | None = None
) -> str:
    """The same program in StableHLO. Whoever compiles it next need not trace it again."""
    return lowered(function, statics, *arguments, options=options).as_text()


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


def lowered(
    function: Callable[..., Any], statics: tuple[Any, ...], *arguments: Any, options: dict[str, Any] | None = None
) -> Any:
    """The same program, traced and lowered; the last one is remembered."""
    return _last_lowered(function, statics, *kind(arguments), tuple((options or {}).items()), *circumstances())


@functools.lru_cache(maxsize=1)
def _last_lowered(
    function: Callable[..., Any], statics: tuple[Any, ...], structure: Any, leaves: Any, options: Any, *_: Any
) -> Any:
    # A function of its own for each program: JAX drops what it knows of it together with the function.
    # All arguments stay in it: whoever loads it knows them all, and not which of them it needs.
    own = functools.partial(function, *statics)
    program = jax.jit(own, compiler_options=dict(options) or None, keep_unused=True)
    return _precision.lowered(program, *jax.tree.unflatten(structure, leaves))


def circumstances() -> tuple[Any, ...]:
    """Settings of JAX that a program depends on."""
    return *map(_precision.setting, ("jax_enable_x64", "jax_debug_nans", "jax_debug_infs")), _default_device()


def _default_device() -> Any:
    return _precision.setting("jax_default_device") or jax.local_devices()[0]
