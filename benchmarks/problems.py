"""The problems beyond the paper, each beside what others use for it, in one run.

python benchmarks/problems.py ratings | views | power [--data DIR]

ratings: MovieLens in five folds beside scikit-surprise's SVD; views: canonical correlations of digits from one pass;
power: a step on 10⁴ spheres. Hyperbolic embeddings have their own file, `hyperbolic.py`.
Times are CPU seconds of the process. Needs the extra `bench`.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import retrax as rx
from retrax.problems import cca


def ratings(arguments: argparse.Namespace) -> None:
    """Root mean squared error in five folds; the time of the fits to all training ratings, and with what chose them."""
    data = rx.datasets.load("movielens", arguments.data).data
    user, item, rating = data["user"], data["item"], data["rating"].astype(np.float64)
    folds = np.array_split(np.random.default_rng(0).permutation(len(rating)), 5)
    for name, predicted in {"retrax": _completed, "scikit-surprise SVD": _surprise}.items():
        errors, spent, clock = [], 0.0, time.process_time()
        for number, test in enumerate(folds):
            train = np.concatenate([fold for other, fold in enumerate(folds) if other != number])
            guess, seconds = predicted(user[train], item[train], rating[train], user[test], item[test])
            spent += seconds
            errors.append(np.sqrt(np.mean((guess - rating[test]) ** 2)))
        print(
            f"{name}: {np.mean(errors):.4f} ± {np.std(errors):.4f}, folds {np.round(errors, 4)}; "
            f"{spent:.1f} s, with choosing {time.process_time() - clock:.1f} s",
            flush=True,
        )


def _completed(user: np.ndarray, item: np.ndarray, rating: np.ndarray, *asked: np.ndarray) -> tuple[np.ndarray, float]:
    """With the step size, then γ, that predict a tenth of the training ratings best: the test fold chooses nothing."""
    held, kept = np.split(np.random.default_rng(1).permutation(len(rating)), [len(rating) // 10])

    def error(rate: float, gamma: float) -> float:
        guess = _fitted(user[kept], item[kept], rating[kept], rate, gamma, user[held], item[held])
        return float(np.mean((guess - rating[held]) ** 2))

    rate = min(RATES, key=lambda rate: error(rate, 0.4))
    gamma = min(GAMMAS, key=lambda gamma: error(rate, gamma))
    print(f"  step size {rate:g}, γ = {gamma:g}", flush=True)
    clock = time.process_time()
    return _fitted(user, item, rating, rate, gamma, *asked), time.process_time() - clock


def _fitted(
    user: np.ndarray, item: np.ndarray, rating: np.ndarray, rate: float, gamma: float, *asked: np.ndarray
) -> np.ndarray:
    problem = rx.problems.MatrixCompletion(user, item, rating, RANK, shape=(671, 9066), regularization=gamma)
    method = rx.rsrm(rx.schedules.constant(rate), rho=rx.schedules.constant(0.1))
    result = rx.minimize(
        problem, method, steps=STEPS, batch_size=4000, first_batch_size=4000, dtype="float32", record=STEPS
    )
    return problem.predict(result.x, *asked)


RANK, STEPS = 5, 300
RATES, GAMMAS = (5_000.0, 10_000.0, 20_000.0), (0.05, 0.15, 0.4, 1.0)


def _surprise(user: np.ndarray, item: np.ndarray, rating: np.ndarray, *asked: np.ndarray) -> tuple[np.ndarray, float]:
    import surprise

    clock = time.process_time()
    known = surprise.Dataset(surprise.Reader(rating_scale=(0.5, 5)))
    rows = [(u, i, r, None) for u, i, r in zip(user, item, rating, strict=True)]
    model = surprise.SVD(random_state=0).fit(known.construct_trainset(rows))
    guess = np.array([model.predict(u, i).est for u, i in zip(*asked, strict=True)])
    return guess, time.process_time() - clock


def views(arguments: argparse.Namespace) -> None:
    """The share of the exact five correlations of fac with pix that one pass finds, over five orders of the samples."""
    data = rx.datasets.load("mfeat", arguments.data).data
    x, y = (data[view] / np.maximum(data[view].std(axis=0), 1e-9) for view in ("fac", "pix"))
    problem = rx.problems.CCA(x, y, 5)
    exact = -problem.optimum
    for seed in range(5):
        clock = time.process_time()
        order = np.array_split(np.random.default_rng(seed).permutation(len(x)), 20)
        point, _ = cca.follow(((x[part], y[part]) for part in order), 5, seed=seed)
        found = problem.correlations(point).sum()
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
    parser.add_argument("part", choices=("ratings", "views", "power"))
    parser.add_argument("--data", help="data folder (default: RETRAX_DATA)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    {"ratings": ratings, "views": views, "power": power}[arguments.part](arguments)


if __name__ == "__main__":
    main()
