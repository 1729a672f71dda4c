"""Keeps JAX's factorisations on the CPU from deadlocking with jaxlib 0.10.0 to 0.11.0, which 0.11.1 mended.

Those releases split a batched LAPACK call into tasks for the thread pool that runs the program and wait for them on a
thread of that same pool: once as many calls are under way as the pool has threads, no task is ever begun. Two gradients
in one step, or two runs in two threads, are enough on a machine with two cores. A call with a single matrix starts
no tasks, so there every batch, of whatever function, is lowered to a loop over its matrices: measured, the same speed
on one thread, and some tenths of a microsecond more for a matrix of five rows.
"""

import math
from typing import Any

import jax
import jaxlib
from jax.interpreters import mlir

FIRST_AFFECTED, FIRST_MENDED = (0, 10, 0), (0, 11, 1)


def deadlocks(version: str = jaxlib.__version__) -> bool:
    """Whether batched LAPACK calls of this jaxlib can wait for each other for ever."""
    return FIRST_AFFECTED <= tuple(int(part) for part in version.split(".")[:3]) < FIRST_MENDED


def prevent_deadlocks() -> None:
    """What is needed with this jaxlib; of others, nothing is touched."""
    if deadlocks():
        call_with_single_matrices()


def call_with_single_matrices() -> None:
    """Replace, in this process, how JAX's factorisations are lowered on the CPU; in the affected releases only."""
    # These releases are out and will not change, so neither will these two private names.
    from jax._src.interpreters.mlir import _platform_specific_lowerings
    from jax._src.lax import linalg

    on_cpu = _platform_specific_lowerings["cpu"]
    for name, primitive in vars(linalg).items():
        if name.endswith("_p") and primitive in on_cpu:
            mlir.register_lowering(primitive, _matrix_by_matrix(primitive, on_cpu[primitive].rule), platform="cpu")


def _matrix_by_matrix(primitive: Any, single: Any) -> Any:
    """A lowering rule that loops over leading axes, and is the rule `single` where there are none."""

    def lower(context: Any, *operands: Any, **parameters: Any) -> Any:
        leading = max((aval.shape for aval in context.avals_in), key=len)[:-2]
        if math.prod(leading) <= 1:
            return single(context, *operands, **parameters)

        def loop(*arrays: Any) -> Any:
            stacks = [array.reshape(-1, *array.shape[len(leading) :]) for array in arrays]
            results = jax.lax.map(lambda matrices: primitive.bind(*matrices, **parameters), stacks)
            return jax.tree.map(lambda stack: stack.reshape(*leading, *stack.shape[1:]), results)

        return mlir.lower_fun(loop, multiple_results=primitive.multiple_results)(context, *operands)

    return lower
