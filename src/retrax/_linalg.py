"""Small dense linear algebra that the array API standard lacks; the only file that names array libraries.

Everything takes leading batch axes and keeps dtype and device. Under JAX the spectral functions carry their own
derivative rules, so that gradients stay finite at repeated eigenvalues.
"""

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import array_api_compat
import jax
import jax.numpy as jnp
import numpy as np

from retrax import _jacobi, _kernel, _lapack, _logarithm, _triangular
from retrax.typing import Array

_lapack.prevent_deadlocks()

is_jax = array_api_compat.is_jax_array
is_torch = array_api_compat.is_torch_array
device = array_api_compat.device
is_traced = _kernel.is_traced


_NAMESPACES: dict[type, Any] = {}


def namespace(array: Array) -> Any:
    """The array API of an array's library (PyTorch's is looked up once: eager steps ask for it every time).

    NumPy's is its own: the compatible one would take a tenth of a second of every process to import.
    """
    if isinstance(array, np.ndarray):
        return np
    known = _NAMESPACES.get(type(array))
    if known is None:
        known = array_api_compat.array_namespace(array)
        if is_torch(array):
            _NAMESPACES[type(array)] = known
    return known


def identity_like(x: Array) -> Array:
    """The identity matrix of x's last axis, dtype and device."""
    xp = namespace(x)
    return xp.eye(x.shape[-1], dtype=x.dtype, device=device(x))


_EPSILONS: dict[Any, float] = {}


def epsilon(x: Array) -> float:
    """The rounding unit of x's dtype (looked up once: eager steps ask for it every time)."""
    key = type(x.dtype), x.dtype  # dtypes of different libraries must not be compared with each other
    if key not in _EPSILONS:
        _EPSILONS[key] = float(namespace(x).finfo(x.dtype).eps)
    return _EPSILONS[key]


def at_least(a: Array, floor: Any) -> Array:
    """a, and the floor where a is below it."""
    return namespace(a).where(a > floor, a, floor + 0 * a)


def bounded(u: Array, most: float) -> Array:
    """u with entries cut at ±most; to the same bits where none is so large. Entry by entry, which costs no pass."""
    return namespace(u).clip(u, -most, most)


def formed(u: Array) -> Array:
    """u itself, not known by its parts only: where these nearly cancel, their inner products would not tell u's."""
    return jax.lax.optimization_barrier(u) if is_traced(u) else u


def plus_scaled(u: Array, factor: Any, v: Array) -> Array:
    """u + factor · v; in PyTorch one call, for a new large array costs more there than the arithmetic."""
    if is_torch(u) and isinstance(factor, float | int):
        return sys.modules["torch"].add(u, v, alpha=factor)
    return u + factor * v


def added_to(new: Array, x: Array) -> Array:
    """x + new, in the memory of `new` (which nobody else may hold) where that is possible."""
    if _is_eager_torch(new) and new.shape == x.shape:
        return new.add_(x)
    return x + new


def symmetric_part(a: Array) -> Array:
    """(a + aᵀ) / 2."""
    return (a + a.mT) / 2


def frobenius(a: Array, b: Array, axes: int = 2) -> Array:
    """Σ aᵢⱼ bᵢⱼ over the last `axes` axes."""
    if axes == 0:
        return a * b
    if is_torch(a) and a.ndim == axes and a.shape == b.shape:
        return sys.modules["torch"].dot(a.reshape(-1), b.reshape(-1))  # one pass over memory instead of two
    return namespace(a).sum(a * b, axis=tuple(range(-axes, 0)))


def gram(arrays: Sequence[Array], axes: int = 2) -> Array:
    """The inner products of several arrays over their last `axes` axes, each computed once."""
    xp, count = namespace(arrays[0]), len(arrays)
    found = {(i, j): _dot(arrays[i], arrays[j], axes) for i in range(count) for j in range(i + 1)}
    ordered = [[found[max(i, j), min(i, j)] for j in range(count)] for i in range(count)]
    return xp.stack([xp.stack(row, axis=-1) for row in ordered], axis=-2)


