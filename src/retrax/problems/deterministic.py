"""A deterministic solver for reference optima: the Riemannian Barzilai-Borwein method (Iannazzo & Porcelli 2018).

It needs full gradients; it is what the stochastic methods are measured against, not one of them.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _programs
from retrax._precision import precision
from retrax._tree import combine, scale
from retrax.manifolds.base import Manifold
from retrax.typing import Array, Point, Tangent

_MEMORY = 10
_SUFFICIENT = 1e-4


class _State(NamedTuple):
    x: Point
    value: Array
    gradient: Tangent
    norm: Array
    step: Array
    recent: Array
    """The last values of F; the line search compares with their maximum."""
    iteration: Array
    stalled: Array


def best_of(
    manifold: Manifold,
    mean: Callable[[], Any],
    starts: Sequence[np.ndarray],
    tolerance: float = 1e-10,
    flatness: float = 0.0,
) -> tuple[np.ndarray, float]:
    """The best point, and F there, that Barzilai-Borwein finds from several starts; `mean()` builds F in float64.

    It stops at a gradient norm of `tolerance` relative to the start's, or once F's last values agree to `flatness`.
    """
    with precision("float64"):
        function = mean()
        numbers = np.asarray(tolerance), np.asarray(flatness)
        points = [np.asarray(start, dtype=np.float64) for start in starts]
        found = [_programs.call(_solve, (manifold,), function, point, *numbers) for point in points]
        values = [float(value) for _, value in found]
        best = int(np.argmin(values))
        return np.asarray(found[best][0]), values[best]


def _solve(manifold: Manifold, function: Any, x: Point, tolerance: Array, flatness: Array) -> tuple[Point, Array]:
    """Barzilai-Borwein steps with a non-monotone line search, until ‖grad F‖ ≤ tolerance · max(1, ‖grad F(x₀)‖)."""
    value, gradient = function(x)
    norm = manifold.norm(x, gradient)
    goal = tolerance * jnp.maximum(1.0, norm)
    zero = jnp.asarray(0)
    recent = jnp.full((_MEMORY,), value)
    start = _State(x, value, gradient, norm, 1 / jnp.maximum(1.0, norm), recent, zero, jnp.asarray(False))

    def going_on(state: _State) -> Array:
        flat = jnp.max(state.recent) - jnp.min(state.recent) <= flatness * jnp.abs(state.value)
        flat = flat & (state.iteration >= _MEMORY) & (flatness > 0)
        return (state.norm > goal) & (state.iteration < 5000) & ~state.stalled & ~flat

    end = jax.lax.while_loop(going_on, functools.partial(_iteration, manifold, function), start)
    return end.x, end.value


def _iteration(manifold: Manifold, function: Any, state: _State) -> _State:
    reference = jnp.max(state.recent)

    def attempt(step: Array) -> tuple[Point, Array, Tangent]:
        x = manifold.retract(state.x, scale(-step, state.gradient))
        value, gradient = function(x)
        return x, value, gradient

    def too_long(carry: Any) -> Array:
        attempts, step, (_, value, _) = carry
        sufficient = value <= reference - _SUFFICIENT * step * state.norm**2 + 1e-15 * jnp.abs(reference)
        return (attempts == 0) | (~sufficient & (step > 1e-14))

    def shorten(carry: Any) -> Any:
        attempts, step, _ = carry
        step = jnp.where(attempts == 0, step, step / 4)
        return attempts + 1, step, attempt(step)

    # The first attempt is one of the loop's, so that F stands once in the program.
    none_yet = (0, state.step, (state.x, state.value, state.gradient))
    _, step, (x, value, gradient) = jax.lax.while_loop(too_long, shorten, none_yet)
    # s and y of the secant equation, both at the new point: s = -step·T(grad), y = grad_new - T(grad).
    carried = manifold.transport(state.x, x, state.gradient)
    difference = combine(1, gradient, -1, carried)
    s_y = -step * manifold.inner(x, carried, difference)
    s_s, y_y = (step * manifold.norm(x, carried)) ** 2, manifold.inner(x, difference, difference)
    long, short = s_s / s_y, s_y / y_y
    next_step = jnp.where(state.iteration % 2 == 0, long, short)
    next_step = jnp.where((s_y > 0) & jnp.isfinite(next_step), jnp.clip(next_step, 1e-10, 1e10), step * 2)
    recent = state.recent.at[state.iteration % _MEMORY].set(value)
    return _State(x, value, gradient, manifold.norm(x, gradient), next_step, recent, state.iteration + 1, step <= 1e-14)
