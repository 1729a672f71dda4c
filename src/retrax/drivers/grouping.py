"""Small operations between long ones, in as few kernels as possible: each would cost more to start than to do."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import Literal, Var

from retrax._kernel import in_one_kernel
from retrax.drivers.span import evaluated, needed


def in_small_kernels(function: Callable[..., Any], length: int) -> Callable[..., Any]:
    """`function`, with the operations in which no axis has this length gathered into kernels."""

    def grouped(*arguments: Any) -> Any:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _run(program, jax.tree.leaves(arguments), length)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return grouped


def _run(program: Any, arguments: Sequence[Any], length: int) -> list[Any]:
    """In turn, all small operations that can be done, in one kernel, and all long ones that can be done."""
    known: dict[Var, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    known |= dict(zip(program.jaxpr.invars, arguments, strict=True))
    left = needed(program.jaxpr)
    while left:
        small, left = _ready([one for one in left if not _is_long(one, length)], known, left)
        if small:
            later = [*program.jaxpr.outvars, *(atom for one in left for atom in one.invars)]
            known |= _in_kernel(small, known, {atom for atom in later if isinstance(atom, Var)})
        long, left = _ready([one for one in left if _is_long(one, length)], known, left)
        for one in long:
            known |= _found(one, known)
    return [_value(atom, known) for atom in program.jaxpr.outvars]


def _ready(equations: Sequence[Any], known: dict[Var, Any], left: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Those of the equations that need nothing but what is known and each other; and what is left without them."""
    available, found = set(known), []
    for one in equations:
        if all(atom in available for atom in one.invars if isinstance(atom, Var)):
            available |= set(one.outvars)
            found.append(one)
    chosen = set(map(id, found))
    return found, [one for one in left if id(one) not in chosen]


def _in_kernel(equations: Sequence[Any], known: dict[Var, Any], wanted: set[Any]) -> dict[Var, Any]:
    """What is wanted of all that the equations define, found in one kernel."""
    given = list({atom: None for one in equations for atom in one.invars if isinstance(atom, Var) and atom in known})
    defined = [out for one in equations for out in one.outvars if out in wanted]

    def together(*values: Any) -> list[Any]:
        local = dict(zip(given, values, strict=True))
        for one in equations:
            local.update(_found(one, local))
        return [local[out] for out in defined]

    return dict(zip(defined, in_one_kernel(together, *(known[var] for var in given)), strict=True))


def _found(equation: Any, known: dict[Var, Any]) -> dict[Var, Any]:
    values = [_value(atom, known) for atom in equation.invars]
    return dict(zip(equation.outvars, evaluated(equation, values), strict=True))


def _value(atom: Any, known: dict[Var, Any]) -> Any:
    return atom.val if isinstance(atom, Literal) else known[atom]


def _is_long(equation: Any, length: int) -> bool:
    return any(length in getattr(atom.aval, "shape", ()) for atom in (*equation.invars, *equation.outvars))
