"""Eigenproblems of many small positive definite matrices at once, in kernels of the CPU.

LAPACK takes such matrices one by one, and is slow with each. Here several stand side by side in the lanes of vector
instructions. With A = L Lᵀ, the one-sided Jacobi method (Hestenes 1958) rotates pairs of columns of L until all are
orthogonal; they are then √λᵢ vᵢ, and small eigenvalues are as exact, relative to themselves, as L is. A column meets
every other in a round-robin tournament (Brent & Luk 1985), so that half as many pairs as columns are rotated together.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from retrax._kernel import called_as_kernel
from retrax._triangular import cholesky
from retrax.typing import Array

_ROW = 40
"""Pairs of columns, over all lanes, that are rotated together. The compiler unrolls loops of this length."""

_MAX_SWEEPS = 20

_NEGLIGIBLE = 8
"""Columns whose angle differs from a right one by so many rounding units are orthogonal."""


@jax.custom_batching.custom_vmap
def positive_eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues, in no particular order, and eigenvectors of any number of symmetric positive definite matrices."""
    *leading, n, _ = a.shape
    total = math.prod(leading)
    blocks = -(-total // max(1, _ROW // ((n + 1) // 2)))
    lanes = -(-total // blocks)
    padding = [(0, blocks * lanes - total, 0), (0, 0, 0), (0, 0, 0)]
    matrices = lax.pad(a.reshape(total, n, n), np.zeros((), a.dtype), padding).reshape(blocks, lanes, n, n)
    values, vectors = lax.map(_eigh_side_by_side, matrices)
    return values.reshape(-1, n)[:total].reshape(*leading, n), vectors.reshape(-1, n, n)[:total].reshape(a.shape)


@positive_eigh.def_vmap
def _more_matrices(axis_size: int, in_batched: list[bool], a: Array) -> tuple[tuple[Array, Array], tuple[bool, bool]]:
    return positive_eigh(a), (True, True)


@called_as_kernel
def _eigh_side_by_side(a: Array) -> tuple[Array, Array]:
    """For matrices (lanes, n, n). Inside, rows are the first axis, and columns with their lanes the last."""
    lanes, n, _ = a.shape
    largest = jnp.max(jnp.abs(a), axis=(-2, -1))
    scale = lax.select(largest > 0, largest, jnp.ones_like(largest))
    # Rounding may have made a badly conditioned matrix slightly indefinite.
    factors = cholesky(a / scale[:, None, None], least_pivot=float(jnp.finfo(a.dtype).eps))
    columns = jnp.transpose(factors, (1, 2, 0))
    if n % 2:  # Someone must sit out each round: a column of zeros is orthogonal to all.
        columns = lax.pad(columns, np.zeros((), a.dtype), [(0, 0, 0), (0, 1, 0), (0, 0, 0)])
    columns = _orthogonalized(columns.reshape(n, -1), lanes).reshape(n, -1, lanes)[:, :n]
    squares = _sum_of_rows(columns * columns)
    return scale[:, None] * squares.T, jnp.transpose(columns * lax.rsqrt(squares), (2, 0, 1))


def _orthogonalized(columns: Array, lanes: int) -> Array:
    """Sweeps, of one tournament each, until another would change nothing.

    A sweep leaves between two columns what its rotations brought back after these were made orthogonal: the sine of
    other rotations' angles times the cosine between other columns.
    """
    first, second = jnp.split(columns, 2, axis=1)
    rounds = columns.shape[1] // lanes - 1
    tolerance = _NEGLIGIBLE * float(jnp.finfo(columns.dtype).eps)

    def sweep(state: Any) -> Any:
        first, second, _, count = state
        squares = _sum_of_rows(first * first), _sum_of_rows(second * second)
        nothing = jnp.zeros_like(squares[0])
        meet = lambda _, carry: _rotate(carry, lanes, tolerance)  # noqa: E731
        carry = first, second, *squares, nothing, nothing
        first, second, _, _, cosines, tangents = lax.fori_loop(0, rounds, meet, carry)
        return first, second, jnp.max(cosines) * jnp.max(tangents), count + 1

    going_on = lambda state: (state[2] > tolerance**2) & (state[3] < _MAX_SWEEPS)  # noqa: E731
    state = first, second, jnp.ones((), columns.dtype), 0
    first, second, _, _ = lax.while_loop(going_on, sweep, state)
    return jnp.concatenate([first, second], axis=1)


def _rotate(carry: tuple[Array, ...], lanes: int, tolerance: float) -> tuple[Array, ...]:
    """One round: each column of x and its partner in y are made orthogonal; xx and yy are their squared norms.

    Keeps the largest squared cosine between two columns that met, and the largest squared tangent of a rotation.
    """
    x, y, xx, yy, cosines, tangents = carry
    zero = jnp.zeros_like(xx)
    xy = _sum_of_rows(x * y)
    squared_cosine = xy * xy / (xx * yy)
    slanted = squared_cosine > tolerance**2  # False for NaN, so that one diverged lane leaves the others alone.
    half_gap = (yy - xx) / 2
    root = lax.sqrt(half_gap * half_gap + xy * xy)
    # The smaller of the two angles that make them orthogonal.
    tangent = lax.select(slanted, xy / lax.select(half_gap >= 0, half_gap + root, half_gap - root), zero)
    cosine = lax.rsqrt(1 + tangent * tangent)
    sine = tangent * cosine
    turned = _next_round(cosine * x - sine * y, sine * x + cosine * y, lanes)
    squares = _next_round(xx - tangent * xy, yy + tangent * xy, lanes)
    cosines = lax.max(cosines, lax.select(slanted, squared_cosine, zero))
    return *turned, *squares, cosines, lax.max(tangents, tangent * tangent)


def _next_round(x: Array, y: Array, lanes: int) -> tuple[Array, Array]:
    """All columns but the first move on by one chair around the table."""
    if x.shape[-1] == lanes:
        return x, y
    axis = x.ndim - 1
    above = lax.concatenate([x[..., :lanes], y[..., :lanes], x[..., lanes:-lanes]], axis)
    return above, lax.concatenate([y[..., lanes:], x[..., -lanes:]], axis)


def _sum_of_rows(a: Array) -> Array:
    return lax.reduce(a, np.zeros((), a.dtype), lax.add, (0,))
