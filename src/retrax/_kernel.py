"""Programs that XLA's CPU compiler turns into one function, with no cost for starting each of their operations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from retrax.typing import Array

LARGEST = 16
"""The largest matrices for which a loop in one kernel was found to be faster than LAPACK."""

MOST_ENTRIES = 2**14
"""The largest arrays in a kernel: the compiler hands larger operations to threads, which a kernel lacks."""


# From 0.10 on, XLA hands matrix products to a library of ready-made kernels, which a kernel of its own cannot contain.
COMPILER_OPTIONS: dict[str, str] = (
    {"xla_cpu_experimental_ynn_fusion_type": ""} if jax.__version_info__ >= (0, 10) else {}
)
"""What a program with matrix products in one kernel must be compiled with, as `jax.jit(..., compiler_options=...)`."""


def in_one_kernel(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, as a single function of the compiled program.

    XLA does so by itself with loops that touch less than a kilobyte, and marks them thus. It is not prepared for every
    program, and ends the process over some: hence only for what has been tried. Other backends ignore the mark.
    """
    return called_as_kernel(function)(*arguments)


def called_as_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function that programs call several times: it stands in each of them once."""

    @jax.jit
    def with_uses(*arguments: Any) -> tuple[Any, Array]:
        # XLA ends the process over an argument that goes into nothing, as t does where no part looks at it.
        firsts = [jnp.ravel(leaf)[0].astype(jnp.float32) for leaf in jax.tree.leaves(arguments)]
        return function(*arguments), sum(firsts, start=jnp.zeros((), jnp.float32))

    def call(*arguments: Any) -> Any:
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true"):
            result, unread = with_uses(*arguments)
        return jax.lax.optimization_barrier((result, unread))[0]

    return call


def is_traced(x: Array) -> bool:
    """Whether x is an abstract value inside a JAX transformation (its numbers cannot be looked at)."""
    return isinstance(x, jax.core.Tracer)


def suits(a: Array) -> bool:
    """Whether `a` is a matrix, or several, in a program being compiled, for which a kernel of our own is better."""
    return is_traced(a) and a.shape[-1] <= LARGEST and a.size > 0 and jax.default_backend() == "cpu"


def kernel(function: Callable[[Array], Array], reference: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """`function` of matrices in one kernel; for too many of them, and for its derivatives, `reference`, its equal."""

    kernelled = called_as_kernel(function)

    @jax.custom_batching.custom_vmap
    def either(a: Array) -> Array:
        return kernelled(a) if a.size <= MOST_ENTRIES else reference(a)

    @either.def_vmap
    def more_matrices(axis_size: int, in_batched: list[bool], a: Array) -> tuple[Array, bool]:
        return either(a), True

    differentiable = jax.custom_jvp(either)
    differentiable.defjvp(lambda primals, tangents: jax.jvp(reference, primals, tangents))
    return differentiable
