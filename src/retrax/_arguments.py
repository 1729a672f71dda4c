"""Checks of single arguments, for every layer of the package: it imports nothing of it."""

import numbers
from typing import Any


def integer(value: Any, name: str, least: int, most: int | None = None) -> int:
    """`value` as an int with least ≤ value ≤ most, or a ValueError that names it."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be an integer {allowed}, not {value!r}")


def positive_number(value: Any, name: str) -> float:
    """`value` as a float with 0 < value < ∞, or a ValueError that names it."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) < float("inf"):
        return float(value)
    raise ValueError(f"{name} must be a positive number, not {value!r}")
