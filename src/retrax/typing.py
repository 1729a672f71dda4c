"""The vocabulary of the library: what a point, a tangent vector, a step and an oracle are.

Types only; nothing here computes.
"""

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


class Step(NamedTuple):
    """A step that was taken: from `point`, with the direction d (before scaling) and the step size η."""

    point: Point
    vector: Tangent
    size: Array


class Oracle(Protocol):
    """A mini-batch S already drawn: x ↦ grad f_S(x).

    A method may evaluate it at as many points as it likes, and cannot mix batches by accident.
    """

    @property
    def size(self) -> int:
        """The number of samples in S; 1 where only the batch as a whole is known (`retrax.torch`)."""
        ...

    def __call__(self, x: Point) -> Tangent:
        """grad f_S(x)."""
        ...

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y)): what two-point methods ask for."""
        ...

    def parts(self, first: int) -> "tuple[Oracle, Oracle] | None":
        """The first so many samples of S and the rest; None where the batch cannot be divided."""
        ...

    def or_else(self, condition: Array, other: "Oracle") -> "Oracle":
        """This batch where the condition holds, else the other, of the same size; for oracles made by `parts`."""
        ...
