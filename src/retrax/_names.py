"""Names of programs on disk: digests of all that machine code depends on.

Where a program consists of Retrax's own parts alone, these and what its arguments look like say which one it is, and it
need not be traced to be found again. Where somebody else's function or class has a part in it, only its trace tells.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import sys
import types
from collections.abc import Sequence
from typing import Any

import jax
import jaxlib

_PACKAGE = __name__.partition(".")[0]
_SIMPLE = (type(None), bool, int, float, complex, str, bytes)


class _ForeignError(Exception):
    """A part that is not ours, of which no words tell what it does."""


def of_text(text: str, options: dict[str, Any] | None) -> str:
    """The name of a program in StableHLO."""
    return _digest(text, *_facts(options))


def of_parts(
    function: Any, statics: Any, arguments: Any, leaves: Sequence[jax.ShapeDtypeStruct], options: dict[str, Any] | None
) -> str | None:
    """The name of `function(*statics, *arguments)` for arguments of these shapes; None where parts are not ours."""
    settings = getattr(jax.config, "values", None)
    if settings is None or any(leaf.sharding is not None for leaf in leaves):
        return None
    try:
        words = _words(function), _words(statics), _words(arguments, arrays=True), _own_source()
    except _ForeignError:
        return None
    shapes = [(leaf.shape, str(leaf.dtype)) for leaf in leaves]
    return _digest(*words, shapes, settings, os.environ.get("XLA_FLAGS"), *_facts(options))


def _digest(*facts: Any) -> str:
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:40]


def _facts(options: dict[str, Any] | None) -> tuple[Any, ...]:
    devices = [(device.platform, device.device_kind, device.id) for device in jax.devices()]
    return jax.__version__, jaxlib.__version__, _processor(), devices, sorted((options or {}).items())


@functools.cache
def _processor() -> str:
    """The instructions that this machine knows, as far as the system tells."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"


@functools.cache
def _own_source() -> str:
    """A digest of this package's files, and the versions of what they compute constants with."""
    folder = pathlib.Path(__file__).parent
    try:
        contents = [(str(file.relative_to(folder)), file.read_bytes()) for file in sorted(folder.rglob("*.py"))]
        versions = [importlib.metadata.version(name) for name in ("array-api-compat", "numpy", "scipy")]
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        raise _ForeignError(f"not all that programs are made with is known: {error}") from error
    if not contents:
        raise _ForeignError("the package is no folder of files")
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return f"{digest.hexdigest()} {versions}"


def _words(value: Any, arrays: bool = False) -> str:
    """A value in words that are the same in every process; `arrays`: arrays are arguments, of which shapes tell all."""
    if type(value) in _SIMPLE:
        return repr(value)
    if arrays and hasattr(value, "shape") and hasattr(value, "dtype"):
        return "array"
    if isinstance(value, types.FunctionType | type):
        return _name_of_own(value)
    if type(value) in (tuple, list):
        return f"{type(value).__name__}[{', '.join(_words(one, arrays) for one in value)}]"
    if type(value) is dict:
        return f"dict[{', '.join(f'{_words(key)}: {_words(one, arrays)}' for key, one in value.items())}]"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{_name_of_own(type(value))}[{', '.join(_words(one, arrays) for one in value)}]"
    if dataclasses.is_dataclass(value):
        return f"{_name_of_own(type(value))}[{', '.join(_fields(value, arrays))}]"
    raise _ForeignError(type(value).__name__)


def _fields(value: Any, arrays: bool) -> list[str]:
    """The fields of a dataclass, of which the static ones hold no arguments."""
    fields = dataclasses.fields(value)
    if getattr(value, "__dict__", {}).keys() - {field.name for field in fields}:
        raise _ForeignError(f"{type(value).__name__} carries more than its fields")
    return [
        f"{field.name}={_words(getattr(value, field.name), arrays and not field.metadata.get('static'))}"
        for field in fields
    ]


def _name_of_own(value: Any) -> str:
    """Where a function or a class of ours stands."""
    module, name = value.__module__, value.__qualname__
    if module.partition(".")[0] != _PACKAGE or _found(module, name) is not value:
        raise _ForeignError(f"{module}.{name}")
    return f"{module}.{name}"


def _found(module: str, name: str) -> Any:
    """What is called so; a function made inside another one is not found by its name."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), sys.modules.get(module))
