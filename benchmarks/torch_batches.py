"""Cost of one optimizer step on many matrices in PyTorch, side by side in one run: ours, pogo-torch's, geoopt's.

python benchmarks/torch_batches.py [--repetitions N]
python benchmarks/torch_batches.py --walk STEPS

1000 matrices of 64×64 and 10 of 1024×256, orthonormal, float32, one thread: each contestant's `step` alone, for
gradients that are given. All take turns within each repetition, in CPU time; the ratios are medians of the ratios. The
matrices are one parameter with a leading axis; "apart" means that they are so many parameters (pogo-torch takes them
one by one). All contestants take steps of the same length. The violation is the largest entry of |xᵀx - I| afterwards.
"Products alone" is the floor: four batched products (gradient and retraction, RSGD) or six (and a transport, MARS) into
memory that is there already.

`--walk` takes no times: RSGD and MARS take so many steps, each with another gradient, with float32 and with bfloat16
parameters, and the violation is printed on the way; of bfloat16 parameters it is that of the exact point in the state.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import geoopt
import numpy as np
import pogo.base
import torch
from pogo import POGO

import retrax as rx
import retrax.torch

SHAPES = {"1000 of 64x64": (1000, 64, 64), "10 of 1024x256": (10, 1024, 256)}
WALKED = {"10 of 64x16": (10, 64, 16), "10 of 64x64": (10, 64, 64)}
LENGTH = 0.01
"""How far a step of gradients of unit spectral norm goes."""


class Contestant:
    """An optimizer with its parameters; gradients are drawn once and written anew before each step, off the clock."""

    def __init__(self, make: Callable[[list[Any]], torch.optim.Optimizer], points: list[torch.Tensor]) -> None:
        self.optimizer = make(points)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        generator = torch.Generator().manual_seed(1)
        self.gradients = [torch.randn(p.shape, generator=generator) / p.shape[-2] ** 0.5 for p in self.parameters]

    def step(self) -> float:
        """CPU seconds of one step."""
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient.clone()
        begin = time.process_time()
        self.optimizer.step()
        return time.process_time() - begin

    def violation(self, transposed: bool) -> float:
        """The largest entry of |xᵀx - I| over all matrices."""
        with torch.no_grad():
            stack = torch.stack([p.detach().as_subclass(torch.Tensor) for p in self.parameters])
            x = stack.mT if transposed else stack
            return float((x.mT @ x - torch.eye(x.shape[-1])).abs().max())


class Products:
    """The batched products of a step and nothing else; steps as a contestant does."""

    def __init__(self, pairs: int, x: torch.Tensor) -> None:
        self.pairs, self.x = pairs, x
        self.small, self.large = torch.empty(x.shape[0], x.shape[-1], x.shape[-1]), torch.empty_like(x)

    def step(self) -> float:
        """CPU seconds of so many pairs of products xᵀy and x a."""
        begin = time.process_time()
        for _ in range(self.pairs):
            torch.bmm(self.x.mT, self.x, out=self.small)
            torch.bmm(self.x, self.small, out=self.large)
        return time.process_time() - begin

    def violation(self, transposed: bool) -> float:
        """Nothing moves."""
        return 0.0


def ours(name: str, **options: Any) -> Callable[[list[Any]], torch.optim.Optimizer]:
    """A retrax optimizer on the Stiefel manifold, with the retraction by products."""

    def make(points: list[Any]) -> torch.optim.Optimizer:
        manifold = rx.Stiefel(*points[0].shape[-2:], retraction="polar")
        group = {"params": [torch.nn.Parameter(point) for point in points], "manifold": manifold}
        return getattr(rx.torch, name)([group], lr=LENGTH, decay=False, **options)

    return make


def geoopt_adam(points: list[Any]) -> torch.optim.Optimizer:
    """geoopt's RiemannianAdam on its Stiefel manifold with the Euclidean metric."""
    manifold = geoopt.EuclideanStiefel()
    return geoopt.optim.RiemannianAdam([geoopt.ManifoldParameter(p, manifold=manifold) for p in points], lr=LENGTH)


