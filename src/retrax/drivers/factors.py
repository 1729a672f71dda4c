"""Products aᵀ b of two tall matrices: the one with fewer columns is transposed, and in memory.

XLA's library multiplies matrices as they lie in memory, so that one of a and b is transposed first. The program says
which, and XLA's simplifier may change its mind: of a batch of many samples and a few columns it may choose the batch,
which takes longer than the product. Barriers keep it from that.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import Literal, Var

from retrax.drivers.span import evaluated
from retrax.typing import Array

LEAST_ENTRIES = 2**12
"""Transposing smaller matrices costs no more than keeping XLA from it."""


def is_worth_it(samples: Any, count: int) -> bool:
    """Whether batches of so many samples, given all or as many, are matrices that are long to transpose."""
    return jax.default_backend() == "cpu" and any(
        a.ndim == 2 and count * a.shape[1] >= LEAST_ENTRIES for a in jax.tree.leaves(samples)
    )


def arranged(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with such products in that way."""

    def with_short_transposes(*arguments: Any) -> Any:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _run(program.jaxpr, program.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return with_short_transposes


def _run(program: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    known: dict[Var, Any] = dict(zip([*program.constvars, *program.invars], [*constants, *arguments], strict=True))
    transposed: dict[Var, Any] = {}
    """What each transpose in the program is the transpose of."""

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    def tall(atom: Any, contracted: Sequence[int]) -> Array | None:
        """The matrix that is summed over its rows when this one is summed over the given axes."""
        if len(atom.aval.shape) != 2 or len(contracted) != 1:
            return None
        if contracted[0] == 0:
            return value(atom)
        return transposed.get(atom) if isinstance(atom, Var) else None

    for equation in program.eqns:
        values = [value(atom) for atom in equation.invars]
        name, parameters = equation.primitive.name, equation.params
        if name == "transpose" and tuple(parameters["permutation"]) == (1, 0):
            transposed[equation.outvars[0]] = values[0]
        found = None
        if name == "dot_general":
            (left, right), batched = parameters["dimension_numbers"]
            a, b = equation.invars
            found = None if batched[0] else _product(tall(a, left), tall(b, right), parameters)
        if found is not None:
            results: Sequence[Any] = [found]
        elif name in ("jit", "pjit"):
            results = _run(parameters["jaxpr"].jaxpr, parameters["jaxpr"].consts, values)
        else:
            results = evaluated(equation, values)
        known |= dict(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in program.outvars]


def _product(a: Array | None, b: Array | None, parameters: Any) -> Array | None:
    """aᵀ b, if that is what is asked for, and there is something to gain."""
    if a is None or b is None or a.shape[1] == b.shape[1] or max(a.size, b.size) < LEAST_ENTRIES:
        return None
    few, many = (a, b) if a.shape[1] < b.shape[1] else (b, a)
    details = {key: parameters[key] for key in ("precision", "preferred_element_type")}
    kept = jax.lax.optimization_barrier(few).T
    found = jax.lax.optimization_barrier(jax.lax.dot_general(kept, many, (((1,), (0,)), ((), ())), **details))
    return found if few is a else found.T
