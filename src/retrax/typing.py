"""The vocabulary of the library: what a point, a tangent vector, an oracle and a schedule are.

Types only; nothing here computes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Array = Any
"""An array of any library that follows the Python array API standard."""

Point = Any
"""An array, or a pytree of arrays on a product manifold."""

Tangent = Any
"""Has the same structure and shapes as the point it belongs to."""

Batch = Any
"""An array, or a pytree of arrays, whose leading axis counts samples."""


class Anchored(NamedTuple):
    """A tangent vector together with its base point: it never travels without it."""

    point: Point
    vector: Tangent


class Oracle(Protocol):
    """A mini-batch S already drawn: x ↦ grad f_S(x).

    A method may evaluate it at as many points as it likes, and cannot mix batches by accident.
    """

    def __call__(self, x: Point) -> Tangent:
        """grad f_S(x)."""
        ...

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y)): what two-point methods ask for."""
        ...


Schedule = Callable[[Any], Any]
"""A function of the step number t = 1, 2, ... See `retrax.schedules`."""
