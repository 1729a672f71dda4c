"""Whether a loop of steps compiles into one kernel, and whether a sweep's runs should take turns: what is known of XLA.

Steps in one kernel have no cost for starting each operation, half the time of a small step. But XLA's CPU compiler is
not prepared for every program there, and ends the process over some; so only what has been tried is let in.
"""

import functools
import re
from typing import Any, NamedTuple

import jax

from retrax.problems import centroid, pca
from retrax.problems.base import Objective

LONGEST_AXIS, MOST_ENTRIES = 128, 2048
"""The longest axis and the most entries of a point or a sample for which one kernel is the faster way: beyond them
XLA's own matrix products fall behind those of the library that it calls from outside a kernel."""

TRIED = frozenset({pca.loss, centroid.loss})
"""The losses whose loops were compiled into one kernel with every estimator, scaling and step size."""

FILLS_LANES = frozenset({centroid.loss})
"""Losses whose small eigenproblems leave vector lanes empty in one run, and fill them with several runs at once."""

_OPERATIONS = """
    abs add and atan2 broadcast_in_dim broadcast case ceil clamp compare concatenate constant convert cosine divide
    dot_general dynamic_slice dynamic_update_slice exponential floor gather iota is_finite log log_plus_one maximum
    minimum multiply negate not optimization_barrier or pad power reduce remainder reshape return rsqrt select sign
    sine slice sqrt subtract tanh transpose while xor
"""
KNOWN_OPERATIONS = frozenset(_OPERATIONS.split())
"""What the programs that were tried consist of; LAPACK and other calls out of the program are not among it."""


class Fit(NamedTuple):
    """Whether a loop is compiled into one kernel, and why."""

    fits: bool
    reason: str


def untried(objective: Objective) -> Fit | None:
    """Why a loss cannot be in a kernel, if so. In a span its operations are few, and all of them known."""
    if objective.loss in TRIED:
        return None
    return Fit(False, "the compiler may end the process over a loss that has not been tried in one kernel")


def verdict(lower: Any, data: Any, x: Any, batches: Any) -> Fit:
    """For one run's arguments; `lower()` gives the program in StableHLO, and is asked last."""
    if jax.default_backend() != "cpu":
        return Fit(False, f"kernels of this kind are the CPU compiler's, and the run is on {jax.default_backend()}")
    too_large = _too_large(data, x, batches)
    if too_large:
        return Fit(False, too_large)
    found = _unknown(lower())
    if found:
        return Fit(False, f"the program calls {', '.join(sorted(found))}, which a kernel cannot do")
    return Fit(True, "every operation of the program is known to work in one kernel")


def _unknown(text: str) -> set[str]:
    return set(re.findall(r"\bstablehlo\.(\w+)", text)) - KNOWN_OPERATIONS


def is_known(text: str) -> bool:
    """Whether a program in StableHLO consists of operations that are known to work in one kernel, on the CPU."""
    return jax.default_backend() == "cpu" and not _unknown(text)


def _too_large(data: Any, x: Any, batches: Any) -> str | None:
    samples = jax.tree.leaves(data)
    if any(a.shape[0] < 2 for a in samples):
        return "the compiler ends the process over a single sample in one kernel"
    shapes = [tuple(leaf.shape) for leaf in jax.tree.leaves(x)] + [tuple(a.shape[1:]) for a in samples]
    axes = [size for shape in shapes for size in shape] + [a.shape[1] for a in jax.tree.leaves(batches)]
    if max(axes, default=0) > LONGEST_AXIS:
        return f"an axis of {max(axes)} exceeds {LONGEST_AXIS}, beyond which products are faster outside a kernel"
    if any(_entries(shape) > MOST_ENTRIES for shape in shapes):
        return f"a point or sample has more than {MOST_ENTRIES} entries; products are faster outside a kernel"
    return None


def _entries(shape: tuple[int, ...]) -> int:
    return functools.reduce(lambda a, b: a * b, shape, 1)