def _dot(a: Array, b: Array, axes: int) -> Array:
    """Σ a b over the last `axes` axes as one product, which XLA's kernels do in a third of the time of a sum."""
    lead = a.ndim - axes
    if is_jax(a):
        summed, kept = tuple(range(lead, a.ndim)), tuple(range(lead))
        return jax.lax.dot_general(a, b, ((summed, summed), (kept, kept)))
    xp = namespace(a)
    return xp.vecdot(*(xp.reshape(one, (*one.shape[:lead], -1)) for one in (a, b)))


def minus_product(z: Array, x: Array, a: Array, factor: float = 1.0) -> Array:
    """z - factor · x a; in PyTorch one call, which saves a pass over memory."""
    if is_torch(z) and z.ndim == 3 and x.shape[0] == a.shape[0] == z.shape[0]:
        return sys.modules["torch"].baddbmm(z, x, a, alpha=-factor)
    if is_torch(z) and z.ndim == x.ndim == a.ndim == 2:
        return sys.modules["torch"].addmm(z, x, a, alpha=-factor)
    return z - x @ a if factor == 1 else z - x @ (factor * a)


def safe_sqrt(a: Array) -> Array:
    """√a for a sum of squares; its derivative at a = 0 is taken as 0, not NaN."""
    if _is_eager_torch(a):
        return a.clamp_min(0).sqrt()  # a third of the calls
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, a, 1 + 0 * a)), 0 * a)


def positive(a: Array) -> Array:
    """a, and 1 where a is not positive: for quotients that are not used there."""
    return namespace(a).where(a > 0, a, 1 if is_torch(a) else 1 + 0 * a)


def _cholesky_by_lapack(a: Array) -> Array:
    return jnp.linalg.cholesky(a, symmetrize_input=False)


_cholesky_in_kernel = _kernel.kernel(_triangular.cholesky, reference=_cholesky_by_lapack)


def cholesky(a: Array) -> Array:
    """The lower factor L of a symmetric positive definite a = L Lᵀ; reads the lower triangle only."""
    if _kernel.suits(a):
        return _cholesky_in_kernel(a)
    if is_jax(a):
        return _cholesky_by_lapack(a)
    return namespace(a).linalg.cholesky(a)


def _inverse_by_lapack(lower: Array) -> Array:
    identity = jnp.broadcast_to(identity_like(lower), lower.shape)
    return jax.lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)


_inverse_in_kernel = _kernel.kernel(_triangular.inverse_of_lower, reference=_inverse_by_lapack)


def solve_lower(lower: Array, b: Array) -> Array:
    """L⁻¹ b."""
    if _kernel.suits(lower):
        return _inverse_in_kernel(lower) @ b
    if is_jax(lower):
        return jax.scipy.linalg.solve_triangular(lower, b, lower=True)
    if is_torch(lower):
        return namespace(lower).linalg.solve_triangular(lower, b, upper=False)
    # NumPy and other namespaces have no triangular solve with batch axes; LU finds the triangle by itself.
    xp = namespace(lower)
    shape = np.broadcast_shapes(lower.shape[:-2], b.shape[:-2])
    return xp.linalg.solve(xp.broadcast_to(lower, shape + lower.shape[-2:]), xp.broadcast_to(b, shape + b.shape[-2:]))


def inverse_of_lower(lower: Array) -> Array:
    """L⁻¹."""
    if _kernel.suits(lower):
        return _inverse_in_kernel(lower)
    return _inverse_by_lapack(lower) if is_jax(lower) else solve_lower(lower, identity_like(lower))


def divide_by_lower_transpose(b: Array, lower: Array) -> Array:
    """b L⁻ᵀ."""
    if _kernel.suits(lower):
        return b @ _inverse_in_kernel(lower).mT
    if is_jax(lower) and b.ndim == lower.ndim:
        return jax.lax.linalg.triangular_solve(lower, b, left_side=False, lower=True, transpose_a=True)
    if is_torch(lower):
        return namespace(lower).linalg.solve_triangular(lower.mT, b, upper=True, left=False)
    return solve_lower(lower, b.mT).mT


