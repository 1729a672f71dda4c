"""pymanopt is deterministic: its gradient and retraction on a mini-batch stand for a stochastic step.

Gradients are written by hand (its fastest backend), so that pymanopt is measured and not automatic differentiation.
"""

import time
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.contenders import by_numpy
from benchmarks.timing import Run


def manifold_of(case: Case) -> Any:
    """pymanopt's manifold for a case."""
    from pymanopt import manifolds

    if case.kind == "centroid":
        return manifolds.SymmetricPositiveDefinite(case.data.shape[-1])
    return (manifolds.Grassmann if case.kind == "pca" else manifolds.Stiefel)(*case.start.shape)


def problem_of(case: Case, samples: Any, watch: Any = None) -> Any:
    """A pymanopt problem whose cost is the mean over `samples()`; `watch(cost)` sees every evaluation."""
    import pymanopt

    manifold = manifold_of(case)

    @pymanopt.function.numpy(manifold)
    def cost(x: np.ndarray) -> float:
        value = evaluate(x, samples())
        if watch is not None:
            watch(value)
        return value

    def evaluate(x: np.ndarray, batch: np.ndarray) -> float:
        if case.kind == "pca":
            return -float(np.sum((batch @ x) ** 2)) / len(batch)
        if case.kind == "joint":
            return -float(np.sum(np.sum(x * (batch @ x), axis=-2) ** 2)) / len(batch)
        lower = np.linalg.inv(np.linalg.cholesky(x))
        return float(np.sum(np.log(np.linalg.eigvalsh(lower @ batch @ lower.T)) ** 2)) / len(batch)

    @pymanopt.function.numpy(manifold)
    def gradient(x: np.ndarray) -> np.ndarray:
        functions = {"pca": by_numpy.pca_gradient, "joint": by_numpy.joint_gradient, "centroid": by_numpy.spd_gradient}
        return functions[case.kind](x, samples())

    @pymanopt.function.numpy(manifold)
    def hessian(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return by_numpy.pca_gradient(u, samples())

    if case.kind == "centroid":
        return pymanopt.Problem(manifold, cost, riemannian_gradient=gradient)
    if case.kind == "pca":
        return pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    return pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)


def steps_of(case: Case, steps: int, batch: int) -> Run:
    """Repetitions of `steps` times gradient, then retraction."""
    current: dict[str, np.ndarray] = {}
    problem = problem_of(case, lambda: current["batch"])
    start, indices = case.start, case.indices(steps, batch)

    def run() -> float:
        x, begin = start, time.perf_counter()
        for t, chosen in enumerate(indices, start=2):
            current["batch"] = case.data[chosen]
            x = problem.manifold.retraction(x, -case.step_size * t**-0.5 * problem.riemannian_gradient(x))
        return (time.perf_counter() - begin) / steps

    return run
