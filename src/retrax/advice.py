"""What a result warns of: a run that is clearly unfinished, or a step size far from what the curvature allows."""

import math
from collections.abc import Callable

import jax
import numpy as np

from retrax.manifolds.base import Manifold, scaled
from retrax.recording import History
from retrax.typing import Point, Step

STILL_FALLING = 0.05
"""A run is unfinished if the last fifth of its records brought this share of the whole decrease, or more."""
ABOVE_ERROR = 10.0
"""... or if its direction is so many times as long as the error that the method estimates for it."""
NOT_FALLEN = 0.1
"""A run has stalled if in the last fifth of its records the gradient was above this share of its largest norm."""
TOO_SMALL, USUAL, TOO_LARGE = 0.002, 0.01, 0.2
"""η κ, with κ the curvature of F along the last direction: mini-batches, whose own smoothness is several times κ, do
best near the middle one (PCA of the digits, b = 5: best between 0.006 and 0.05, useless beyond 0.3)."""
FEWEST_RECORDS = 10
_LENGTH = 1e-2
"""Of the steps that measure κ, as a share of the point's size: their second difference is far above rounding."""


def unfinished(history: History, least: float = STILL_FALLING) -> str | None:
    """Why a run's records say that more steps would have paid."""
    loss = history["loss"]
    fifth = len(loss) // 5
    whole, late = loss[0] - loss[-1], np.mean(loss[-fifth - 2 : -fifth + 1]) - loss[-1]
    if whole > 0 and late > least * whole:
        return f"the last fifth of the run brought {late / whole:.0%} of the whole decrease of the loss"
    if "estimated_error" in history:
        direction, error = history["direction_norm"][-1], history["estimated_error"][-1]
        if late > 0 and direction > ABOVE_ERROR * error > 0:
            return f"the gradient, about {direction:.2g}, is still far above its estimated error, {error:.2g}"
    return None


def stalled(history: History) -> bool:
    """Whether the gradient ended about as large as it had been."""
    norm = history["gradient_norm"]
    return bool(np.median(norm[-(len(norm) // 5) :]) > NOT_FALLEN * np.max(norm))


def curvature(manifold: Manifold, loss: Callable[[Point], float], last: Step) -> float:
    """F'' along the last direction d, of unit length, from F at three points: (F(δ) - 2F(0) + F(-δ)) / δ²."""
    norm = float(manifold.norm(last.point, last.vector))
    if not 0 < norm < math.inf:
        return 0.0
    length = _LENGTH * (_size(last.point) or 1.0)
    here = loss(last.point)
    ahead, behind = (
        loss(manifold.retract(last.point, scaled(manifold, sign * length / norm, last.vector))) for sign in (-1, 1)
    )
    found = (ahead - 2 * here + behind) / length**2
    return found if math.isfinite(found) else 0.0


def warning(history: History, measured: Callable[[], float] | None) -> str:
    """What a result should say, or nothing. `measured()` finds η κ; it is given where a step size was."""
    if len(history.rows) < FEWEST_RECORDS:
        return ""
    share = abs(measured()) if measured is not None else USUAL
    if share > TOO_LARGE and stalled(history):
        return (
            "the gradient has not become small, and the step size is far above what the curvature allows; "
            f"divide the learning rate by about {_rounded(share / USUAL)}, or take retrax.rsrm() without one"
        )
    too_small = 0 < share < TOO_SMALL
    why = unfinished(history, STILL_FALLING / 10 if too_small else STILL_FALLING)
    if why is None:
        return ""
    if not too_small:
        return f"unfinished: {why}; take more steps"
    return (
        f"unfinished: {why}; "
        f"multiply the learning rate by about {_rounded(USUAL / share)}, or take retrax.rsrm() without one"
    )


def _rounded(factor: float) -> str:
    """One digit."""
    return f"{float(f'{factor:.1g}'):g}"


def _size(point: Point) -> float:
    """The largest entry."""
    return max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(point))