def whiten(lower: Array, a: Array) -> Array:
    """L⁻¹ a L⁻ᵀ for a symmetric a, symmetric to the last bit."""
    if _kernel.suits(lower):
        inverse = _inverse_in_kernel(lower)
        return symmetric_part(inverse @ a @ inverse.mT)
    return symmetric_part(divide_by_lower_transpose(solve_lower(lower, a), lower))


def solve_positive(a: Array, b: Array) -> Array:
    """a⁻¹ b for a symmetric positive definite a."""
    if is_jax(a):
        lower = cholesky(a)
        half = jax.lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)
        return jax.lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)
    return namespace(a).linalg.solve(a, b)


def solve_moderate(a: Array, b: Array) -> Array:
    """a⁻¹ b for a symmetric a with eigenvalues in [1, 2].

    Compiled, a few r×r products are cheaper than a factorisation: X ← X(2I - aX) squares the residual I - aX, which
    the best linear X = (24I - 8a)/17 brings to 1/17 (a Chebyshev polynomial); four steps leave 17⁻¹⁶ = 2e-20.
    """
    if not is_jax(a) or a.shape[-1] > _MODERATE_SIZE:
        return solve_positive(a, b)
    eye = identity_like(a)
    inverse = (24 * eye - 8 * a) / 17
    for _ in range(4):
        inverse = inverse @ (2 * eye - a @ inverse)
    return inverse @ b


_MODERATE_SIZE = 32


