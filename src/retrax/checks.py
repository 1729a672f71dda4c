"""Slope checks that users can call on their own problems and manifolds; each measures and says pass or fail."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax._arguments import integer
from retrax._precision import precision
from retrax._tree import add, scale, subtract
from retrax.manifolds.base import Manifold
from retrax.problems.base import Problem
from retrax.problems.function_checks import check_functions

_STEPS = np.logspace(-1, -4, 13)
_FLOOR = 1e-12


@dataclasses.dataclass(frozen=True)
class Check:
    """The outcome of a check: what was measured, what was expected, and whether that passes."""

    name: str
    passed: bool
    slope: float
    """The order at which the error falls with the step length; infinite where the error is only rounding."""
    defect: float
    """The largest violation of an exact law."""
    detail: str

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}: {self.name}: {self.detail}"


def check_gradient(problem: Problem, x: Any = None, *, batch: Any = None, seed: int = 0) -> Check:
    """Whether the gradient is the derivative of the loss: |f(R(εu)) - f(x) - ε⟨grad f, u⟩| must fall as ε².

    Measured at x (default: the problem's start) along a random tangent direction, on `batch` (default: the first 64
    samples of data in memory). The defect is the part of the gradient that is not tangent.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"check_gradient needs a retrax.Problem, not {problem!r}")
    seed = integer(seed, "seed", least=0)
    manifold, objective = problem.manifold, problem.objective
    if batch is None:
        if not problem.source.resident:
            raise ValueError("the data are not in memory: give check_gradient a batch")
        batch = jax.tree.map(lambda a: a[:64], problem.source.data)
    if x is not None:
        manifold.check_point(x, name="x")
    start = problem.initial_point(seed) if x is None else x
    check_functions(problem, start, "float64")
    with precision("float64"):
        point = _float64(start)
        batch = jax.tree.map(jnp.asarray, batch)
        direction = _unit_tangent(manifold, point, seed)
        gradient = objective.gradient(point, batch)
        value, derivative = objective.loss(point, batch), manifold.inner(point, gradient, direction)

        def error(step: float) -> float:
            moved = objective.loss(manifold.retract(point, scale(step, direction)), batch)
            return abs(float(moved - value - step * derivative)) / max(1.0, abs(float(value)))

        slope = _slope(error)
        normal = subtract(gradient, manifold.project(point, gradient))
        defect = _largest(normal) / max(1.0, _largest(gradient))
    detail = f"slope {slope:.2f} (expected 2), gradient off the tangent space by {defect:.1e} (expected 0)"
    return Check("gradient", slope > 1.8 and defect < 1e-8, slope, defect, detail)


def check_retraction(manifold: Manifold, *, seed: int = 0) -> Check:
    """Whether R_x(εu) = x + εu + O(ε²), R_x(0) = x, and the result lies on the manifold."""
    seed = _checked("check_retraction", manifold, seed)
    with precision("float64"):
        point = manifold.random_point(_gaussian(manifold, seed))
        direction = _unit_tangent(manifold, point, seed)

        def error(step: float) -> float:
            straight = add(point, scale(step, direction))
            return _largest(subtract(manifold.retract(point, scale(step, direction)), straight))

        slope = _slope(error)
        unmoved = _largest(subtract(manifold.retract(point, scale(0.0, direction)), point))
        violation = float(jnp.max(manifold.violation(manifold.retract(point, direction))))
    defect = max(unmoved, violation)
    detail = f"slope {slope:.2f} (expected 2), R(0) - x = {unmoved:.1e}, violation after a step {violation:.1e}"
    return Check("retraction", slope > 1.8 and defect < 1e-10, slope, defect, detail)


def check_transport(manifold: Manifold, *, seed: int = 0) -> Check:
    """Whether transport lands in the tangent space at y, is the identity for y = x, and keeps its word on isometry.

    For a transport that is not isometric, the slope says how fast inner products are recovered for short steps.
    """
    seed = _checked("check_transport", manifold, seed)
    with precision("float64"):
        x = manifold.random_point(_gaussian(manifold, seed))
        step, u, v = (_unit_tangent(manifold, x, seed + k) for k in range(3))
        y = manifold.retract(x, scale(0.5, step))

        def isometry_error(length: float) -> float:
            z = manifold.retract(x, scale(length, step))
            carried = manifold.inner(z, manifold.transport(x, z, u), manifold.transport(x, z, v))
            return abs(float(carried - manifold.inner(x, u, v)))

        carried = manifold.transport(x, y, u)
        off_tangent = _largest(subtract(carried, manifold.project(y, carried)))
        at_home = _largest(subtract(manifold.transport(x, x, u), u))
        isometry = isometry_error(0.5)
        slope = _slope(isometry_error)
    defect = max(off_tangent, at_home, isometry if manifold.isometric else 0.0)
    passed = defect < 1e-10 and (manifold.isometric or slope > 0.8)
    kind = "isometric" if manifold.isometric else f"not isometric, slope {slope:.2f}"
    detail = (
        f"{kind}; off the tangent space {off_tangent:.1e}, T_x→x - id {at_home:.1e}, "
        f"change of an inner product {isometry:.1e}"
    )
    return Check("transport", passed, slope, defect, detail)


def _checked(name: str, manifold: Any, seed: Any) -> int:
    if not isinstance(manifold, Manifold):
        raise TypeError(f"{name} needs a retrax manifold such as retrax.Sphere(3), not {manifold!r}")
    return integer(seed, "seed", least=0)


def _gaussian(manifold: Manifold, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    return manifold.each(lambda m: jnp.asarray(generator.standard_normal(m.ambient_shape)))


def _unit_tangent(manifold: Manifold, x: Any, seed: int) -> Any:
    tangent = manifold.random_tangent(x, _gaussian(manifold, seed + 1))
    return scale(1 / manifold.norm(x, tangent), tangent)


def _float64(tree: Any) -> Any:
    return jax.tree.map(lambda a: jnp.asarray(a, dtype=jnp.float64), tree)


def _largest(tree: Any) -> float:
    return max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(tree))


def _slope(error: Callable[[float], float]) -> float:
    """The slope of log error against log step, over the steps where the error is above rounding."""
    errors = np.array([error(float(step)) for step in _STEPS])
    kept = errors > _FLOOR
    if kept.sum() < 3:
        return float("inf")
    return float(np.polyfit(np.log(_STEPS[kept]), np.log(errors[kept]), 1)[0])
