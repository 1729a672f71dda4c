"""Schedules: functions of the step number t = 1, 2, ... for step sizes η_t, momentum ρ_t and batch sizes.

A schedule is a value. It can be scaled, added to or bounded by another (`2 * s`, `s + r`, `minimum(s, r)`), and
any function of t can stand in its place. Its numbers are data to the compiler: changing them recompiles nothing.
"""

import math
import numbers
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from retrax import _linalg
from retrax._arguments import integer, is_real
from retrax._tree import pytree, static


class Schedule:
    """A function of t that can be combined with numbers and other schedules.

    As a step size (`retrax.step_sizes.StepSize`) it looks at t only, and remembers nothing.
    """

    def __call__(self, t: Any) -> Any:
        """The value at step t."""
        raise NotImplementedError

    def init(self, manifold: Any, x: Any) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def apply(
        self, manifold: Any, x: Any, direction: Any, estimate: Any, memory: tuple[()], t: Any
    ) -> tuple[Any, tuple[()]]:
        """η_t."""
        return self(t), memory

    def __mul__(self, other: Any) -> "Schedule":
        return Multiplied(self, as_schedule(other))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> "Schedule":
        return Sum(self, as_schedule(other))

    __radd__ = __add__


@pytree
class Constant(Schedule):
    """The same value at every step."""

    value: float

    def __call__(self, t: Any) -> Any:
        """`value`."""
        return self.value


@pytree
class Power(Schedule):
    """initial · (t + offset)^exponent."""

    initial: float
    exponent: float
    offset: float = 0.0

    def __call__(self, t: Any) -> Any:
        """initial · (t + offset)^exponent."""
        return self.initial * (t + self.offset) ** self.exponent


@pytree
class Function(Schedule):
    """A user's own function of t. It is part of the program: another function is another compilation."""

    function: Callable[[Any], Any] = static()

    def __call__(self, t: Any) -> Any:
        """function(t), in the kind of number that t is."""
        return self.function(t) + 0 * t


@pytree
class Multiplied(Schedule):
    """The product of two schedules."""

    first: Schedule
    second: Schedule

    def __call__(self, t: Any) -> Any:
        """first(t) · second(t)."""
        return self.first(t) * self.second(t)


@pytree
class Sum(Schedule):
    """The sum of two schedules."""

    first: Schedule
    second: Schedule

    def __call__(self, t: Any) -> Any:
        """first(t) + second(t)."""
        return self.first(t) + self.second(t)


@pytree
class Minimum(Schedule):
    """The smaller of two schedules."""

    first: Schedule
    second: Schedule

    def __call__(self, t: Any) -> Any:
        """min(first(t), second(t))."""
        return _smaller(self.first(t), self.second(t))


def _smaller(a: Any, b: Any) -> Any:
    arrays = [value for value in (a, b) if not isinstance(value, numbers.Number)]
    if not arrays:
        return min(a, b)
    return _linalg.namespace(arrays[0]).where(a < b, a, b)


def constant(value: float) -> Schedule:
    """The same value at every step."""
    return Constant(_number(value, "the value of constant(...)"))


def power(initial: float, exponent: float, offset: float = 0.0) -> Schedule:
    """initial · (t + offset)^exponent; the paper's are power(η₀, -1/3) and power(ρ₀, -2/3)."""
    given = (initial, "initial"), (exponent, "the exponent"), (offset, "the offset")
    return Power(*(_number(value, f"{name} of power(...)") for value, name in given))


def minimum(first: Any, second: Any) -> Schedule:
    """The smaller of two schedules (or numbers) at every step."""
    return Minimum(as_schedule(first), as_schedule(second))


def as_schedule(value: Any, from_number: Callable[[float], Schedule] = Constant) -> Schedule:
    """A schedule from a number (by `from_number`), a schedule (itself), or a function of t."""
    if isinstance(value, Schedule):
        return value
    if is_number(value):
        return from_number(value)
    if callable(value) and not isinstance(value, type):
        return Function(value)
    shown = textwrap.shorten(repr(value), 60, placeholder=" ...")
    raise TypeError(f"expected a number, a schedule or a function of t, not {type(value).__name__}: {shown}")


def is_number(value: Any) -> bool:
    """Whether value is one real number: Python's, NumPy's, or a 0-dimensional array (possibly traced)."""
    if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
        return getattr(value.dtype, "kind", "f") in "fiuV"  # PyTorch's dtypes have no kind; bfloat16's is V
    return is_real(value)


def _number(value: Any, name: str) -> Any:
    if not is_number(value):
        shown = textwrap.shorten(repr(value), 60, placeholder=" ...")
        raise TypeError(f"{name} must be a number, not {type(value).__name__}: {shown}")
    return value