# --- functions of a symmetric matrix -------------------------------------------------------------------------


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric matrix."""
    if is_jax(a):
        vectors, values = jax.lax.linalg.eigh(a, symmetrize_input=False)
        return values, vectors
    values, vectors = namespace(a).linalg.eigh(a)
    return values, vectors


def _rebuild(vectors: Array, values: Array) -> Array:
    return symmetric_part((vectors * values[..., None, :]) @ vectors.mT)


def _log(xp: Any, w: Array) -> Array:
    # Rounding may push the smallest eigenvalue of a badly conditioned positive matrix to zero or below.
    tiny = xp.finfo(w.dtype).smallest_normal
    return xp.log(xp.where(w > tiny, w, tiny + 0 * w))


def _near_zero(xp: Any, w: Array, function: Callable[[Array], Array], series: Callable[[Array], Array]) -> Array:
    """`function` away from zero and its Taylor `series` near it, with no 0/0 in either branch."""
    small = w < 1e-4
    return xp.where(small, series(w), function(xp.where(small, 1 + 0 * w, w)))


def _sinc_sqrt(xp: Any, w: Array) -> Array:
    return _near_zero(xp, w, lambda v: xp.sin(xp.sqrt(v)) / xp.sqrt(v), lambda v: 1 - v / 6 + v**2 / 120 - v**3 / 5040)


def _atan_sqrt(xp: Any, w: Array) -> Array:
    return _near_zero(xp, w, lambda v: xp.atan(xp.sqrt(v)) / xp.sqrt(v), lambda v: 1 - v / 3 + v**2 / 5 - v**3 / 7)


def _squared_angle(xp: Any, w: Array) -> Array:
    """asin(√w)², for w in [0, 1] up to rounding."""
    inside = xp.where(w < 1, w, 1 + 0 * w)
    return _near_zero(
        xp,
        inside,
        lambda v: xp.atan2(xp.sqrt(v), xp.sqrt(1 - v)) ** 2,
        lambda v: v + v**2 / 3 + v**3 * 8 / 45 + v**4 * 4 / 35,
    )


# First divided differences (f(a) - f(b)) / (a - b), written without cancellation.
def _exp_difference(xp: Any, a: Array, b: Array) -> Array:
    half = (a - b) / 2
    one = xp.ones_like(half)
    safe = xp.where(half == 0, one, half)
    return xp.exp((a + b) / 2) * xp.where(half == 0, one, xp.sinh(safe) / safe)


def _log_difference(xp: Any, a: Array, b: Array) -> Array:
    ratio = (a - b) / b
    one = xp.ones_like(ratio)
    safe = xp.where(ratio == 0, one, ratio)
    return xp.where(ratio == 0, one, xp.log1p(safe) / safe) / b


def _sqrt_difference(xp: Any, a: Array, b: Array) -> Array:
    # Only the derivative at a matrix of rank 0 meets a zero here, and has no finite value.
    return 1 / (_sqrt(xp, a) + _sqrt(xp, b))


def _sqrt(xp: Any, w: Array) -> Array:
    # Rounding may push the smallest eigenvalue of a badly conditioned positive matrix below zero.
    return xp.sqrt(xp.where(w > 0, w, 0 * w))


def _difference_from(function: Callable[[Any, Array], Array]) -> Callable[[Any, Array, Array], Array]:
    """The quotient where a and b are apart, the derivative at their middle where they are close (error O(|a-b|²))."""

    def difference(xp: Any, a: Array, b: Array) -> Array:
        close = jnp.abs(a - b) <= epsilon(a) ** (1 / 3) * (1 + jnp.abs(a))
        gap = jnp.where(close, 1, a - b)
        derivative = jax.jvp(lambda w: function(jnp, w), ((a + b) / 2,), (jnp.ones_like(a + b),))[1]
        return jnp.where(close, derivative, (function(jnp, a) - function(jnp, b)) / gap)

    return difference


def _cos_sqrt(xp: Any, w: Array) -> Array:
    return _near_zero(xp, w, lambda v: xp.cos(xp.sqrt(v)), lambda v: 1 - v / 2 + v**2 / 24 - v**3 / 720)


class _Function(NamedTuple):
    value: Callable[[Any, Array], Array]
    difference: Callable[[Any, Array, Array], Array]


_FUNCTIONS = {
    "exp": _Function(lambda xp, w: xp.exp(w), _exp_difference),
    "log": _Function(_log, _log_difference),
    "sqrt": _Function(_sqrt, _sqrt_difference),
    # Functions of s = σ², for σ a singular value: cos σ, (sin σ)/σ and (atan σ)/σ.
    "cos of root": _Function(_cos_sqrt, _difference_from(_cos_sqrt)),
    "sinc of root": _Function(_sinc_sqrt, _difference_from(_sinc_sqrt)),
    "atanc of root": _Function(_atan_sqrt, _difference_from(_atan_sqrt)),
    # Of s = sin² θ: θ².
    "squared angle": _Function(_squared_angle, _difference_from(_squared_angle)),
}
_OF_POSITIVE = frozenset({"log", "squared angle"})
"""Functions of positive matrices, whose eigenproblems have a kernel of their own."""


def _exp_by_products(a: Array) -> Array:
    """exp(a) = exp(a / 2ᵏ)^(2ᵏ), with k such that twelve terms of the series suffice."""
    bound = jnp.max(jnp.sum(jnp.abs(a), axis=-1), axis=-1)[..., None, None]
    halvings = jnp.ceil(jnp.log2(jnp.where(bound > _SERIES_RADIUS, bound / _SERIES_RADIUS, 1)))
    a = a / jnp.exp2(halvings)
    square = a @ a
    powers, fourth = (identity_like(a), a, square, square @ a), square @ square
    result = fourth / math.factorial(12)
    for start in (8, 4, 0):
        result = result + sum(power / math.factorial(start + k) for k, power in enumerate(powers))
        result = result @ fourth if start > 0 else result
    count = jnp.clip(halvings, 0, _MOST_SQUARINGS).astype(jnp.int32)
    squared = lambda k, power: jnp.where(k < count, power @ power, power)  # noqa: E731
    return symmetric_part(jax.lax.fori_loop(0, jnp.max(count), squared, result))


_SERIES_RADIUS = 0.3  # 0.3¹³/13! = 3e-17
_MOST_SQUARINGS = 64


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _spectral_jax(names: tuple[str, ...], a: Array) -> tuple[Array, ...]:
    if is_traced(a) and names == ("exp",):
        return (_exp_by_products(a),)
    positive = _kernel.suits(a) and _OF_POSITIVE.issuperset(names)
    values, vectors = _jacobi.positive_eigh(a) if positive else eigh(a)
    return tuple(_rebuild(vectors, _FUNCTIONS[name].value(jnp, values)) for name in names)


@_spectral_jax.defjvp
def _spectral_derivative(names: tuple[str, ...], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Daleckii-Krein: D f(a)[e] = V (f[λᵢ, λⱼ] ∘ Vᵀ e V) Vᵀ, with f[·,·] the divided difference."""
    (a,), (e,) = primals, tangents
    values, vectors = eigh(a)
    inner = vectors.mT @ symmetric_part(e) @ vectors
    results, derivatives = [], []
    for name in names:
        coefficients = _FUNCTIONS[name].difference(jnp, values[..., :, None], values[..., None, :])
        results.append(_rebuild(vectors, _FUNCTIONS[name].value(jnp, values)))
        derivatives.append(vectors @ (coefficients * inner) @ vectors.mT)
    return tuple(results), tuple(derivatives)


