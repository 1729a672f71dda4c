"""geoopt's optimizers, used as its documentation shows. It has no Grassmann manifold: PCA runs on Stiefel."""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.cases import Case
from benchmarks.timing import Run


def steps_of(case: Case, optimizer: str, steps: int, batch: int, learning_rate: float = 1e-2) -> Run:
    """Repetitions of `steps` steps of RiemannianSGD or RiemannianAdam."""
    step, indices = stepper(case, optimizer, learning_rate)[0], case.indices(steps, batch)

    def run() -> float:
        start = time.perf_counter()
        for chosen in indices:
            step(chosen)
        return (time.perf_counter() - start) / steps

    return run


def stepper(case: Any, optimizer: str, learning_rate: float) -> tuple[Callable[[Any], None], Any]:
    """A function that takes one step on the samples with given numbers, and the parameter it moves.

    Of the case it reads `kind`, `data` and `start`.
    """
    import geoopt
    import torch

    torch.set_num_threads(1)  # the operations are small: a second thread only costs
    if case.kind == "centroid":
        manifold: Any = geoopt.SymmetricPositiveDefinite()
    else:
        manifold = geoopt.Stiefel(canonical=False)
    data = torch.from_numpy(case.data)
    x = geoopt.ManifoldParameter(torch.from_numpy(case.start.copy()), manifold=manifold)
    method = {"RSGD": geoopt.optim.RiemannianSGD, "RAdam": geoopt.optim.RiemannianAdam}[optimizer]([x], learning_rate)
    loss = _loss(case.kind)

    def step(chosen: Any) -> None:
        method.zero_grad()
        loss(x, data[chosen]).backward()
        method.step()

    return step, x


def _loss(kind: str) -> Callable[[Any, Any], Any]:
    import torch

    def centroid(x: Any, batch: Any) -> Any:
        lower = torch.linalg.cholesky(x)
        half = torch.linalg.solve_triangular(lower, batch, upper=False)
        white = torch.linalg.solve_triangular(lower, half.mT, upper=False)
        return torch.log(torch.linalg.eigvalsh((white + white.mT) / 2)).square().sum(-1).mean()

    if kind == "pca":
        return lambda x, batch: -(batch @ x).square().sum(-1).mean()
    if kind == "robust":
        return lambda x, batch: (1 + (batch - (batch @ x) @ x.mT).square().sum(-1)).sqrt().mean()
    if kind == "joint":
        return lambda x, batch: -(x * (batch @ x)).sum(-2).square().sum(-1).mean()
    return centroid