def pogo_with(base: Any) -> Callable[[list[Any]], torch.optim.Optimizer]:
    """pogo-torch, whose matrices are wide and have a leading axis."""

    def make(points: list[Any]) -> torch.optim.Optimizer:
        wide = [p.mT.contiguous() if p.ndim > 2 else p.mT.contiguous()[None] for p in points]
        return POGO([torch.nn.Parameter(p) for p in wide], base, lr=LENGTH)

    return make


def contestants(shape: tuple[int, int, int]) -> dict[str, Contestant | Products]:
    """Everybody, from the same start."""
    start = rx.torch.orthogonal_(torch.empty(shape), torch.Generator().manual_seed(0))
    together, apart = [start], list(start.unbind(0))
    makers = {
        "retrax RSGD": (ours("RSGD"), together),
        "retrax MARS (one-gradient RSRM)": (ours("MARS"), together),
        "retrax RADAM": (ours("RADAM"), together),
        "pogo SGD": (pogo_with(pogo.base.SGD()), together),
        "pogo VectorAdam": (pogo_with(pogo.base.VectorAdam()), together),
        "geoopt RiemannianAdam": (geoopt_adam, together),
        "retrax RSGD, apart": (ours("RSGD"), apart),
        "retrax MARS, apart": (ours("MARS"), apart),
        "pogo SGD, apart": (pogo_with(pogo.base.SGD()), apart),
        "geoopt RiemannianAdam, apart": (geoopt_adam, apart),
    }
    running: dict[str, Contestant | Products] = {
        name: Contestant(make, [p.clone() for p in points]) for name, (make, points) in makers.items()
    }
    return {**running, "4 products alone": Products(2, start), "6 products alone": Products(3, start)}


def walk(name: str, shape: tuple[int, int, int], dtype: torch.dtype, steps: int) -> list[float]:
    """The largest violation at each tenth of the steps, in double precision, so that no rounding is the check's own."""
    generator = torch.Generator().manual_seed(2)
    start = rx.torch.orthogonal_(torch.empty(shape), generator).to(dtype)
    optimizer = ours(name)([start])
    (parameter,) = optimizer.param_groups[0]["params"]
    found = []
    for step in range(1, steps + 1):
        parameter.grad = (torch.randn(shape, generator=generator) / shape[-2] ** 0.5).to(dtype)
        optimizer.step()
        if step % max(1, steps // 10) == 0:
            x = optimizer.state[parameter].get("exact", parameter).detach().double()
            found.append(float((x.mT @ x - torch.eye(shape[-1], dtype=x.dtype)).abs().max()))
    return found


def print_walks(steps: int) -> None:
    """A line for each size, method and precision."""
    for title, shape in WALKED.items():
        for name in ("RSGD", "MARS"):
            for dtype in (torch.float32, torch.bfloat16):
                found = walk(name, shape, dtype, steps)
                print(
                    f"{title}, {name}, {dtype}: {steps} steps, violation {found[-1]:.1e} (on the way {max(found):.1e})"
                )


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--walk", type=int, metavar="STEPS", help="the violation after so many steps instead")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.walk:
        return print_walks(arguments.walk)
    for title, shape in SHAPES.items():
        running = contestants(shape)
        for one in running.values():
            one.step()
            one.step()
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(arguments.repetitions):
            for name, one in running.items():
                times[name].append(one.step())
        pogo_time, adam_time = np.array(times["pogo SGD"]), np.array(times["geoopt RiemannianAdam"])
        print(title)
        for name, values in times.items():
            milliseconds = 1e3 * np.array(values)
            print(
                f"  {name:34s} {np.median(milliseconds):8.1f} ms; over pogo SGD {np.median(values / pogo_time):5.2f}, "
                f"over geoopt's Adam {np.median(values / adam_time):5.2f}, "
                f"violation {running[name].violation('pogo' in name):.1e}"
            )


if __name__ == "__main__":
    main()