def symmetric_functions(a: Array, *names: str) -> tuple[Array, ...]:
    """Several functions of one symmetric matrix, from one eigendecomposition."""
    if is_jax(a):
        return _spectral_jax(names, a)
    values, vectors = eigh(a)
    return tuple(_rebuild(vectors, _FUNCTIONS[name].value(namespace(a), values)) for name in names)


def symmetric_exp(a: Array) -> Array:
    """exp(a) of a symmetric matrix."""
    return symmetric_functions(a, "exp")[0]


def symmetric_log(a: Array) -> Array:
    """log(a) of a symmetric positive definite matrix."""
    return symmetric_functions(a, "log")[0]


def _log_by_eigenvalues(lower: Array, y: Array) -> Array:
    inverse = inverse_of_lower(lower)
    return symmetric_log(symmetric_part(inverse @ y @ inverse.mT))


_log_by_products = _logarithm.quotient_log(_log_by_eigenvalues)


def log_of_quotient(lower: Array, y: Array) -> Array:
    """log(L⁻¹ y L⁻ᵀ) for a lower factor L and symmetric positive definite y."""
    if (is_traced(lower) or is_traced(y)) and not _kernel.suits(lower) and not _kernel.suits(y):
        return _log_by_products(lower, y)
    return _log_by_eigenvalues(lower, y)


@jax.custom_jvp
def _quotient_distance_jax(x: Array, y: Array) -> Array:
    return _quotient_distance(x, y)


def _quotient_distance(x: Array, y: Array) -> Array:
    logarithm = log_of_quotient(cholesky(x), y)
    return safe_sqrt(frobenius(logarithm, logarithm))


def _quotient_distance_derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """D_x d[e] = -tr(log(W) L⁻¹ e L⁻ᵀ) / d, and the same with x and y exchanged: d is symmetric.

    The first variation of a geodesic's length. No eigenvector is differentiated, and what nobody asks for is not
    computed: by x it takes no more than the logarithm that the distance needs.
    """
    (x, y), (by_x, by_y) = map(jnp.asarray, primals), tangents

    def half(x: Array, y: Array, e: Array) -> tuple[Array, Array]:
        lower = cholesky(x)
        logarithm = log_of_quotient(lower, y)
        length = safe_sqrt(frobenius(logarithm, logarithm))
        return length, -frobenius(logarithm, whiten(lower, symmetric_part(e))) / positive(length)

    unasked = jax.custom_derivatives.SymbolicZero
    pairs = ((x, y, by_x), (y, x, by_y))
    found = [half(*pair) for pair in pairs if not isinstance(pair[2], unasked)] or [half(x, y, jnp.zeros_like(x))]
    return found[0][0], sum(derivative for _, derivative in found)


_quotient_distance_jax.defjvp(_quotient_distance_derivative, symbolic_zeros=True)


def quotient_distance(x: Array, y: Array) -> Array:
    """‖log(L⁻¹ y L⁻ᵀ)‖_F for symmetric positive definite x = L Lᵀ and y."""
    return _quotient_distance_jax(x, y) if is_jax(x) or is_jax(y) else _quotient_distance(x, y)


def symmetric_sqrt(a: Array) -> Array:
    """a^(1/2) of a symmetric positive semidefinite matrix."""
    return symmetric_functions(a, "sqrt")[0]