@pytree
class Piecewise(Schedule):
    """values[k] from step starts[k] on, and `first` before."""

    first: float
    starts: tuple[int, ...]
    values: tuple[float, ...]

    def __call__(self, t: Any) -> Any:
        """The value of the last start that t has reached."""
        value = self.first + 0 * t
        for start, later in zip(self.starts, self.values, strict=True):
            value = _choose(t >= start, later + 0 * t, value)
        return value


def _choose(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    return _linalg.namespace(condition).where(condition, a, b)


def piecewise(first: float, changes: Mapping[int, float]) -> Schedule:
    """Constant pieces: `piecewise(0.1, {100: 0.01})` is 0.1 before step 100 and 0.01 from it on."""
    if not isinstance(changes, Mapping) or not changes:
        raise ValueError(f"piecewise needs a mapping from step numbers above 1 to values, not {changes!r}")
    starts = sorted(integer(start, "a step number of piecewise(...)", least=2, most=2**53) for start in changes)
    values = [_number(value, "a value of piecewise(...)") for value in (first, *(changes[start] for start in starts))]
    return Piecewise(values[0], tuple(starts), tuple(values[1:]))


def step_size(value: Any, exponent: float) -> Any:
    """A step size: a number η₀ becomes η₀ t^exponent, refused unless positive and finite; a part stays what it is."""
    if not isinstance(value, Schedule) and hasattr(value, "init") and hasattr(value, "apply"):
        return value
    schedule = as_schedule(value, lambda initial: Power(initial, exponent))
    first = _value_at(schedule, 1, "the step size")
    if first is not None and not (math.isfinite(first) and (first > 0 or (first == 0 and not is_number(value)))):
        if is_number(value):
            raise ValueError(f"the step size must be a positive finite number, not {value!r}; try 0.1")
        raise ValueError(f"the step size must be finite and not negative, but at t = 1 it is {first!r}")
    return schedule


def momentum(value: Any, name: str = "rho", exponent: float = 0.0) -> Schedule:
    """A schedule for a momentum parameter: a number in [0, 1] becomes value · t^exponent."""
    schedule = as_schedule(value, lambda initial: Power(initial, exponent) if exponent else Constant(initial))
    # The first step has nothing to remember, so a schedule's first value that counts is its second.
    first = _value_at(as_schedule(value) if is_number(value) else schedule, 2, name)
    if first is not None and not 0 <= first <= 1:
        if is_number(value):
            raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
        raise ValueError(
            f"{name} must lie between 0 and 1, but at t = 2 it is {first!r}; schedules.minimum(1.0, ...) cuts it"
        )
    return schedule


def _value_at(schedule: Schedule, t: int, name: str) -> float | None:
    """The schedule's value as a number; None inside a JAX transformation, where it cannot be looked at."""
    try:
        value = schedule(float(t))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise TypeError(f"{name} must be one number at every step, but at t = {t} it fails: {error}") from error
    if not is_number(value):
        raise TypeError(f"{name} must be one number at every step, but at t = {t} it is {value!r}")
    return None if _linalg.is_traced(value) else float(value)


def rsrm_theory(
    smoothness: float, mean_square_smoothness: float, batch_size: int, *, corrected: bool = True
) -> tuple[Schedule, Schedule]:
    """(η_t, ρ_t) of Theorem 1: η_t = c_η (t+1)^(-1/3) with c_η = 1/L, and ρ_t = min(1, c_ρ t^(-2/3)).

    From L (`smoothness`), L̃ (`mean_square_smoothness`) and b. As printed, c_ρ = (10 L̃²/b + 1/3) c_η²; the proof,
    corrected, needs c_ρ = 10 L̃² c_η²/b + 1/3 (see the errata page of the documentation). ρ is a weight, so it is
    cut at 1, where the estimator is the plain stochastic gradient.
    """
    for value, name in (
        (smoothness, "smoothness"),
        (mean_square_smoothness, "mean_square_smoothness"),
        (batch_size, "batch_size"),
    ):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, not {value!r}")
    c_eta = 1 / smoothness
    variance_term = 10 * mean_square_smoothness**2 / batch_size
    c_rho = variance_term * c_eta**2 + 1 / 3 if corrected else (variance_term + 1 / 3) * c_eta**2
    return Power(c_eta, -1 / 3, 1.0), minimum(1.0, Power(c_rho, -2 / 3))


__all__ = [
    "Constant",
    "Function",
    "Minimum",
    "Multiplied",
    "Piecewise",
    "Power",
    "Schedule",
    "Sum",
    "as_schedule",
    "constant",
    "minimum",
    "piecewise",
    "power",
    "rsrm_theory",
]
