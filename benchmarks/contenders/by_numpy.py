"""RSRM in NumPy by hand, with the retraction and the transport that are retrax's defaults."""

from collections.abc import Callable

import numpy as np

from benchmarks.cases import Case
from benchmarks.timing import Run, timed

Array = np.ndarray


def rsrm(case: Case, steps: int, batch: int) -> Run:
    """Repetitions of `steps` steps."""
    start, indices = case.start, case.indices(steps, batch)
    return timed(lambda: trajectory(case, start, indices), steps)


def trajectory(case: Case, x: Array, indices: Array, retraction: str = "polar") -> Array:
    """The point after one step for each row of indices, from d = 0 at step 1."""
    step = _spd_step if case.kind == "centroid" else _orthonormal_step(case.kind, retraction)
    previous, direction = x, np.zeros_like(x)
    for t, chosen in enumerate(indices, start=2):
        eta, rho = case.step_size * t ** (-1 / 3), 0.1 * t ** (-2 / 3)
        x, previous, direction = step(x, previous, direction, case.data[chosen], eta, rho)
    return x


def pca_gradient(x: Array, batch: Array) -> Array:
    """-(2/b) Bᵀ(Bx)."""
    return (-2 / len(batch)) * (batch.T @ (batch @ x))


def joint_gradient(x: Array, batch: Array) -> Array:
    """Column k: -(4/b) Σ (uₖᵀXᵢuₖ) Xᵢuₖ."""
    products = batch @ x
    diagonals = np.sum(x * products, axis=-2, keepdims=True)
    return (-4 / len(batch)) * np.sum(diagonals * products, axis=0)


def _orthonormal_step(kind: str, retraction: str) -> Callable[..., tuple[Array, Array, Array]]:
    ambient = pca_gradient if kind == "pca" else joint_gradient

    def project(x: Array, z: Array) -> Array:
        product = x.T @ z
        return z - x @ (product if kind == "pca" else (product + product.T) / 2)

    def retract(y: Array) -> Array:
        if kind == "pca" and retraction == "polar":
            values, vectors = np.linalg.eigh(y.T @ y)
            return y @ ((vectors / np.sqrt(values)) @ vectors.T)
        return y @ np.linalg.inv(np.linalg.cholesky(y.T @ y)).T

    def step(
        x: Array, previous: Array, direction: Array, batch: Array, eta: float, rho: float
    ) -> tuple[Array, Array, Array]:
        gradient = project(x, ambient(x, batch))
        correction = project(x, direction - project(previous, ambient(previous, batch)))
        direction = gradient + (1 - rho) * correction
        return retract(x - eta * direction), x, direction

    return step


def _function(function: Callable[[Array], Array], a: Array) -> Array:
    values, vectors = np.linalg.eigh(a)
    return (vectors * function(values)[..., None, :]) @ vectors.swapaxes(-1, -2)


def spd_gradient(x: Array, batch: Array) -> Array:
    """-2 mean Log_x(Xᵢ), in the frame of the Cholesky factor."""
    lower = np.linalg.cholesky(x)
    inverse = np.linalg.inv(lower)
    return -2 * lower @ np.mean(_function(np.log, inverse @ batch @ inverse.T), axis=0) @ lower.T


def _spd_step(
    x: Array, previous: Array, direction: Array, batch: Array, eta: float, rho: float
) -> tuple[Array, Array, Array]:
    lower = np.linalg.cholesky(previous)
    inverse = np.linalg.inv(lower)
    transport = lower @ _function(np.sqrt, inverse @ x @ inverse.T) @ inverse
    carried = transport @ (direction - spd_gradient(previous, batch)) @ transport.T
    direction = spd_gradient(x, batch) + (1 - rho) * carried
    lower = np.linalg.cholesky(x)
    inverse = np.linalg.inv(lower)
    moved = lower @ _function(np.exp, inverse @ (-eta * direction) @ inverse.T) @ lower.T
    return (moved + moved.T) / 2, x, direction