def symmetric_derivatives(a: Array, name: str, *directions: Array) -> tuple[Array, ...]:
    """f(a), and the derivatives D f(a)[e] in symmetric directions e, for f = exp, log or sqrt (Daleckii & Krein).

    Under JAX these differentiate through the eigenvectors: at repeated eigenvalues that gives NaN.
    """
    xp = namespace(a)
    values, vectors = eigh(a)
    coefficients = _FUNCTIONS[name].difference(xp, values[..., :, None], values[..., None, :])
    moved = (vectors @ (coefficients * (vectors.mT @ e @ vectors)) @ vectors.mT for e in directions)
    return _rebuild(vectors, _FUNCTIONS[name].value(xp, values)), *map(symmetric_part, moved)


def _lyapunov(a: Array, b: Array) -> Array:
    values, vectors = eigh(a)
    inner = vectors.mT @ b @ vectors / (values[..., :, None] + values[..., None, :])
    return symmetric_part(vectors @ inner @ vectors.mT)


_lyapunov_jax = jax.custom_jvp(_lyapunov)


@_lyapunov_jax.defjvp
def _lyapunov_derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """a L + L a = b gives a dL + dL a = db - da L - L da: the same equation, and no eigenvector is differentiated."""
    (a, b), (da, db) = primals, tangents
    solution = _lyapunov_jax(a, b)
    return solution, _lyapunov_jax(a, symmetric_part(db) - 2 * symmetric_part(symmetric_part(da) @ solution))


def lyapunov(a: Array, b: Array) -> Array:
    """The symmetric L with a L + L a = b, for a symmetric positive definite a and a symmetric b."""
    return _lyapunov_jax(a, b) if is_jax(a) else _lyapunov(a, b)


def check_path(exists: Array) -> None:
    """Refuse two points with no unique shortest path between them, where the numbers can be seen."""
    if not is_traced(exists) and not bool(namespace(exists).all(exists)):
        raise ValueError(
            "no unique shortest path between these two points (they are at right angles, or opposite); "
            "take smaller steps or restart more often"
        )


# --- polar factors by Newton-Schulz --------------------------------------------------------------------------
# Retractions and transports meet matrices close to orthogonal, where a few r×r products replace an
# eigendecomposition. The loop runs until the error e is below √ε/8: one more step leaves about e².
# Under `jax.jit`, for else each call outside compiled code would compile the loop anew.

_MAX_ITERATIONS = 100


def _inverse_sqrt_step(state: tuple[Array, ...]) -> tuple[Array, ...]:
    y, z, correction, _ = state
    return _with_correction(y @ correction, correction @ z)


def _with_correction(y: Array, z: Array) -> tuple[Array, ...]:
    """y → s^(1/2) and z → s^(-1/2), by what both are to be multiplied next, and how far that is from the identity."""
    eye = identity_like(y)
    correction = (3 * eye - z @ y) / 2
    return y, z, correction, _largest_entry(correction - eye)


def _largest_entry(a: Array) -> Array:
    xp = namespace(a)
    return xp.max(xp.abs(a), axis=(-2, -1))


def _polar_step(state: tuple[Array, ...]) -> tuple[Array, ...]:
    a, _ = state
    correction = (3 * identity_like(a) - a.mT @ a) / 2
    return a @ correction, _largest_entry(correction - identity_like(a))


def _iterate(step: Callable[[Any], Any], state: tuple[Array, ...]) -> Any:
    """Repeat `step` until the last entry of the state, an error for each batch index, is small (or NaN)."""
    tolerance = _iteration_tolerance(state[0])
    if is_jax(state[0]):
        going_on = lambda c: jnp.any(c[1][-1] > tolerance) & (c[0] < _MAX_ITERATIONS)  # noqa: E731
        return jax.lax.while_loop(going_on, lambda c: (c[0] + 1, step(c[1])), (jnp.asarray(0), state))[1]
    for _ in range(_MAX_ITERATIONS):
        if not bool(namespace(state[-1]).any(state[-1] > tolerance)):
            break
        state = step(state)
    return state


