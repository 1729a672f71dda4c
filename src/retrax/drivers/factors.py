"""Products aᵀ b of two tall matrices: the one with fewer columns is transposed, and in memory.

XLA's library multiplies matrices as they lie in memory, so that one of a and b is transposed first. The program says
which, and XLA's simplifier may change its mind: of a batch of many samples and a few columns it may choose the batch,
which takes longer than the product. Barriers keep it from that. Σ Aᵢᵀ Bᵢ of stacks of matrices is such a product too;
where both are equally wide, the one that more products read is transposed, once for all of them: the batch.
"""

import collections
import math
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
        a.ndim >= 2 and count * math.prod(a.shape[1:]) >= LEAST_ENTRIES for a in jax.tree.leaves(samples)
    )


def arranged(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with such products in that way."""

    def with_short_transposes(*arguments: Any) -> Any:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _run(program.jaxpr, program.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return with_short_transposes


def _run(program: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    return _Arrangement(program, constants, arguments).results()


class _Arrangement:
    """One program being run."""

    def __init__(self, program: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> None:
        self._program = program
        self._known: dict[Var, Any] = dict(
            zip([*program.constvars, *program.invars], [*constants, *arguments], strict=True)
        )
        self._sources: dict[Var, Any] = {}
        """What each transpose in the program is the transpose of."""
        self._turned: dict[Any, Array] = {}
        """The transposes that were made."""
        products = [one for one in program.eqns if one.primitive.name == "dot_general"]
        self._readers = collections.Counter(atom for one in products for atom in one.invars if isinstance(atom, Var))

    def results(self) -> list[Any]:
        for equation in self._program.eqns:
            values = [self._value(atom) for atom in equation.invars]
            name, parameters = equation.primitive.name, equation.params
            if name == "transpose" and tuple(parameters["permutation"]) == (1, 0):
                self._sources[equation.outvars[0]] = equation.invars[0]
            found = self._product(equation) if name == "dot_general" else None
            if found is not None:
                results: Sequence[Any] = [found]
            elif name in ("jit", "pjit"):
                results = _run(parameters["jaxpr"].jaxpr, parameters["jaxpr"].consts, values)
            else:
                results = evaluated(equation, values)
            self._known |= dict(zip(equation.outvars, results, strict=True))
        return [self._value(atom) for atom in self._program.outvars]

    def _value(self, atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else self._known[atom]

    def _product(self, equation: Any) -> Array | None:
        """aᵀ b, if that is what is asked for, and there is something to gain."""
        contracted, batched = equation.params["dimension_numbers"]
        talls = [self._tall(atom, axes) for atom, axes in zip(equation.invars, contracted, strict=True)]
        if batched[0] or None in talls or max(one.aval.size for one in talls) < LEAST_ENTRIES:
            return None
        widths = [one.aval.shape[-1] for one in talls]
        costs = widths if widths[0] != widths[1] else [-self._readers[one] for one in talls]
        if costs[0] == costs[1]:
            return None
        few, many = talls if costs[0] < costs[1] else talls[::-1]
        details = {key: equation.params[key] for key in ("precision", "preferred_element_type")}
        product = jax.lax.dot_general(self._transpose(few), self._matrix(many), (((1,), (0,)), ((), ())), **details)
        found = jax.lax.optimization_barrier(product)
        return found if few is talls[0] else found.T

    def _tall(self, atom: Any, contracted: Sequence[int]) -> Any:
        """What is a matrix, or a stack of them, summed over its rows, when this is summed over the given axes."""
        axes = len(atom.aval.shape)
        if tuple(contracted) == tuple(range(axes - 1)) and axes > 1:
            return atom if isinstance(atom, Var) else None
        return self._sources.get(atom) if isinstance(atom, Var) and axes == 2 and len(contracted) == 1 else None

    def _matrix(self, tall: Any) -> Array:
        """The rows of all matrices of a stack."""
        return self._value(tall).reshape(-1, tall.aval.shape[-1])

    def _transpose(self, tall: Any) -> Array:
        """Made once for all who ask."""
        if tall not in self._turned:
            self._turned[tall] = jax.lax.optimization_barrier(self._matrix(tall)).T
        return self._turned[tall]
