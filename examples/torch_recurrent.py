"""Does orthogonality pay? A recurrent network that reads an image pixel by pixel, in a random but fixed order.

python examples/torch_recurrent.py [--data FOLDER] [--epochs N] [--seeds N] [--out results.jsonl]

FOLDER holds MNIST's files (or RETRAX_DATA names it); its images are averaged to 14×14, 196 pixels to read. Without one,
scikit-learn's 8×8 digits are used, for a look. The state h ← shrink(h W + x V + b) has to carry what was read first
through all pixels, and a W that is not orthogonal lets it fade or explode. The same network five times: AdamW from
torch's usual start, AdamW from an orthogonal start, AdamW through torch's `parametrizations.orthogonal`, geoopt's
RiemannianAdam (where geoopt is installed), and `rx.torch.RADAM` on the Stiefel manifold. Each has the learning rates,
of W and of the rest, that were best on the validation images with two seeds; shown are the errors of five others on the
test images.
"""

import argparse
import functools
import itertools
import json
import os
import time
from collections.abc import Callable

import numpy as np
import torch

import retrax as rx
import retrax.torch

BATCH, CHOOSING_SEEDS, FIRST_JUDGE = 100, (0, 1), 10

Rates = tuple[float, float]
Parts = dict[str, tuple[torch.Tensor, torch.Tensor]]


class Recurrent(torch.nn.Module):
    """h ← shrink(h W + x V + b) over the pixels x, with shrink(z) = z - clamp(z, -|s|, |s|); then a linear layer."""

    def __init__(self, width: int, orthogonal: bool) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(1, width), torch.nn.Linear(width, 10)
        self.turn = torch.nn.Linear(width, width, bias=False)
        self.threshold = torch.nn.Parameter(torch.full((width,), 0.01))
        if orthogonal:
            rx.torch.orthogonal_(self.turn.weight)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """The logits of images given as rows."""
        weight, high = self.turn.weight.T, self.threshold.abs()
        low, inputs = -high, self.first(pixels.T.unsqueeze(-1))
        state = torch.zeros_like(inputs[0])
        for given in inputs.unbind(0):
            moved = torch.addmm(given, state, weight)
            state = moved - torch.clamp(moved, low, high)
        return self.last(state)


Made = tuple[Recurrent, list[torch.optim.Optimizer]]
Make = Callable[[int, float, float], Made]
"""Of the width, the learning rate, and the share of it that W has."""


def adamw(model: Recurrent, lr: float, share: float) -> Made:
    """AdamW on all of it, W with a learning rate of its own."""
    turn, rest = list(model.turn.parameters()), [p for name, p in model.named_parameters() if "turn" not in name]
    return model, [torch.optim.AdamW([{"params": rest}, {"params": turn, "lr": share * lr}], lr=lr)]


def free(orthogonal: bool) -> Make:
    """AdamW without a constraint."""
    return lambda width, lr, share: adamw(Recurrent(width, orthogonal), lr, share)


def parametrised(width: int, lr: float, share: float) -> Made:
    """torch's own way: W is a function of a free matrix."""
    model = Recurrent(width, orthogonal=True)
    torch.nn.utils.parametrizations.orthogonal(model.turn)
    return adamw(model, lr, share)


def on_manifold(optimizer_of: Callable[[torch.nn.Linear, float], torch.optim.Optimizer]) -> Make:
    """W by an optimizer of its own, whose steps are as long as AdamW's would be: its rate for each entry."""

    def make(width: int, lr: float, share: float) -> Made:
        model = Recurrent(width, orthogonal=True)
        rest = [parameter for name, parameter in model.named_parameters() if name != "turn.weight"]
        return model, [optimizer_of(model.turn, share * lr * width), torch.optim.AdamW(rest, lr=lr)]

    return make


def ours(layer: torch.nn.Linear, lr: float) -> torch.optim.Optimizer:
    """RADAM on the Stiefel manifold."""
    manifold = rx.Stiefel(*layer.weight.shape, retraction="polar")
    return rx.torch.RADAM([{"params": [layer.weight], "manifold": manifold}], lr=lr, decay=False)


def contestants() -> dict[str, Make]:
    """Name to (model, optimizers)."""
    found = {
        "AdamW, usual start": free(False),
        "AdamW, orthogonal start": free(True),
        "AdamW, parametrizations.orthogonal": parametrised,
        "retrax RADAM on Stiefel": on_manifold(ours),
    }
    try:
        import geoopt
    except ModuleNotFoundError:
        return found

    def theirs(layer: torch.nn.Linear, lr: float) -> torch.optim.Optimizer:
        layer.weight = geoopt.ManifoldParameter(layer.weight.detach(), manifold=geoopt.EuclideanStiefel())
        return geoopt.optim.RiemannianAdam([layer.weight], lr=lr)

    return {**found, "geoopt RiemannianAdam": on_manifold(theirs)}