def _iteration_tolerance(a: Array) -> float:
    return epsilon(a) ** 0.5 / 8


def _inverse_sqrt(s: Array) -> Array:
    xp = namespace(s)
    # The largest row sum bounds the eigenvalues, and is 1 at the identity: the iteration then needs no steps.
    bound = xp.max(xp.sum(xp.abs(s), axis=-1), axis=-1)[..., None, None]
    scaled = s / bound
    first = (3 * identity_like(s) - scaled) / 2  # The first correction, of y = scaled and z = I.
    _, z, correction, _ = _iterate(_inverse_sqrt_step, _with_correction(scaled @ first, first))
    return symmetric_part(correction @ z) / xp.sqrt(bound)


_DEGREES = (6, 12)
"""Of the polynomials for s^(-1/2): three and five products, where most steps need two or three times as many else."""


def _series_for_inverse_sqrt(degree: int, s: Array) -> Array:
    """Σ cₖ Eᵏ with E = s - I and cₖ = (-1/4)ᵏ binomial(2k, k), from E² and E³, for degrees divisible by 3."""
    eye = identity_like(s)
    e = s - eye
    square = e @ e
    cube = e @ square
    powers = (eye, e, square)
    c = [(-1 / 4) ** k * math.comb(2 * k, k) for k in range(degree + 1)]
    found = c[degree] * cube
    for first in range(degree - 3, -1, -3):
        found = sum(c[first + k] * powers[k] for k in range(3)) + (found if first == degree - 3 else cube @ found)
    return found


def _reach_of_series(degree: int, epsilon: float) -> float:
    """How large ‖E‖ may be for the terms left out to lie below a quarter of a unit of rounding."""
    following = math.comb(2 * degree + 2, degree + 1) / 4 ** (degree + 1)
    return (epsilon / 4 / following) ** (1 / (degree + 1))


@jax.custom_batching.custom_vmap
def _inverse_sqrt_of_all(s: Array) -> Array:
    """For matrices that are all so close to the identity by a polynomial, else by Newton-Schulz."""
    distance = jnp.max(jnp.sum(jnp.abs(s - identity_like(s)), axis=-1))  # bounds the eigenvalues of E
    # Not `>`: where one matrix is not finite, the others go the way that serves all.
    which = sum((~(distance <= _reach_of_series(degree, epsilon(s)))).astype(jnp.int32) for degree in _DEGREES)
    by_series = [functools.partial(_series_for_inverse_sqrt, degree) for degree in _DEGREES]
    return jax.lax.switch(which, [*by_series, _inverse_sqrt], s)


@_inverse_sqrt_of_all.def_vmap
def _inverse_sqrt_of_more(axis_size: int, in_batched: list[bool], s: Array) -> tuple[Array, bool]:
    return _inverse_sqrt_of_all(s), True


@jax.custom_jvp
@jax.jit
def _inverse_sqrt_jax(s: Array) -> Array:
    return _inverse_sqrt_of_all(s)


@_inverse_sqrt_jax.defjvp
def _inverse_sqrt_derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Z = S^(-1/2) gives Z·dZ + dZ·Z = -Z² dS Z², a Lyapunov equation, solved in Z's eigenbasis."""
    (s,), (ds,) = primals, tangents
    z = _inverse_sqrt_jax(s)
    values, vectors = eigh(z)
    squared = _rebuild(vectors, values**2)
    right = vectors.mT @ (squared @ symmetric_part(ds) @ squared) @ vectors
    return z, -vectors @ (right / (values[..., :, None] + values[..., None, :])) @ vectors.mT


