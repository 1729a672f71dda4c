"""Hyperbolic embeddings of WordNet, alone and beside gensim's PoincareModel and geoopt's SparseRiemannianAdam.

python benchmarks/hyperbolic.py train mammals | nouns [--seeds 1 2 3] [--out DIR]   the whole schedule, phase by phase
python benchmarks/hyperbolic.py beside mammals | nouns [--seconds 60] [--turns 4]   all three in turn, as long each
python benchmarks/hyperbolic.py finite [mammals]                                    20 seeds × 2 precisions × 5 steps

Times are CPU seconds of the process, one thread, compiling included, evaluation not. Ranks and precisions of nouns are
of 1000 nodes drawn at random, at the end of all. Needs the extra `bench`, and the data set wordnet.
"""

import argparse
import functools
import itertools
import pathlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import retrax as rx


class Phase(NamedTuple):
    """A part of a schedule."""

    epochs: int
    rate: float
    """The step size per relation."""
    negatives: int
    """Of a group of nodes."""


# Small steps first, while points still find their directions. A relation of rank r among N nodes meets about rK/N of K
# negatives that are closer: the loss, a logarithm of one plus that, is about linear in ranks up to N/K. Many negatives
# order the centre; with fewer the mean rank counts what is still far off, and an epoch takes a third of the time.
PHASES = {
    "mammals": tuple(
        Phase(*phase, negatives=100)
        for phase in ((20, 0.002), (100, 0.01), (100, 0.02), (200, 0.04), (100, 0.02), (100, 0.006))
    ),
    "nouns": (
        *(Phase(*phase, negatives=512) for phase in ((8, 0.004), (30, 0.02), (30, 0.04))),
        *(
            Phase(*phase, negatives=64)
            for phase in ((40, 0.1), (60, 0.3), (60, 0.1), (60, 0.03), (60, 0.01), (40, 0.003))
        ),
    ),
}
SIZES = {"mammals": (5, 10), "nouns": (10, 64)}
"""Dimension, and nodes in a group."""
SLICE = {"mammals": 2_000, "nouns": 20_000}
"""Nodes between two looks at the clock, which have the whole table copied."""


def embeddings(part: str, data: str | None) -> dict[int, rx.problems.Embedding]:
    """The problem of all nouns, or of the mammals among them, for each number of negatives in the schedule."""
    wordnet = rx.datasets.load("wordnet", data).data
    pairs = rx.datasets.transitive_closure(wordnet["hypernym_edges"])
    if part == "mammals":
        pairs = rx.datasets.descendants(pairs, wordnet["names"].tolist().index(b"mammal#01861778"))[0]
    dimension, group = SIZES[part]
    numbers = {phase.negatives for phase in PHASES[part]}
    return {k: rx.problems.Embedding(pairs, dimension, group=group, negatives=k) for k in numbers}


def train(arguments: argparse.Namespace) -> None:
    """The schedule of a part from start to end, for each seed; the points are kept after every phase."""
    problems = embeddings(arguments.part, arguments.data)
    ends = []
    for seed in arguments.seeds:
        x, spent, start = None, 0.0, time.perf_counter()
        for number, (epochs, rate, negatives) in enumerate(PHASES[arguments.part]):
            clock, problem = time.process_time(), problems[negatives]
            method = rx.rsgd(rx.schedules.constant(rate * problem.group))
            steps = int(epochs * problem.parts) // problem.group
            x = rx.minimize(
                problem, method, steps=steps, batch_size=1, x0=x, seed=100 * seed + number,
                dtype=arguments.dtype, record=10**9,
            ).x  # fmt: skip
            spent += time.process_time() - clock
            last = number + 1 == len(PHASES[arguments.part])
            found = problem.reconstruction(x, None if last else _evaluated(problem, arguments.part))
            print(
                f"seed {seed}, {epochs} epochs at {rate}, {negatives} negatives: "
                f"{spent:.0f} CPU s ({time.perf_counter() - start:.0f} s), "
                f"mean rank {found.mean_rank:.3f}, MAP {found.mean_average_precision:.4f}",
                flush=True,
            )
            if arguments.out is not None:
                arguments.out.mkdir(parents=True, exist_ok=True)
                np.save(arguments.out / f"{arguments.part}-{seed}.npy", x)
        ends.append(found)
    print(f"median of {len(ends)}: {np.median(ends, axis=0).round(4)} (mean rank, MAP)")


def _evaluated(problem: rx.problems.Embedding, part: str) -> np.ndarray | None:
    return None if part == "mammals" else np.random.default_rng(0).choice(problem.nodes, 1000, replace=False)


# --- contenders: each yields its epochs so far and its points, some thousand relations at a time ---------------

Progress = Iterator[tuple[float, Any]]


