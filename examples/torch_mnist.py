"""
Orthonormal weights in PyTorch
==============================

A small network whose weights are points of Stiefel manifolds, trained by RSRM, against the same network without the
constraint, trained by torch's SGD and Adam from the same start.

It shows how it is done, not that it pays: on such a network a second gradient of a sample buys less than a fresh one
does, and RSRM ends behind. ``docs/torch.md`` says what to take for networks, and where the two do pay.

The axis counts gradients of samples, so that RSRM, which evaluates every batch at two points, is charged twice. Here
the images are scikit-learn's 8×8 digits; ``python examples/torch_mnist.py --data FOLDER`` takes MNIST's files
instead, ``--epochs`` sets the length, ``--out`` writes the figure to a file.
"""

# %%
# The network, its manifolds, the training loop
# ---------------------------------------------
import argparse
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch

import retrax as rx
import retrax.torch

BATCH, FIRST_BATCH = 64, 1024
SEED = 0

History = dict[str, list[float]]


class Network(torch.nn.Module):
    """Two layers x ↦ relu(x W) with orthonormal columns in W, then a linear layer."""

    def __init__(self, inputs: int, classes: int = 10) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        self.first = torch.nn.Parameter(rx.torch.orthogonal_(torch.empty(inputs, 48), generator))
        self.second = torch.nn.Parameter(rx.torch.orthogonal_(torch.empty(48, 32), generator))
        self.last = torch.nn.Linear(32, classes)
        torch.nn.init.normal_(self.last.weight, std=32**-0.5, generator=generator)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self.last(torch.relu(torch.relu(x @ self.first) @ self.second))

    def groups(self) -> list[dict]:
        """The parameters with their manifolds."""
        return [
            {"params": [self.first], "manifold": rx.Stiefel(*self.first.shape)},
            {"params": [self.second], "manifold": rx.Stiefel(*self.second.shape)},
            {"params": self.last.parameters()},
        ]


def make_rsrm(model: Network) -> torch.optim.Optimizer:
    """RSRM with a constant ρ, and the decay of lr left to the scheduler."""
    return rx.torch.RSRM(model.groups(), lr=0.3, rho=0.5, rho_decay=False, decay=False)


def load_digits(folder: str | None) -> tuple[str, torch.Tensor, torch.Tensor]:
    """Name, images as rows of mean 0 and variance 1 over all pixels, labels; in random order."""
    if folder:
        dataset = rx.datasets.load("mnist", folder)
        name, images, labels = "MNIST", dataset.data, dataset.labels
    else:
        from sklearn.datasets import load_digits as load_small_digits

        name, (images, labels) = "scikit-learn's digits", load_small_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(images))
    rows = torch.from_numpy(np.asarray(images, dtype=np.float32).reshape(len(images), -1)[order])
    return name, (rows - rows.mean()) / rows.std(), torch.from_numpy(np.asarray(labels, dtype=np.int64)[order])


def train(
    make: Callable[[Network], torch.optim.Optimizer],
    points: int,
    images: torch.Tensor,
    labels: torch.Tensor,
    epochs: int,
) -> History:
    """Train on five sixths of the data; measure on the rest after every fifth of an epoch."""
    held_out = len(images) // 6
    test, images = (images[:held_out], labels[:held_out]), images[held_out:]
    labels = labels[held_out:]
    model = Network(images.shape[1])
    optimizer = make(model)
    batches = len(images) // BATCH
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    generator = torch.Generator().manual_seed(SEED)
    history: History = {"gradients": [], "loss": [], "error": []}
    for step in range(epochs * batches):
        if step % batches == 0:
            order = torch.randperm(len(images), generator=generator)
        # The first step takes a larger batch, for RSRM starts its estimate with it.
        chosen = order[:FIRST_BATCH] if step == 0 else order[step % batches * BATCH :][:BATCH]

        def closure(inputs: torch.Tensor = images[chosen], targets: torch.Tensor = labels[chosen]) -> torch.Tensor:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)
        scheduler.step()
        if (step + 1) % max(1, batches // 5) == 0:
            record(history, model, test, (step + 1) * BATCH * points)
    if isinstance(optimizer, rx.torch.RiemannianOptimizer):
        print(f"  largest violation of the constraint: {max(rx.torch.violation(optimizer).values()):.1e}")
    return history


@torch.no_grad()
def record(history: History, model: Network, test: tuple[torch.Tensor, torch.Tensor], gradients: int) -> None:
    """The loss and the share of errors on held-out images."""
    logits = model(test[0])
    history["gradients"].append(gradients)
    history["loss"].append(torch.nn.functional.cross_entropy(logits, test[1]).item())
    history["error"].append((logits.argmax(-1) != test[1]).float().mean().item())


def plot(histories: dict[str, History], name: str, path: str | None) -> None:
    """Loss and error against gradients spent."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    for axis, column, label in zip(axes, ("loss", "error"), ("test loss", "test error"), strict=True):
        for method, history in histories.items():
            axis.semilogy(np.array(history["gradients"]) / 1000, history[column], label=method, linewidth=1.5)
        axis.set_xlabel("thousand gradients of samples")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize="small")
    figure.suptitle(f"{name}: a small network, with and without orthonormal weights")
    if path is None:
        plt.show()
    else:
        figure.savefig(path, dpi=120)


# %%
# Three runs with the same number of gradients
# --------------------------------------------
# The constraint holds to rounding throughout. It does not help: on digits this small Adam ends lowest, then SGD, and
# the network with orthonormal weights last. Who needs no orthonormal weights should not ask for them.
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="a folder with MNIST's files")
parser.add_argument("--epochs", type=int, help="of RSRM; the others get twice as many (default: 3 of MNIST, 20 else)")
parser.add_argument("--out", help="a file for the figure (default: show it)")
arguments = parser.parse_args()
if arguments.epochs is not None and arguments.epochs < 1:
    parser.error(f"--epochs must be at least 1, not {arguments.epochs}")
torch.set_num_threads(1)  # the matrices are too small to share
name, images, labels = load_digits(arguments.data)
epochs = arguments.epochs or (3 if arguments.data else 20)
contestants: dict[str, tuple[Callable[[Network], torch.optim.Optimizer], int]] = {
    "RSRM, orthonormal weights": (make_rsrm, 2),
    "SGD": (lambda m: torch.optim.SGD(m.parameters(), lr=0.2), 1),
    "Adam": (lambda m: torch.optim.Adam(m.parameters(), lr=3e-3), 1),
}
histories = {}
for method, (make, points) in contestants.items():
    # The same number of gradients for all: those that need one per sample get twice as many epochs.
    histories[method] = train(make, points, images, labels, epochs * (2 // points))
    last = histories[method]
    print(f"{method}: test loss {last['loss'][-1]:.4f}, test error {last['error'][-1]:.2%}")
print(f"{name}, {len(images)} images")

# %%
plot(histories, name, arguments.out)
