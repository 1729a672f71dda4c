"""A ReLU network on MNIST, 784-128-64-10: the optimizers of `retrax.torch` beside tuned SGD with momentum and Adam.

python benchmarks/torch_networks.py [--data FOLDER] [--seeds FROM TO] [--only NAME ...] [--out results.jsonl]
python benchmarks/torch_networks.py --table results.jsonl

Batches of 128 out of 50,000 images, no schedule beside a method's own, the other 10,000 of the training file held out;
one thread. An epoch is one gradient of every sample: a method that evaluates samples twice sees them half as often. A
line gives per cent of errors after 3 and after 10 epochs: of the last iterate, the same under noise of one standard
deviation, of the average of the iterates (torch's `AveragedModel` with the weights 9/(t+9) of Shamir & Zhang 2013), and
of that under noise; and seconds of the steps, on the CPU and on the clock. Runs that the file has already are not made
again. In the table, seeds below 10 choose a method's learning rate, for each column its own, and the others judge it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import retrax as rx
import retrax.torch

BATCH, EPOCHS, REPORTED = 128, 10, (3, 10)
FIRST_JUDGE = 10
"""Seeds below this one choose learning rates."""

RATES = {
    "MARS": (1.0, 3.0, 10.0),
    "CSGDM": (1.0, 3.0, 10.0),
    "RADAM": (1.0, 3.0, 10.0),
    "RAMSGrad": (1.0, 3.0, 10.0),
    "CRMSProp": (0.01, 0.03, 0.1),
    "RASA": (0.003, 0.01, 0.03),
    "RSGD": (0.3, 1.0, 3.0),
}
"""Of the methods of `retrax.torch` that need one."""

Make = Callable[[torch.nn.Module], torch.optim.Optimizer]


class Weight(torch.nn.Module):
    """x ↦ x W + b with a W that stands upright, so that it can have orthonormal columns."""

    def __init__(self, inputs: int, outputs: int, orthonormal: bool) -> None:
        super().__init__()
        layer = torch.nn.Linear(inputs, outputs)
        self.weight = torch.nn.Parameter(layer.weight.detach().T.contiguous())
        self.bias = layer.bias
        if orthonormal:
            rx.torch.orthogonal_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x W + b."""
        return torch.addmm(self.bias, x, self.weight)


def network(seed: int, orthonormal: bool = False) -> torch.nn.Sequential:
    """The network, from a start that depends on the seed alone."""
    torch.manual_seed(seed)
    first, second = Weight(784, 128, orthonormal), Weight(128, 64, orthonormal)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), Weight(64, 10, False))


def groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """The hidden layers' weights on Stiefel manifolds, all else Euclidean."""
    hidden = [model[0].weight, model[2].weight]  # type: ignore[index]
    rest = [p for p in model.parameters() if not any(p is weight for weight in hidden)]
    return [{"params": [w], "manifold": rx.Stiefel(*w.shape, retraction="polar")} for w in hidden] + [{"params": rest}]


def contestants() -> dict[str, tuple[Make, int, bool]]:
    """Name to (optimizer, evaluations of a sample a step, orthonormal weights)."""
    found: dict[str, tuple[Make, int, bool]] = {}
    found["RDoG"] = (lambda m: rx.torch.RDoG(m.parameters()), 1, False)
    for distance in (1e-6, 1e-5, 1e-3):
        found[f"RDoG, initial distance {distance:g}"] = (
            lambda m, distance=distance: rx.torch.RDoG(m.parameters(), initial_distance=distance),
            1,
            False,
        )
    for lr in (0.005, 0.01, 0.02, 0.05, 0.1):
        found[f"SGD {lr}"] = (lambda m, lr=lr: torch.optim.SGD(m.parameters(), lr=lr, momentum=0.9), 1, False)
    for lr in (3e-4, 1e-3, 2e-3, 4e-3, 8e-3):
        found[f"Adam {lr}"] = (lambda m, lr=lr: torch.optim.Adam(m.parameters(), lr=lr), 1, False)
    found["RDoG orthonormal"] = (lambda m: rx.torch.RDoG(groups(m)), 1, True)
    found["RSRM"] = (lambda m: rx.torch.RSRM(m.parameters()), 2, False)
    found["StormPlus"] = (lambda m: rx.torch.StormPlus(m.parameters()), 2, False)
    found["RDoWG"] = (lambda m: rx.torch.RDoWG(m.parameters()), 1, False)
    found["NRDoG"] = (lambda m: rx.torch.NRDoG(m.parameters()), 1, False)
    for name, rates in RATES.items():
        for lr in rates:
            make = getattr(rx.torch, name)
            found[f"{name} {lr}"] = (lambda m, make=make, lr=lr: make(m.parameters(), lr=lr), 1, False)
    found["RSRM, rho 0.5, lr 0.3"] = (
        lambda m: rx.torch.RSRM(m.parameters(), lr=0.3, rho=0.5, rho_decay=False, decay=False),
        2,
        False,
    )
    return found


