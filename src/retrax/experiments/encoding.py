"""Typed results to JSON and back: one pair of functions, driven by the annotations of frozen dataclasses."""

import dataclasses
import functools
import math
import types
import typing
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class UnreadableError(ValueError):
    """What was read is not what was written; the message says in one line where and why."""


def to_json(value: Any) -> Any:
    """Something JSON can hold: dataclasses as objects, arrays as lists, 7 digits, NaN and infinities as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def from_json(kind: type[T], content: Any) -> T:
    """The value of type `kind` that `to_json` made `content` from; UnreadableError where it cannot be that."""
    return typing.cast(T, _read(kind, content, ""))


def _read(kind: Any, content: Any, where: str) -> Any:
    """A value of an annotated type. Types are read strictly, but for null: it stands for NaN among floats."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_dataclass(kind, content, where)
    if kind is np.ndarray:
        return _read_array(content, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _read_tuple(arguments, content, where)
    if origin is dict:
        _expect(isinstance(content, dict), content, "an object", where)
        return {key: _read(arguments[1], item, f"{where}.{key}") for key, item in content.items()}
    if origin in (types.UnionType, typing.Union):
        return _read_union(arguments, content, where)
    if kind is float:
        _expect(content is None or _is_number(content), content, "a number", where)
        return math.nan if content is None else float(content)
    _expect(type(content) is kind, content, _NAMES[kind], where)
    return content


_NAMES = {int: "a whole number", str: "a text", bool: "true or false", types.NoneType: "null"}


def _read_dataclass(kind: type, content: Any, where: str) -> Any:
    _expect(isinstance(content, dict), content, "an object", where)
    hints = _hints(kind)
    missing, unknown = [name for name in hints if name not in content], [name for name in content if name not in hints]
    if missing or unknown:
        said = f"lacks {', '.join(missing)}" if missing else f"has an unknown {', '.join(unknown)}"
        raise UnreadableError(f"{where.lstrip('.') or 'it'} {said}")
    return kind(**{name: _read(hint, content[name], f"{where}.{name}") for name, hint in hints.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _read_tuple(arguments: tuple[Any, ...], content: Any, where: str) -> tuple[Any, ...]:
    _expect(isinstance(content, list), content, "a list", where)
    if arguments[-1] is Ellipsis:
        arguments = arguments[:1] * len(content)
    _expect(len(content) == len(arguments), content, f"a list of {len(arguments)}", where)
    pairs = enumerate(zip(arguments, content, strict=True))
    return tuple(_read(kind, item, f"{where}[{number}]") for number, (kind, item) in pairs)


def _read_union(arguments: tuple[Any, ...], content: Any, where: str) -> Any:
    """The first alternative that fits; null means None where None is one of them."""
    if content is None and types.NoneType in arguments:
        return None
    reasons = []
    for kind in arguments:
        try:
            return _read(kind, content, where)
        except UnreadableError as error:
            reasons.append(str(error))
    raise UnreadableError(reasons[0])


def _read_array(content: Any, where: str) -> np.ndarray:
    _expect(isinstance(content, list), content, "a list", where)
    try:
        return np.array(content, dtype=np.float64)  # null becomes NaN
    except (TypeError, ValueError):
        raise UnreadableError(f"{where.lstrip('.')} is no array of numbers") from None


def _is_number(content: Any) -> bool:
    return isinstance(content, int | float) and not isinstance(content, bool)


def _expect(fits: bool, content: Any, wanted: str, where: str) -> None:
    if not fits:
        shown = "null" if content is None else "a list" if isinstance(content, list) else type(content).__name__
        raise UnreadableError(f"{where.lstrip('.') or 'it'} should be {wanted}, not {shown}")
