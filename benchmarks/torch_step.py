"""Cost of one optimizer step in PyTorch, side by side with geoopt in one run: PCA on Gr(100, 10), b = 5, float64.

python benchmarks/torch_step.py [--repetitions N] [--steps N]

All contestants take turns within each repetition, so that a busy machine slows all of them; the ratios are medians of
the ratios of the repetitions. Time is the process's CPU time on one thread, which is the wall-clock time of a quiet
machine. Each step includes its own closure: forward, backward, zero_grad. geoopt retracts by QR and has no Grassmann
manifold; ours is measured with its default, the polar retraction, and with QR too.
"""

import argparse
import time
from collections.abc import Callable

import geoopt
import numpy as np
import torch

import retrax as rx
import retrax.torch

DIMENSION, RANK, BATCH = 100, 10, 5
LR = 1e-3


def contestant(make: Callable[[torch.Tensor], torch.optim.Optimizer], closure_given: bool) -> Callable[[], None]:
    """One training step as a user would write it."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(10_000, DIMENSION, dtype=torch.float64, generator=generator)
    start = rx.torch.orthogonal_(torch.empty(DIMENSION, RANK, dtype=torch.float64), generator)
    optimizer = make(start)
    (weight,) = optimizer.param_groups[0]["params"]

    def step() -> None:
        batch = data[torch.randint(len(data), (BATCH,), generator=generator)]

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = -(batch @ weight).square().sum(-1).mean()
            loss.backward()
            return loss

        if closure_given:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()

    return step


def ours(name: str, retraction: str = "polar") -> Callable[[torch.Tensor], torch.optim.Optimizer]:
    """A retrax optimizer on the Grassmann manifold."""
    manifold = rx.Grassmann(DIMENSION, RANK, retraction=retraction)
    return lambda start: getattr(rx.torch, name)([{"params": [torch.nn.Parameter(start)], "manifold": manifold}], lr=LR)


def geoopt_sgd(manifold: geoopt.Manifold) -> Callable[[torch.Tensor], torch.optim.Optimizer]:
    """geoopt's RiemannianSGD on one of its Stiefel manifolds (it has no Grassmann)."""
    return lambda start: geoopt.optim.RiemannianSGD([geoopt.ManifoldParameter(start, manifold=manifold)], lr=LR)


def measure(contestants: dict[str, Callable[[], None]], repetitions: int, steps: int) -> dict[str, np.ndarray]:
    """Microseconds per step, one figure per contestant and repetition."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for step in contestants.values():
        for _ in range(50):
            step()
    for _ in range(repetitions):
        for name, step in contestants.items():
            begin = time.process_time()
            for _ in range(steps):
                step()
            seconds[name].append((time.process_time() - begin) / steps)
    return {name: 1e6 * np.array(values) for name, values in seconds.items()}


def main() -> None:
    """Print a table of medians and the two ratios that the library promises."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--steps", type=int, default=5, help="steps per repetition")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    contestants = {
        "retrax RSRM": contestant(ours("RSRM"), True),
        "retrax RSGD": contestant(ours("RSGD"), False),
        "retrax RSRM, QR retraction": contestant(ours("RSRM", "qr"), True),
        "retrax RSGD, QR retraction": contestant(ours("RSGD", "qr"), False),
        "geoopt RiemannianSGD, EuclideanStiefel": contestant(geoopt_sgd(geoopt.EuclideanStiefel()), False),
        "geoopt RiemannianSGD, Stiefel (canonical)": contestant(geoopt_sgd(geoopt.CanonicalStiefel()), False),
    }
    times = measure(contestants, arguments.repetitions, arguments.steps)
    for name, values in times.items():
        print(f"{name:45s} median {np.median(values):7.1f} µs, least {values.min():7.1f} µs a step")
    reference = times["geoopt RiemannianSGD, EuclideanStiefel"]
    for suffix in ("", ", QR retraction"):
        rsrm, rsgd = times[f"retrax RSRM{suffix}"] / (2 * reference), times[f"retrax RSGD{suffix}"] / reference
        print(f"RSRM{suffix} / two steps of geoopt's RiemannianSGD: {np.median(rsrm):.2f} (promised: at most 1.3)")
        print(f"RSGD{suffix} / one step of geoopt's RiemannianSGD:  {np.median(rsgd):.2f} (promised: at most 1.0)")


if __name__ == "__main__":
    main()
