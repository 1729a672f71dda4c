"""Means, distances and logarithms of symmetric positive definite matrices in plain NumPy: the short way.

Compiling takes longer than all of this for some thousands of small matrices. The formulas for all array libraries, with
gradients and transports, are those of `retrax.SPD`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

METRICS = ("affine-invariant", "log-euclidean", "bures-wasserstein")
"""Those of `retrax.SPD`, by names that need not load JAX."""
_CHUNK_ENTRIES = 2**21
_MEMORY = 5


class FoundMean(NamedTuple):
    """A mean, how it was found, and whether the equation that defines it holds."""

    point: np.ndarray
    solver: str
    iterations: int
    converged: bool


def symmetric(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """V diag(λ) Vᵀ, for one matrix or many."""
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """A power of positive definite matrices."""
    values, vectors = positive_eigen(matrix)
    return symmetric(values**exponent, vectors)


def exponential(matrix: np.ndarray) -> np.ndarray:
    """The exponential of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return symmetric(np.exp(values), vectors)


def logarithm(matrix: np.ndarray) -> np.ndarray:
    """The logarithm of positive definite matrices."""
    values, vectors = positive_eigen(matrix)
    return symmetric(np.log(values), vectors)


def positive_eigen(matrices: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors; a ValueError names a matrix, counted from `first`, with one that is not positive."""
    values, vectors = np.linalg.eigh(matrices)
    smallest = values[..., 0]
    if not np.all(smallest > 0):
        index = int(np.argmin(np.atleast_1d(smallest > 0)))
        raise ValueError(
            f"matrix {first + index} is not positive definite, its smallest eigenvalue is "
            f"{np.atleast_1d(smallest)[index]:.3g} (on a whitened scale); take more samples for each "
            "covariance, or add a small multiple of the identity"
        )
    return values, vectors


def congruence(matrices: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """A X Aᵀ for many symmetric X, as two large products instead of many small ones."""
    count, size = matrices.shape[0], matrices.shape[-1]
    half = (matrices.reshape(-1, size) @ factor.T).reshape(count, size, -1)
    width = half.shape[-1]
    return (np.swapaxes(half, 1, 2).reshape(-1, size) @ factor.T).reshape(count, width, width)


def _chunks(matrices: np.ndarray) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // matrices[0].size)
    yield from (slice(start, start + step) for start in range(0, len(matrices), step))


def mean_of(
    function: Callable[[np.ndarray], np.ndarray], matrices: np.ndarray, weights: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Σ wᵢ f(A Xᵢ Aᵀ) with f applied to eigenvalues; in chunks, so that nothing of the size of all data is made."""
    size = matrices.shape[-1]
    total = np.zeros((size, size))
    for part in _chunks(matrices):
        values, vectors = positive_eigen(congruence(matrices[part], factor), part.start)
        # One product for the whole sum: the vectors of all matrices side by side.
        side_by_side = vectors.transpose(1, 0, 2).reshape(size, -1)
        total += (side_by_side * (function(values) * weights[part, None]).ravel()) @ side_by_side.T
    return (total + total.T) / 2


# --- means ----------------------------------------------------------------------------------------------------------


def mean(matrices: np.ndarray, weights: np.ndarray, metric: str, tolerance: float, most: int) -> FoundMean:
    """The Fréchet mean of matrices in a metric; weights need not sum to one."""
    kept = weights > 0
    if not np.all(kept):
        matrices, weights = matrices[kept], weights[kept]
    weights = weights / weights.sum()
    return _MEANS[metric](matrices, weights, tolerance, most)


def _affine_invariant_mean(matrices: np.ndarray, weights: np.ndarray, tolerance: float, most: int) -> FoundMean:
    """Σ wᵢ log(C^(-1/2) Xᵢ C^(-1/2)) = 0, by Anderson's acceleration of the fixed-point iteration, step 1.

    C = GGᵀ is carried by its frame G: in its coordinates parallel transport along a geodesic C(t) = G exp(tS) Gᵀ is
    the identity, so that earlier steps s and differences y need no transport, and the acceleration (Anderson 1965;
    Walker & Ni 2011) is that of flat space. A step that makes the residual grow is refused and halved. Once the next
    residual, extrapolated, is below the tolerance, the last step is taken without looking again.
    """
    frame = np.linalg.cholesky(np.tensordot(weights, matrices, axes=1))
    inverse = np.linalg.inv(frame)
    residual = mean_of(np.log, matrices, weights, inverse)
    size = before = float(np.linalg.norm(residual))
    steps: list[np.ndarray] = []
    differences: list[np.ndarray] = []
    for iteration in range(1, most + 1):
        if size <= tolerance / 10:
            return FoundMean(frame @ frame.T, "anderson", iteration, True)
        step = _accelerated(residual, steps, differences)
        last = size * min(1.0, size / before) <= tolerance
        found = None
        while found is None:
            values, vectors = np.linalg.eigh(step / 2)
            new_frame = frame @ symmetric(np.exp(values), vectors)
            new_inverse = symmetric(np.exp(-values), vectors) @ inverse
            if last:
                return FoundMean(new_frame @ new_frame.T, "anderson", iteration, True)
            found = mean_of(np.log, matrices, weights, new_inverse)
            if np.linalg.norm(found) > 1.5 * size and np.linalg.norm(step) > tolerance:
                step, found = step / 2, None
        steps, differences = [*steps[1 - _MEMORY :], step], [*differences[1 - _MEMORY :], residual - found]
        frame, inverse, residual, before, size = new_frame, new_inverse, found, size, float(np.linalg.norm(found))
    return FoundMean(frame @ frame.T, "anderson", most, size <= tolerance)


def _accelerated(residual: np.ndarray, steps: list[np.ndarray], differences: list[np.ndarray]) -> np.ndarray:
    """s = r - Σ cⱼ(yⱼ - sⱼ), where c makes r - Σ cⱼyⱼ smallest."""
    if not steps:
        return residual
    columns = np.stack([difference.ravel() for difference in differences], axis=1)
    coefficients = np.linalg.lstsq(columns, residual.ravel(), rcond=None)[0]
    step = residual.copy()
    for coefficient, moved, difference in zip(coefficients, steps, differences, strict=True):
        step += coefficient * (moved - difference)
    return (step + step.T) / 2


def _log_euclidean_mean(matrices: np.ndarray, weights: np.ndarray, tolerance: float, most: int) -> FoundMean:
    """exp(Σ wᵢ log Xᵢ)."""
    identity = np.eye(matrices.shape[-1])
    return FoundMean(exponential(mean_of(np.log, matrices, weights, identity)), "logarithms", 1, True)


def _bures_wasserstein_mean(matrices: np.ndarray, weights: np.ndarray, tolerance: float, most: int) -> FoundMean:
    """C ← C^(-1/2) (Σ wᵢ (C^(1/2) Xᵢ C^(1/2))^(1/2))² C^(-1/2) (Álvarez-Esteban et al. 2016)."""
    point = np.tensordot(weights, matrices, axes=1)
    for iteration in range(1, most + 1):
        root, inverse = power(point, 0.5), power(point, -0.5)
        average = mean_of(np.sqrt, matrices, weights, root)
        change = inverse @ average @ inverse - np.eye(len(point))
        point = inverse @ average @ average @ inverse
        point = (point + point.T) / 2
        if np.linalg.norm(change) <= tolerance:
            return FoundMean(point, "fixed-point", iteration, True)
    return FoundMean(point, "fixed-point", most, False)


_MEANS = {
    "affine-invariant": _affine_invariant_mean,
    "log-euclidean": _log_euclidean_mean,
    "bures-wasserstein": _bures_wasserstein_mean,
}


def moved(point: np.ndarray, matrices: np.ndarray, weights: np.ndarray, fraction: float, metric: str) -> np.ndarray:
    """Exp_C(fraction · Σ wᵢ Log_C(Xᵢ)): one step of Riemannian SGD with the step size of a running mean."""
    weights = weights / weights.sum()
    if metric == "affine-invariant":
        frame = np.linalg.cholesky(point)
        step = mean_of(np.log, matrices, weights, np.linalg.inv(frame))
        return congruence(exponential(fraction * step)[None], frame)[0]
    if metric == "log-euclidean":
        step = mean_of(np.log, matrices, weights, np.eye(len(point)))
        return exponential((1 - fraction) * logarithm(point) + fraction * step)
    root, inverse = power(point, 0.5), power(point, -0.5)
    transport = inverse @ mean_of(np.sqrt, matrices, weights, root) @ inverse
    factor = (1 - fraction) * np.eye(len(point)) + fraction * transport
    return congruence(point[None], factor)[0]


# --- distances and logarithms ----------------------------------------------------------------------------------------


def distances(matrices: np.ndarray, point: np.ndarray, metric: str) -> np.ndarray:
    """The distance of each matrix from a point."""
    if metric == "affine-invariant":
        white = congruence(matrices, np.linalg.inv(np.linalg.cholesky(point)))
        values = np.linalg.eigvalsh(white)
        if not np.all(values > 0):
            positive_eigen(white)
        return np.sqrt(np.sum(np.log(values) ** 2, axis=-1))
    if metric == "log-euclidean":
        return np.linalg.norm(logarithm(matrices) - logarithm(point), axis=(-2, -1))
    values = positive_eigen(congruence(matrices, power(point, 0.5)))[0]
    traces = np.trace(matrices, axis1=-2, axis2=-1) + np.trace(point)
    return np.sqrt(np.maximum(traces - 2 * np.sum(np.sqrt(values), axis=-1), 0))