def load(folder: str | None, training: int) -> tuple[str, Parts]:
    """Name, and images as rows of pixels in a fixed random order, of mean 0 and variance 1, with their labels."""
    if folder:
        dataset = rx.datasets.load("mnist", folder)
        name, labels = "MNIST, 14×14", dataset.labels
        images = dataset.data.reshape(-1, 14, 2, 14, 2).astype(np.float32).mean((2, 4))
        sizes = (training, 5000, 10000)
    else:
        from sklearn.datasets import load_digits

        name, (images, labels) = "scikit-learn's digits", load_digits(return_X_y=True)
        sizes = (1000, 300, 497)
    generator = np.random.default_rng(0)
    order = generator.permutation(len(images))[-sum(sizes) :]
    rows = images.reshape(len(images), -1)[order]
    rows = rows[:, generator.permutation(rows.shape[1])]
    pixels = torch.from_numpy(((rows - rows.mean()) / rows.std()).astype(np.float32))
    targets = torch.from_numpy(np.asarray(labels, dtype=np.int64)[order])
    parts = zip(pixels.split(sizes), targets.split(sizes), strict=True)
    return name, dict(zip(("training", "validation", "test"), parts, strict=True))


@torch.no_grad()
def error(model: Recurrent, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Per cent of mistakes."""
    guesses = torch.cat([model(part).argmax(-1) for part in images.split(1000)])
    return 100 * float((guesses != labels).double().mean())


def train(made: Callable[[], Made], seed: int, parts: Parts, epochs: int) -> dict[str, float]:
    """One run to the end, the learning rates going to zero along a cosine; CPU seconds of the training alone."""
    torch.manual_seed(seed)
    model, optimizers = made()
    images, labels = parts["training"]
    steps = epochs * (len(images) // BATCH)
    schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(one, steps) for one in optimizers]
    begin = time.process_time()
    for step in range(steps):
        if step % (len(images) // BATCH) == 0:
            order = torch.randperm(len(images))
        chosen = order[step * BATCH % len(images) :][:BATCH]
        for one in optimizers:
            one.zero_grad()
        torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one in (*optimizers, *schedulers):
            one.step()
    seconds = time.process_time() - begin
    weight = model.turn.weight.detach()
    singular = torch.linalg.svdvals(weight)
    return {
        "validation": error(model, *parts["validation"]),
        "test": error(model, *parts["test"]),
        "seconds": seconds,
        "training": error(model, images, labels),
        "smallest": float(singular.min()),
        "largest": float(singular.max()),
    }


class Results:
    """Runs that were made, kept line by line in a file, so that none is made twice."""

    def __init__(self, path: str | None) -> None:
        self.path, self.known = path, {}
        if path and os.path.exists(path):
            with open(path) as file:
                self.known = {line["run"]: line["found"] for line in map(json.loads, file)}

    def get(self, run: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
        """What the run found."""
        if run not in self.known:
            self.known[run] = make()
            if self.path:
                with open(self.path, "a") as file:
                    file.write(json.dumps({"run": run, "found": self.known[run]}) + "\n")
        return self.known[run]


def main() -> None:
    """Print a line for each contestant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RETRAX_DATA"), help="the folder with MNIST's files")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=20_000, help="to train with")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rates", type=float, nargs="+", default=(5e-4, 1e-3, 2e-3))
    parser.add_argument("--shares", type=float, nargs="+", default=(1.0, 0.1), help="of them that W may have")
    parser.add_argument("--only", nargs="*", help="words that a contestant's name must begin with")
    parser.add_argument("--out", help="a file that keeps the runs; those in it are not made again")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are too small to share
    name, parts = load(arguments.data, arguments.images)
    results = Results(arguments.out)
    print(f"{name}: {parts['training'][0].shape[1]} pixels to read, {arguments.epochs} epochs")
    for contestant, make in contestants().items():
        if arguments.only and not any(contestant.startswith(word) for word in arguments.only):
            continue

        def run(rates: Rates, seed: int, contestant: str = contestant, make: Make = make) -> dict[str, float]:
            sizes = f"{arguments.width} {arguments.epochs} {len(parts['training'][0])}"
            made = functools.partial(make, arguments.width, *rates)
            return results.get(
                f"{name} {contestant} {sizes} {rates} {seed}", lambda: train(made, seed, parts, arguments.epochs)
            )

        def validation(rates: Rates, run: Callable[[Rates, int], dict[str, float]] = run) -> float:
            return float(np.mean([run(rates, seed)["validation"] for seed in CHOOSING_SEEDS]))

        rates = min(itertools.product(arguments.rates, arguments.shares), key=validation)
        runs = [run(rates, FIRST_JUDGE + seed) for seed in range(arguments.seeds)]
        errors = [one["test"] for one in runs]
        print(
            f"{contestant}: test error {np.median(errors):.2f} % [{min(errors):.2f}, {max(errors):.2f}], "
            f"training error {np.median([one['training'] for one in runs]):.2f} %, "
            f"lr {rates[0]:g}, of W {rates[0] * rates[1]:g}, "
            f"singular values of W in [{min(one['smallest'] for one in runs):.4f}, "
            f"{max(one['largest'] for one in runs):.4f}], {np.median([one['seconds'] for one in runs]):.0f} s of CPU",
            flush=True,
        )


if __name__ == "__main__":
    main()
