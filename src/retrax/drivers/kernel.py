"""Whether a loop of steps compiles into one kernel, and whether a sweep's runs should take turns: what is known of XLA.

Steps in one kernel have no cost for starting each operation, half the time of a small step. But XLA's CPU compiler is
not prepared for every program there, and ends the process over some; so what has not been tried goes through `trial`.
"""

import functools
import math
import re
from typing import Any, NamedTuple

import jax

from retrax.problems import centroid, pca
from retrax.problems.base import Objective

LONGEST_AXIS, MOST_ENTRIES = 128, 2048
"""The longest axis and the most entries of a point or a sample for which one kernel is the faster way: beyond them
XLA's own matrix products fall behind those of the library that it calls from outside a kernel."""

LONGEST_IN_SPAN = 256
"""The same where steps are taken in a span, whose products along the axis are written in pieces."""

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

ELEMENTWISE = frozenset(["cbrt", "exponential_minus_one", "logistic", "round_nearest_even", "round_nearest_afz", "tan"])
"""What only trials have seen: operations on single entries, which users' losses like."""

SHORT_SUM, MOST_OF_SHORT, MOST_PRODUCTS = 16, 2**15, 2**12
"""The most multiplications in one product of a program on trial, with sums of up to 16 terms and with longer ones.

In a kernel a product may take 0.5 ns for each, against 0.04 ns in the library outside, depending on how the compiler
orders its axes; short sums were seen to be the milder case. Below these numbers no loop was slower in one kernel."""

LONGEST_LOOP, LONGEST_GRADIENT = 200_000, 16_000
"""The most characters of a loop and of a loss's gradient that are tried. Beyond, a kernel compiles for seconds longer
than the ordinary form, and ever faster: 2 s more at 240 000 characters, 30 s more at a million."""

LONG_SUM, MOST_UNTILED = 48, 2**14
"""A product of matrices, m×k with k×n, of which XLA makes no tiles, takes 0.3 to 0.4 ns for each multiplication where k
is larger than the first; up to there, with all sums unrolled, 0.04 to 0.08. Tiles need k ≤ 128, and m ≤ 32 and n ≤ 128
or the other way round. Smaller products than the second number cost less than leaving the kernel."""

_PRODUCT = re.compile(
    r"stablehlo\.dot_general [^\n]*?contracting_dims = \[([\d, ]*)\][^\n]*"
    r": \(tensor<((?:\d+x)*)\w+>, [^\n]*-> tensor<((?:\d+x)*)\w+>"
)


class Fit(NamedTuple):
    """Whether a loop is compiled into one kernel, and why."""

    fits: bool
    reason: str


def is_tried(objective: Objective) -> bool:
    """Whether a loss is known not to end the process. In a span its operations are few, and all of them known."""
    return objective.loss in TRIED


def verdict(lower: Any, data: Any, x: Any, batches: Any, longest: int = LONGEST_AXIS) -> Fit:
    """For one run's arguments; `lower()` gives the program in StableHLO, and is asked last."""
    early = promise(data, x, batches, longest)
    if not early.fits:
        return early
    text = lower()
    found = _unknown(text)
    if found:
        return Fit(False, f"the program calls {', '.join(sorted(found))}, which a kernel cannot do")
    if any(_is_untiled(*one) for one in _products(text)):
        return Fit(False, "the program has products that are faster outside a kernel")
    return Fit(True, "every operation of the program is known to work in one kernel")


def promise(data: Any, x: Any, batches: Any, longest: int = LONGEST_AXIS) -> Fit:
    """What can be said for one run's arguments without its program; the rest is up to a trial."""
    if jax.default_backend() != "cpu":
        return Fit(False, f"kernels of this kind are the CPU compiler's, and the run is on {jax.default_backend()}")
    too_large = _too_large(data, x, batches, longest)
    if too_large:
        return Fit(False, too_large)
    return Fit(True, "small enough, and the ordinary form is used where a trial in another process fails")


def objection(text: str, longest: int) -> str | None:
    """Why a program in StableHLO should not be tried in one kernel."""
    if len(text) > longest:
        return "it would compile for long"
    unknown = _unknown(text) - ELEMENTWISE
    if unknown:
        return f"it calls {', '.join(sorted(unknown))}"
    sizes = _products(text)
    if len(sizes) != text.count("stablehlo.dot_general"):
        return "its products are written in an unknown way"
    if any(_multiplications(*one) > (MOST_OF_SHORT if one[0] <= SHORT_SUM else MOST_PRODUCTS) for one in sizes):
        return "it has products that are faster outside a kernel"
    return None


def _products(text: str) -> list[tuple[int, list[int]]]:
    """For each product of arrays, how many terms each of its sums has, and the shape of the result."""
    found = []
    for contracted, left, result in _PRODUCT.findall(text):
        lengths = _lengths(left)
        terms = math.prod(lengths[int(axis)] for axis in contracted.split(",") if axis.strip())
        found.append((terms, _lengths(result)))
    return found


def _multiplications(terms: int, result: list[int]) -> int:
    return terms * math.prod(result)


def _is_untiled(terms: int, result: list[int]) -> bool:
    """Whether a product would be long and slow in a kernel."""
    tiled = len(result) < 2 or (terms <= 128 and min(result[-2:]) <= 32 and max(result[-2:]) <= 128)
    return terms > LONG_SUM and not tiled and _multiplications(terms, result) > MOST_UNTILED


def _lengths(shape: str) -> list[int]:
    """The axes of an array that is written as 5x16x."""
    return [int(length) for length in shape.split("x") if length]


def _unknown(text: str) -> set[str]:
    return set(re.findall(r"\bstablehlo\.(\w+)", text)) - KNOWN_OPERATIONS


def is_known(text: str) -> bool:
    """Whether a program in StableHLO consists of operations that are known to work in one kernel, on the CPU."""
    return jax.default_backend() == "cpu" and not _unknown(text)


def _too_large(data: Any, x: Any, batches: Any, longest: int) -> str | None:
    samples = jax.tree.leaves(data)
    if any(a.shape[0] < 2 for a in samples):
        return "the compiler ends the process over a single sample in one kernel"
    shapes = [tuple(leaf.shape) for leaf in jax.tree.leaves(x)] + [tuple(a.shape[1:]) for a in samples]
    axes = [size for shape in shapes for size in shape] + [a.shape[1] for a in jax.tree.leaves(batches)]
    if max(axes, default=0) > longest:
        return f"an axis of {max(axes)} exceeds {longest}, beyond which products are faster outside a kernel"
    if any(_entries(shape) > MOST_ENTRIES for shape in shapes):
        return f"a point or sample has more than {MOST_ENTRIES} entries; products are faster outside a kernel"
    return None


def _entries(shape: tuple[int, ...]) -> int:
    return functools.reduce(lambda a, b: a * b, shape, 1)
