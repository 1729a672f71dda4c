"""The problems beyond the paper, each beside what others use for it, in one run.

python benchmarks/problems.py mammals | nouns | finite | ratings | views | power [--data DIR]

mammals, nouns: hyperbolic embeddings of WordNet (`--rivals` adds gensim's PoincareModel and geoopt's RSGD);
finite: no NaN in 20 seeds, two precisions and step sizes from 10⁻³ to 10; ratings: MovieLens in five folds beside
scikit-surprise's SVD; views: canonical correlations of digits from one pass; power: a step on 10⁴ spheres.
Times are CPU seconds of the process. Needs the extra `bench`.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import retrax as rx
from retrax.problems import cca

# Epochs and step size per relation: small steps first, while points still find their directions.
MAMMALS = ((20, 0.002), (100, 0.01), (100, 0.02), (200, 0.04), (100, 0.02), (100, 0.006))
NOUNS = ((4, 0.004), (16, 0.02), (120, 0.04), (30, 0.02), (15, 0.006))


def relations(part: str, data: str | None) -> np.ndarray:
    """All pairs of the nouns, or of the mammals among them."""
    wordnet = rx.datasets.load("wordnet", data).data
    closure = rx.datasets.transitive_closure(wordnet["hypernym_edges"])
    if part == "nouns":
        return closure
    return rx.datasets.descendants(closure, wordnet["names"].tolist().index(b"mammal#01861778"))[0]


def embed(problem: rx.problems.Embedding, phases: tuple[tuple[int, float], ...], evaluated: np.ndarray | None) -> None:
    """RSGD with a constant step size in each phase."""
    x, clock = None, time.process_time()
    for number, (epochs, rate) in enumerate(phases):
        result = rx.minimize(
            problem,
            rx.rsgd(rx.schedules.constant(rate * problem.group)),
            steps=epochs * len(problem.relations) // problem.group,
            batch_size=1,
            x0=x,
            seed=number,
            dtype="float64",
            record=10**9,
        )
        x = result.x
        found = problem.reconstruction(x, evaluated)
        print(f"{epochs} epochs at {rate}: {time.process_time() - clock:.0f} s, {found}", flush=True)


def embedding(part: str, arguments: argparse.Namespace) -> None:
    """Mean rank and mean average precision, phase by phase."""
    pairs = relations(part, arguments.data)
    sizes = {"mammals": (5, 50, 100), "nouns": (10, 256, 256)}[part]
    problem = rx.problems.Embedding(pairs, sizes[0], group=sizes[1], negatives=sizes[2])
    some = None if part == "mammals" else np.random.default_rng(0).choice(problem.nodes, 1000, replace=False)
    embed(problem, MAMMALS if part == "mammals" else NOUNS, some)
    if arguments.rivals:
        gensim_embedding(problem, sizes[0], some)


def gensim_embedding(problem: rx.problems.Embedding, dimension: int, evaluated: np.ndarray | None) -> None:
    """gensim's PoincareModel with its defaults but Nickel & Kiela's 50 negatives, 50 epochs after a burn-in of 10."""
    from gensim.models.poincare import PoincareModel

    clock = time.process_time()
    named = [(str(u), str(v)) for u, v in problem.relations]
    model = PoincareModel(named, size=dimension, negative=50, burn_in=10, seed=0)
    model.train(epochs=50)
    table = np.zeros(problem.manifold.ambient_shape)
    for node in range(problem.nodes):
        if str(node) in model.kv:
            table[node] = model.kv[str(node)]
    found = problem.reconstruction(table, evaluated)
    print(f"gensim, 50 epochs: {time.process_time() - clock:.0f} s, {found}", flush=True)


def finite(arguments: argparse.Namespace) -> None:
    """20 seeds × two precisions × step sizes from 10⁻³ to 10, on a binary tree of 63 nodes."""
    pairs = rx.datasets.transitive_closure([(i, (i - 1) // 2) for i in range(1, 63)])
    problem = rx.problems.Embedding(pairs, 5, group=10, negatives=20)
    bad = runs = 0
    for dtype in ("float32", "float64"):
        for rate in (1e-3, 1e-2, 1e-1, 1.0, 10.0):
            for seed in range(20):
                method = rx.rsgd(rx.schedules.constant(rate))
                result = rx.minimize(problem, method, steps=500, batch_size=1, seed=seed, dtype=dtype, record=500)
                bad += not (np.isfinite(result.x).all() and np.isfinite(result.history["loss"]).all())
                runs += 1
    print(f"{bad} of {runs} runs with NaN")


def ratings(arguments: argparse.Namespace) -> None:
    """Root mean squared error in five folds."""
    data = rx.datasets.load("movielens", arguments.data).data
    user, item, rating = data["user"], data["item"], data["rating"].astype(np.float64)
    folds = np.array_split(np.random.default_rng(0).permutation(len(rating)), 5)
    for name, predicted in {"retrax": _completed, "scikit-surprise SVD": _surprise}.items():
        errors, clock = [], time.process_time()
        for number, test in enumerate(folds):
            train = np.concatenate([fold for other, fold in enumerate(folds) if other != number])
            guess = predicted(user[train], item[train], rating[train], user[test], item[test])
            errors.append(np.sqrt(np.mean((guess - rating[test]) ** 2)))
        print(f"{name}: {np.mean(errors):.4f} ± {np.std(errors):.4f}, {time.process_time() - clock:.1f} s", flush=True)


def _completed(user: np.ndarray, item: np.ndarray, rating: np.ndarray, *asked: np.ndarray) -> np.ndarray:
    problem = rx.problems.MatrixCompletion(user, item, rating, RANK, shape=(671, 9066), regularization=GAMMA)
    method = rx.rsrm(rx.schedules.constant(RATE), rho=rx.schedules.constant(0.1))
    result = rx.minimize(
        problem, method, steps=STEPS, batch_size=4000, first_batch_size=4000, dtype="float32", record=STEPS
    )
    return problem.predict(result.x, *asked)


# γ was chosen on the first fold from 0.02, 0.05, 0.15, 0.4 and 1, the step size from 5000, 10000 and 20000.
RANK, GAMMA, RATE, STEPS = 5, 0.4, 10_000.0, 300


def _surprise(user: np.ndarray, item: np.ndarray, rating: np.ndarray, *asked: np.ndarray) -> np.ndarray:
    import surprise

    known = surprise.Dataset(surprise.Reader(rating_scale=(0.5, 5)))
    rows = [(u, i, r, None) for u, i, r in zip(user, item, rating, strict=True)]
    model = surprise.SVD(random_state=0).fit(known.construct_trainset(rows))
    return np.array([model.predict(u, i).est for u, i in zip(*asked, strict=True)])


def views(arguments: argparse.Namespace) -> None:
    """The share of the exact five correlations of fac with pix that one pass finds, over five orders of the samples."""
    data = rx.datasets.load("mfeat", arguments.data).data
    x, y = (data[view] / np.maximum(data[view].std(axis=0), 1e-9) for view in ("fac", "pix"))
    everything = cca.Moments((x.shape[1], y.shape[1]))
    everything.add(x, y)
    exact = cca.canonical_correlations(everything, 5, 1e-6)[0].sum()
    for seed in range(5):
        clock = time.process_time()
        order = np.array_split(np.random.default_rng(seed).permutation(len(x)), 20)
        point, _ = cca.follow(((x[part], y[part]) for part in order), 5, seed=seed)
        found = cca.correlations_of(everything, point["x"][:, :5], point["y"][:, :5], 1e-6).sum()
        print(f"order {seed}: {found / exact:.4%} of {exact:.4f}, {time.process_time() - clock:.2f} s", flush=True)


def power(arguments: argparse.Namespace) -> None:
    """RSGD on 10⁴ spheres of dimension 20, beside the same arithmetic by hand; both inside one compiled loop."""
    import jax
    import jax.numpy as jnp

    targets = np.random.default_rng(0).standard_normal((64, 10_000, 20)).astype(np.float32)

    def loss(x: jax.Array, batch: jax.Array) -> jax.Array:
        return -jnp.mean(jnp.sum(x * batch, axis=(1, 2)))

    problem = rx.Problem(loss, rx.Power(rx.Sphere(20), 10_000), targets)
    clock, spent = time.perf_counter(), time.process_time()
    run = rx.Run(problem, rx.rsgd(rx.schedules.constant(1e-3)), batch_size=1, dtype="float32")
    run.advance(2)
    print(f"first call: {time.perf_counter() - clock:.2f} s, of which on the CPU {time.process_time() - spent:.2f} s")

    @jax.jit
    def by_hand(x: jax.Array, data: jax.Array, order: jax.Array) -> jax.Array:
        def body(i: jax.Array, x: jax.Array) -> jax.Array:
            g = jax.grad(loss)(x, data[order[i]][None])
            g = g - jnp.sum(x * g, axis=-1, keepdims=True) * x
            y = x - 1e-3 * g
            return y / jnp.sqrt(jnp.sum(y * y, axis=-1, keepdims=True))

        return jax.lax.fori_loop(0, 200, body, x)

    x, data = jnp.asarray(run.x), jnp.asarray(targets)
    order = jnp.asarray(np.random.default_rng(1).integers(0, 64, 200))
    jax.block_until_ready(by_hand(x, data, order))
    run.advance(200)
    ratios = []
    for _ in range(arguments.rounds):
        ours = _timed(lambda: run.advance(200))
        theirs = _timed(lambda: jax.block_until_ready(by_hand(x, data, order)))
        ratios.append(ours / theirs)
    print(f"a step by hand: {theirs / 200 * 1e6:.0f} µs; ratio {np.median(ratios):.2f}, {np.round(ratios, 2)}")


def _timed(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("mammals", "nouns", "finite", "ratings", "views", "power"))
    parser.add_argument("--data", help="data folder (default: RETRAX_DATA)")
    parser.add_argument("--rivals", action="store_true", help="train gensim's model too")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    parts = {"finite": finite, "ratings": ratings, "views": views, "power": power}
    if arguments.part in parts:
        parts[arguments.part](arguments)
    else:
        embedding(arguments.part, arguments)


if __name__ == "__main__":
    main()
