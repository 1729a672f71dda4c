"""Checks of single arguments, for every layer of the package: it imports nothing of it."""

import math
import numbers
from typing import Any

LONGEST_AXIS = 2**31 - 1
"""What XLA's indices reach; a longer axis is a slip of the pen."""


def integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """`value` as an int with least ≤ value ≤ most, or a ValueError that names it."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be an integer {allowed}, not {value!r}")


def size(value: Any, name: str) -> int:
    """`value` as the length of an array's axis, or a ValueError that names it."""
    length = integer(value, name, least=1)
    if length > LONGEST_AXIS:
        raise ValueError(f"{name} must be at most {LONGEST_AXIS}, as the axes of arrays are, not {length}")
    return length


def is_real(value: Any) -> bool:
    """Whether `value` is a real number that a float can hold; NaN and infinity are."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def real(value: Any, name: str) -> float:
    """`value` as a float that is not NaN, or a ValueError that names it."""
    if is_real(value) and not math.isnan(value):
        return float(value)
    raise ValueError(f"{name} must be a number, not {value!r}")


def positive_number(value: Any, name: str) -> float:
    """`value` as a float with 0 < value < ∞, or a ValueError that names it."""
    if is_real(value) and 0 < float(value) < math.inf:
        return float(value)
    raise ValueError(f"{name} must be a positive number, not {value!r}")


def one_of(value: Any, name: str, *allowed: str) -> str:
    """`value` if it is one of these words, or a ValueError that names it."""
    if isinstance(value, str) and value in allowed:
        return value
    *others, last = map(repr, allowed)
    raise ValueError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")