def load(folder: str | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as rows of mean 0 and variance 1 over all pixels, and labels, in one random order."""
    dataset = rx.datasets.load("mnist", folder)
    order = np.random.default_rng(0).permutation(len(dataset.data))
    rows = torch.from_numpy(dataset.data.reshape(len(order), -1)[order].astype(np.float32))
    return (rows - rows.mean()) / rows.std(), torch.from_numpy(dataset.labels[order].astype(np.int64))


@torch.no_grad()
def errors(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Per cent, on clean images and under noise."""
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    wrong = [(model(given).argmax(-1) != labels).double().mean().item() for given in (images, images + noise)]
    return 100 * wrong[0], 100 * wrong[1]


def train(make: Make, points: int, orthonormal: bool, seed: int, images: torch.Tensor, labels: torch.Tensor) -> dict:
    """One run; errors after the epochs that are reported."""
    held_out, images, targets = (images[:10_000], labels[:10_000]), images[10_000:], labels[10_000:]
    model = network(seed, orthonormal)
    optimizer = make(model)
    average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda mean, new, t: mean + (new - mean) * 9 / (t + 9))
    generator = torch.Generator().manual_seed(seed)
    report: dict[str, Any] = {}
    seconds, clock, batches = 0.0, 0.0, len(images) // BATCH
    for step in range(1, EPOCHS * batches // points + 1):
        if (step - 1) % batches == 0:
            order = torch.randperm(len(images), generator=generator)
        chosen = order[(step - 1) % batches * BATCH :][:BATCH]

        def closure(inputs: torch.Tensor = images[chosen], expected: torch.Tensor = targets[chosen]) -> torch.Tensor:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), expected)
            loss.backward()
            return loss

        begin, clock_begin = time.process_time(), time.perf_counter()
        optimizer.step(closure)
        seconds += time.process_time() - begin
        clock += time.perf_counter() - clock_begin
        if step % 5 == 0:
            average.update_parameters(model)
        if step * points in [epochs * batches // points * points for epochs in REPORTED]:
            found = [*errors(model, *held_out), *errors(average, *held_out)]
            report[str(round(step * points / batches))] = [round(value, 2) for value in found]
    return {"errors": report, "seconds": round(seconds, 1), "clock": round(clock, 1)}


def read(path: str) -> list[dict[str, Any]]:
    """The lines of a file of results; none where there is no file."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file]


def print_table(rows: list[dict[str, Any]]) -> None:
    """Markdown, a line for each method: medians and ranges over the judges, of the last iterate and of the average.

    The learning rate is that which the choosers found best, of those that were judged. Where several were, two more
    lines give the best and the worst of them for each column, which the judges alone know.
    """
    rows = [row for row in rows if "errors" in row]
    columns = [(str(epochs), which) for epochs in REPORTED for which in (0, 2)]
    heads = [f"{epochs} epochs: {'average' if which else 'last'}" for epochs, which in columns]
    print("| optimizer | " + " | ".join(heads) + " | seconds, CPU | on the clock |\n" + "|---" * 7 + "|")
    for family in dict.fromkeys(_family(row["name"]) for row in rows):
        members = [row for row in rows if _family(row["name"]) == family]
        judged = [row for row in members if row["seed"] >= FIRST_JUDGE]
        if not judged:
            continue
        tables = [_errors(members, epochs, which) for epochs, which in columns]
        chosen = [_smallest(choosers or judges) for choosers, judges in tables]
        times = [f"{np.median([row[key] for row in judged]):.0f}" for key in ("seconds", "clock")]
        cells = [_cell(judges, name, family) for (_, judges), name in zip(tables, chosen, strict=True)]
        print(f"| {family} | " + " | ".join([*cells, *times]) + " |")
        if len(tables[0][1]) > 1:
            for label, pick in (("best", _smallest), ("worst", _largest)):
                names = [pick(judges) for _, judges in tables]
                cells = [_cell(judges, name, family) for (_, judges), name in zip(tables, names, strict=True)]
                print(f"| {family}, {label} of {len(tables[0][1])} in hindsight | " + " | ".join(cells) + " | | |")


def _smallest(errors: dict[str, list[float]]) -> str:
    return min(errors, key=lambda name: np.median(errors[name]))


def _largest(errors: dict[str, list[float]]) -> str:
    return max(errors, key=lambda name: np.median(errors[name]))


def _family(name: str) -> str:
    """The method without its learning rate."""
    head, _, last = name.rpartition(" ")
    return head if head and last.replace(".", "").replace("e-", "").isdigit() else name


def _errors(
    rows: list[dict[str, Any]], epochs: str, which: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Name to errors: of the seeds that choose, for what was judged, and of those that judge."""
    parts: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    for row in rows:
        parts[row["seed"] >= FIRST_JUDGE].setdefault(row["name"], []).append(row["errors"][epochs][which])
    return {name: values for name, values in parts[0].items() if name in parts[1]}, parts[1]


def _cell(judges: dict[str, list[float]], name: str, family: str) -> str:
    """Median and range, and the learning rate if there is one."""
    values = judges[name]
    rate = f" at {name.removeprefix(family).strip()}" if name != family else ""
    return f"{np.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]{rate}"


def main() -> None:
    """Run what is asked for, a line of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("RETRAX_DATA"), help="the folder with MNIST's files")
    parser.add_argument("--seeds", type=int, nargs=2, default=(10, 15), help="from, to (not included)")
    parser.add_argument("--only", nargs="*", help="names that a contestant's must begin with")
    parser.add_argument("--out", default="torch_networks.jsonl")
    parser.add_argument("--table", help="run nothing; print what this file of results says")
    arguments = parser.parse_args()
    if arguments.table:
        return print_table(read(arguments.table))
    done = {(row["name"], row["seed"]) for row in read(arguments.out)}
    torch.set_num_threads(1)
    images, labels = load(arguments.data)
    for name, (make, points, orthonormal) in contestants().items():
        if arguments.only and not any(name.startswith(prefix) for prefix in arguments.only):
            continue
        for seed in range(*arguments.seeds):
            if (name, seed) in done:
                continue
            try:
                row = train(make, points, orthonormal, seed, images, labels)
            except RuntimeError as error:
                row = {"failed": str(error)}
            with open(arguments.out, "a") as file:
                file.write(json.dumps({"name": name, "seed": seed, **row}) + "\n")


if __name__ == "__main__":
    main()
