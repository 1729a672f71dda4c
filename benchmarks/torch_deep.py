"""Does orthogonality pay? A tanh network of 30 layers on scikit-learn's digits, with and without orthogonal weights.

python benchmarks/torch_deep.py [--seeds N] [--steps N] [--depth N]

The same network five times: AdamW from torch's usual start; AdamW from an orthogonal start; AdamW through torch's
`parametrizations.orthogonal`; geoopt's RiemannianAdam (where geoopt is installed); and `rx.torch.RADAM` on Stiefel
manifolds. Three learning rates are tried, and the test errors shown are those of the best one on a validation set:
medians and ranges over seeds, on clean images and under noise, with the CPU time of all its steps.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

import retrax as rx
import retrax.torch

WIDTH, BATCH = 32, 64


class Deep(torch.nn.Module):
    """8×8 images through `depth` layers x ↦ tanh(x W + b), W of 32×32, between two linear layers."""

    def __init__(self, depth: int, orthogonal: bool) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, WIDTH), torch.nn.Linear(WIDTH, 10)
        self.hidden = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(depth))
        if orthogonal:
            for layer in self.hidden:
                rx.torch.orthogonal_(layer.weight)
                torch.nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        x = torch.tanh(self.first(x))
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.last(x)

    def groups(self) -> list[dict[str, Any]]:
        """The square weights on the Stiefel manifold, all else Euclidean."""
        square = [layer.weight for layer in self.hidden]
        rest = [p for p in self.parameters() if not any(p is weight for weight in square)]
        return [{"params": square, "manifold": rx.Stiefel(WIDTH, WIDTH, retraction="polar")}, {"params": rest}]


def adamw(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """torch's AdamW on whatever the module's parameters are."""
    return torch.optim.AdamW(model.parameters(), lr=lr)


def ours(model: Deep, lr: float) -> torch.optim.Optimizer:
    """RADAM with a constant step size, and Adam's scaling entry by entry for what is Euclidean."""
    return rx.torch.RADAM(model.groups(), lr=30 * lr, decay=False)


def parametrised(depth: int) -> Deep:
    """torch's own way: the weight is a function of a free matrix."""
    model = Deep(depth, orthogonal=True)
    for layer in model.hidden:
        torch.nn.utils.parametrizations.orthogonal(layer)
    return model


def contestants() -> dict[str, tuple[Callable[[int], torch.nn.Module], Callable[[Any, float], torch.optim.Optimizer]]]:
    """Name to (model, optimizer)."""
    found: dict[str, tuple[Callable[[int], Any], Callable[[Any, float], Any]]] = {
        "AdamW, usual start": (lambda depth: Deep(depth, False), adamw),
        "AdamW, orthogonal start": (lambda depth: Deep(depth, True), adamw),
        "AdamW, parametrizations.orthogonal": (parametrised, adamw),
        "retrax RADAM on Stiefel": (lambda depth: Deep(depth, True), ours),
    }
    try:
        import geoopt
    except ModuleNotFoundError:
        return found

    def manifold_parameters(depth: int) -> Deep:
        model = Deep(depth, orthogonal=True)
        for layer in model.hidden:
            layer.weight = geoopt.ManifoldParameter(layer.weight.detach(), manifold=geoopt.EuclideanStiefel())
        return model

    adam = lambda model, lr: geoopt.optim.RiemannianAdam(model.parameters(), lr=lr)  # noqa: E731
    return {**found, "geoopt RiemannianAdam": (manifold_parameters, adam)}


def data(seed: int) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Images of mean 0 and variance 1, divided into 1000 for training, 300 for validation, the rest for the test."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    rows = torch.from_numpy(((images - images.mean()) / images.std())[order].astype(np.float32))
    targets = torch.from_numpy(labels[order].astype(np.int64))
    parts = {"train": slice(0, 1000), "validation": slice(1000, 1300), "test": slice(1300, None)}
    return {name: (rows[part], targets[part]) for name, part in parts.items()}


@torch.no_grad()
def error(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, noise: float = 0.0) -> float:
    """Per cent of mistakes, under noise of so many standard deviations."""
    given = images + noise * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    return 100 * float((model(given).argmax(-1) != labels).double().mean())


def train(make_model: Any, make: Any, lr: float, seed: int, depth: int, steps: int) -> dict[str, float]:
    """One run to the end; errors in per cent, and CPU seconds of the steps."""
    torch.manual_seed(seed)
    parts, model = data(seed), make_model(depth)
    optimizer = make(model, lr)
    images, labels = parts["train"]
    generator = torch.Generator().manual_seed(seed)
    begin = time.process_time()
    for _ in range(steps):
        chosen = torch.randint(len(images), (BATCH,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    seconds = time.process_time() - begin
    found = {name: error(model, *parts[name]) for name in ("validation", "test")}
    return {**found, "noisy": error(model, *parts["test"], noise=0.5), "seconds": seconds}


def main() -> None:
    """Print a line for each contestant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--depth", type=int, default=30)
    parser.add_argument("--rates", type=float, nargs="+", default=(3e-4, 1e-3, 3e-3))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, (make_model, make) in contestants().items():
        # The rate is chosen on the first seed's validation images, and kept.
        run = lambda lr, seed, m=make_model, o=make: train(m, o, lr, seed, arguments.depth, arguments.steps)  # noqa: E731
        tried = {lr: run(lr, 0) for lr in arguments.rates}
        rate = min(tried, key=lambda lr: tried[lr]["validation"])
        runs = [tried[rate], *(run(rate, seed) for seed in range(1, arguments.seeds))]
        columns = {key: np.array([one[key] for one in runs]) for key in ("test", "noisy", "seconds")}
        shown = ", ".join(
            f"{label} {np.median(columns[key]):.1f} % [{columns[key].min():.1f}, {columns[key].max():.1f}]"
            for key, label in (("test", "test error"), ("noisy", "under noise"))
        )
        print(f"{name}, lr {rate:g}: {shown}, {np.median(columns['seconds']):.1f} s", flush=True)


if __name__ == "__main__":
    main()