def of_retrax(problems: dict[int, rx.problems.Embedding], part: str) -> Progress:
    """RSGD with the schedule of `train`."""
    done, x = 0.0, None
    for number, (epochs, rate, negatives) in enumerate(PHASES[part]):
        problem = problems[negatives]
        method = rx.rsgd(rx.schedules.constant(rate * problem.group))
        run = rx.Run(problem, method, batch_size=1, x0=x, seed=number, dtype="float64", record=10**9)
        left = int(epochs * problem.parts) // problem.group
        while left > 0:
            steps = min(left, SLICE[part] // problem.group)
            run.advance(steps)
            left, done = left - steps, done + steps * problem.group / problem.parts
            x = run.x
            yield done, x


def of_gensim(problem: rx.problems.Embedding, part: str) -> Progress:
    """PoincareModel with its defaults: 10 negatives, batches of 10, 10 epochs of burn-in."""
    from gensim.models.poincare import PoincareModel

    generator = np.random.default_rng(0)
    model = PoincareModel([(str(u), str(v)) for u, v in problem.relations], size=SIZES[part][0], seed=0)
    everything, burn_in = list(model.all_relations), model.burn_in
    model.burn_in = 0  # it would train all of its burn-in in one call
    order = np.array([model.kv.key_to_index.get(str(node), -1) for node in range(problem.nodes)])
    for epoch in itertools.count():
        model.train_alpha = 0.01 if epoch < burn_in else 0.1
        shuffled = generator.permutation(len(everything))
        for start in range(0, len(shuffled), SLICE[part]):
            model.all_relations = [everything[i] for i in shuffled[start : start + SLICE[part]]]
            model.train(epochs=1)
            done = min(start + SLICE[part], len(shuffled)) / len(shuffled)
            yield epoch + done, np.where(order[:, None] >= 0, model.kv.vectors[order], 0)


def of_geoopt(problem: rx.problems.Embedding, part: str, rate: float) -> Progress:
    """SparseRiemannianAdam on the same loss: groups of nodes with common negatives, as in our last phase."""
    import geoopt
    import torch

    torch.set_num_threads(1)
    ball, generator = geoopt.PoincareBall(), np.random.default_rng(0)
    start = torch.from_numpy(problem.initial_point(0))
    table = geoopt.ManifoldParameter(start, manifold=ball)
    method = geoopt.optim.SparseRiemannianAdam([table], lr=rate)
    rows = lambda numbers: torch.nn.functional.embedding(torch.from_numpy(numbers), table, sparse=True)  # noqa: E731
    for step in itertools.count(1):
        batch = {name: a[0] for name, a in problem.draw(generator, 1).items()}
        refused = torch.from_numpy(np.unpackbits(batch["forbidden"], axis=-1, count=problem.negatives).astype(bool))
        first, place = np.nonzero(batch["related"] != batch["nodes"][:, None])
        u, v, w = rows(batch["nodes"]), rows(batch["related"][first, place]), rows(batch["negatives"])
        near = ball.dist(u[first], v)[:, None]
        # A point's distance from itself, which is refused, has no derivative: its place is taken by another.
        far = ball.dist(u[:, None], torch.where(refused[..., None], u[:, None].detach() / 2, w[None]))
        logits = torch.cat([-near, torch.where(refused, -torch.inf, -far)[first]], dim=1)
        method.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.zeros(len(first), dtype=torch.long)).backward()
        method.step()
        if step % max(1, SLICE[part] // problem.group) == 0:
            yield step * problem.group / problem.parts, table.detach().numpy()


def beside(arguments: argparse.Namespace) -> None:
    """Turn by turn, each contender trains for as long and is then evaluated."""
    problems = embeddings(arguments.part, arguments.data)
    problem = problems[PHASES[arguments.part][-1].negatives]
    some = _evaluated(problem, arguments.part)
    contenders = {
        "retrax, RSGD": lambda: of_retrax(problems, arguments.part),
        "gensim, PoincareModel": lambda: of_gensim(problem, arguments.part),
    }
    for rate in arguments.rates:
        contenders[f"geoopt, SparseRiemannianAdam({rate})"] = functools.partial(
            of_geoopt, problem, arguments.part, rate
        )
    progress = {name: make() for name, make in contenders.items() if arguments.only in name}
    spent = dict.fromkeys(progress, 0.0)
    for turn in range(1, arguments.turns + 1):
        for name in list(progress):
            epochs, x = 0.0, None
            last: tuple[float, Any] | tuple[()] | None = ()
            while last is not None and spent[name] < turn * arguments.seconds / arguments.turns:
                clock = time.process_time()
                last = next(progress[name], None)
                spent[name] += time.process_time() - clock
                epochs, x = last if last else (epochs, x)
            if last is None:
                del progress[name]
            if x is None:
                continue
            over = last is None or turn == arguments.turns
            found = problem.reconstruction(x, None if over else some)
            print(
                f"{name}: {spent[name]:.0f} s, {epochs:.2f} epochs ({spent[name] / epochs:.3g} s each), "
                f"mean rank {found.mean_rank:.2f}, MAP {found.mean_average_precision:.4f}",
                flush=True,
            )


def finite(arguments: argparse.Namespace) -> None:
    """20 seeds × two precisions × step sizes from 10⁻³ to 10 per relation × two methods, 500 steps each."""
    problem = embeddings(arguments.part, arguments.data)[PHASES[arguments.part][-1].negatives]
    bad = runs = 0
    for dtype, rate, name in itertools.product(("float32", "float64"), 10.0 ** np.arange(-3, 2), ("rsgd", "rsrm")):
        method = getattr(rx, name)(rx.schedules.constant(rate * problem.group))
        outside = []
        for seed in range(20):
            result = rx.minimize(problem, method, steps=500, batch_size=1, seed=seed, dtype=dtype, record=500)
            bad += not (np.isfinite(result.x).all() and np.isfinite(result.history["loss"]).all())
            outside.append(float(problem.manifold.violation(result.x)))
            runs += 1
        print(f"{dtype}, {name}, {rate:g}: largest violation {max(outside):.1e}, {bad} with NaN so far", flush=True)
    print(f"{bad} of {runs} runs with NaN")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("train", "beside", "finite"))
    parser.add_argument("part", choices=PHASES, nargs="?", default="mammals")
    parser.add_argument("--data", help="data folder (default: RETRAX_DATA)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--out", type=pathlib.Path, help="keep the points there")
    parser.add_argument("--seconds", type=float, default=60, help="for each contender")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--only", default="", help="contenders whose names have this in them")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.03], help="geoopt's step sizes, each a contender")
    arguments = parser.parse_args()
    {"train": train, "beside": beside, "finite": finite}[arguments.task](arguments)


if __name__ == "__main__":
    main()
