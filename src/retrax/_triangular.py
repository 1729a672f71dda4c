"""Factors of small matrices as loops to compile into a kernel of the CPU, which cannot contain calls to LAPACK."""

import jax.numpy as jnp
from jax import lax

from retrax.typing import Array


def cholesky(a: Array, least_pivot: float | None = None) -> Array:
    """The lower factor L of symmetric positive definite matrices a = L Lᵀ, column by column.

    Where a is not positive definite, NaN; or, with `least_pivot`, the factor of a matrix close by: a pivot that is
    smaller, relative to the diagonal, is taken for rounding and raised, and so is the column below it, and dropped.
    """
    diagonal = jnp.diagonal(a, axis1=-2, axis2=-1)

    def one_column(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, lower = state
        column = lax.dynamic_index_in_dim(rest, k, rest.ndim - 1, keepdims=False)
        pivot = lax.dynamic_index_in_dim(column, k, column.ndim - 1)
        rows = lax.broadcasted_iota(jnp.int32, column.shape, column.ndim - 1)
        below = rows > k
        if least_pivot is not None:
            floor = least_pivot * lax.dynamic_index_in_dim(diagonal, k, diagonal.ndim - 1)
            below = below & (pivot > floor)
            pivot = lax.max(pivot, floor)
        column = lax.select(below, column, jnp.zeros_like(column)) * lax.rsqrt(pivot)
        column = lax.select(rows == k, jnp.broadcast_to(lax.sqrt(pivot), column.shape), column)
        rest = rest - column[..., :, None] * column[..., None, :]
        return rest, lax.dynamic_update_index_in_dim(lower, column, k, lower.ndim - 1)

    return lax.fori_loop(0, a.shape[-1], one_column, (a, jnp.zeros_like(a)))[1]


def inverse_of_lower(lower: Array) -> Array:
    """L⁻¹ by forward substitution: row k is final once the rows above have been subtracted from it."""
    n = lower.shape[-1]
    row_axis = lower.ndim - 2

    def one_row(k: Array, inverse: Array) -> Array:
        column = lax.dynamic_index_in_dim(lower, k, lower.ndim - 1)
        row = lax.dynamic_index_in_dim(inverse, k, row_axis) / lax.dynamic_index_in_dim(column, k, row_axis)
        below = lax.broadcasted_iota(jnp.int32, column.shape, row_axis) > k
        inverse = inverse - lax.select(below, column, jnp.zeros_like(column)) * row
        return lax.dynamic_update_index_in_dim(inverse, row, k, row_axis)

    return lax.fori_loop(0, n, one_row, jnp.broadcast_to(jnp.eye(n, dtype=lower.dtype), lower.shape))
