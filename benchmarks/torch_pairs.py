"""RSRM's two gradients: two calls of a closure against one pass with two sets of parameters (`step_on`), in one run.

python benchmarks/torch_pairs.py [--repetitions N]

CPU time of whole steps on one thread, taking turns; the ratio is the median of the ratios of the repetitions.
"""

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np
import torch

import retrax as rx
import retrax.torch


def perceptron() -> torch.nn.Module:
    """784-128-64-10."""
    layers = [torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))


def deep() -> torch.nn.Module:
    """Thirty layers of width 16."""
    layers = [layer for _ in range(30) for layer in (torch.nn.Linear(16, 16), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(16, 10))


CASES: dict[str, tuple[Callable[[], torch.nn.Module], int, int]] = {
    "784-128-64-10, batch 8": (perceptron, 784, 8),
    "784-128-64-10, batch 128": (perceptron, 784, 128),
    "30 layers of 16, batch 8": (deep, 16, 8),
    "30 layers of 16, batch 128": (deep, 16, 128),
}


def steps(
    make: Callable[[], torch.nn.Module], inputs: int, batch: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """A step with a closure, and one in one pass."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch, inputs, generator=generator)
    labels = torch.randint(10, (batch,), generator=generator)
    entropy = functools.partial(torch.nn.functional.cross_entropy, target=labels)
    first, second = make(), make()
    optimizers = [rx.torch.RSRM(model.parameters(), lr=1e-3) for model in (first, second)]

    def closure() -> torch.Tensor:
        loss = entropy(first(images))
        loss.backward()
        return loss

    return lambda: optimizers[0].step(closure), lambda: optimizers[1].step_on(second, entropy, images)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        pair = steps(*case)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(arguments.repetitions + 3):
            for step, found in zip(pair, times, strict=True):
                begin = time.process_time()
                for _ in range(5):
                    step()
                found.append((time.process_time() - begin) / 5)
        twice, once = (1e3 * np.array(found[3:]) for found in times)
        print(
            f"{name:28s} closure twice {np.median(twice):6.2f} ms, one pass {np.median(once):6.2f} ms, "
            f"ratio {np.median(once / twice):.2f}"
        )


if __name__ == "__main__":
    main()