def inverse_sqrt(s: Array) -> Array:
    """s^(-1/2) of a symmetric positive definite matrix."""
    if is_torch(s) and s.is_cpu and not s.requires_grad:
        # Each Newton-Schulz step is a dozen eager calls; on the CPU one eigendecomposition is 2 to 15 times faster.
        # (Its derivative is NaN at repeated eigenvalues, so not where torch differentiates.)
        values, vectors = namespace(s).linalg.eigh(s)
        return (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT
    return _inverse_sqrt_jax(s) if is_jax(s) else _inverse_sqrt(s)


def orthonormal_by_products(y: Array) -> Array | None:
    """y (yᵀy)^(-1/2) by matrix products alone, for eager PyTorch and columns close to orthonormal; else None.

    With E = yᵀy - I, y (I - E/2) leaves a residual of 3E²/4, whose entries are at most 3/4 of the square of E's longest
    row. Where that is not yet rounding, y (I - E/2 + 3E²/8) leaves an error of 5/16 ‖E‖³, and each y (3I - yᵀy)/2 after
    it one of 3/4 of the square.
    """
    if not _is_eager_torch(y):
        return None
    torch = sys.modules["torch"]
    residual = _gram_residual(y)
    rows = torch.linalg.vector_norm(residual, dim=-1)
    longest, error = torch.stack([rows.amax(), torch.linalg.vector_norm(rows, dim=-1).amax()]).tolist()
    if not error < _CLOSE:
        return None
    if longest**2 <= epsilon(y):
        return minus_product(y, y, residual, 1 / 2)
    y, error = minus_product(y, y, minus_product(residual, residual, residual, 3 / 4), 1 / 2), 5 / 16 * error**3
    while error > epsilon(y):
        y, error = minus_product(y, y, _gram_residual(y), 1 / 2), 3 / 4 * error**2
    return y


def _gram_residual(y: Any) -> Any:
    """yᵀy - I of a torch tensor."""
    residual = y.mT @ y
    residual.diagonal(dim1=-2, dim2=-1).sub_(1)
    return residual


_CLOSE = 0.5
"""The largest ‖yᵀy - I‖ for which the series is used: three more products then reach the rounding of doubles."""


def _is_eager_torch(a: Array) -> bool:
    """Whether a is a torch tensor whose values may be looked at: not differentiated, traced or mapped over."""
    if not is_torch(a) or a.requires_grad:
        return False
    torch = sys.modules["torch"]
    return not torch.compiler.is_compiling() and not torch._C._functorch.is_functorch_wrapped_tensor(a)


def _polar(a: Array) -> Array:
    """The polar factor by Newton-Schulz; NaN where it does not converge, which is where a is singular."""
    xp = namespace(a)
    q, error = _iterate(_polar_step, (a, xp.full_like(a[..., 0, 0], xp.inf)))
    return xp.where((error <= _iteration_tolerance(a))[..., None, None], q, xp.nan)


_polar_jax = jax.custom_jvp(jax.jit(_polar))


@_polar_jax.defjvp
def _polar_derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """A = Q H gives dQ = Q Ω with the skew Ω from H Ω + Ω H = Qᵀ dA - dAᵀ Q."""
    (a,), (da,) = primals, tangents
    q = _polar_jax(a)
    values, vectors = eigh(symmetric_part(q.mT @ a))
    skew = q.mT @ da
    right = vectors.mT @ (skew - skew.mT) @ vectors
    return q, q @ vectors @ (right / (values[..., :, None] + values[..., None, :])) @ vectors.mT


def polar_factor(a: Array) -> Array:
    """The orthogonal factor Q of a square a = Q H, for singular values in (0, 1] (a product xᵀy of orthonormal x, y).

    A singular a has no polar factor: refused where the numbers can be seen, NaN in compiled code.
    """
    q = _polar_jax(a) if is_jax(a) else _polar(a)
    check_path(~namespace(a).isnan(q))
    return q


def orthogonal_factor(a: Array) -> Array:
    """The orthogonal factor Q of an invertible square a = Q H."""
    xp = namespace(a)
    if is_torch(a) and a.is_cpu and not a.requires_grad:
        left, _, right = xp.linalg.svd(a)  # One call instead of a dozen for each step of an iteration.
        return left @ right
    sums = [xp.max(xp.sum(xp.abs(a), axis=axis), axis=-1) for axis in (-1, -2)]
    scaled = a / xp.sqrt(sums[0] * sums[1])[..., None, None]  # By a bound of the largest singular value.
    return _polar_jax(scaled) if is_jax(a) else _polar(scaled)
