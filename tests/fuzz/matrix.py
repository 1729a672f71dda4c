"""Every manifold and ready-made problem × method × dtype × driver at the smallest sizes: `python -m tests.fuzz.matrix`.

A case is good if its run ends with a point on the manifold, or says that it has diverged, or is refused in our words.
Compiling takes most of the time; with --brief the compiled driver has every problem × method at one of its six
combinations of samples and dtype, in turn; --rest has what --brief leaves out.
"""

import argparse
import collections
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.fuzz.calls import FOREIGN, GOOD, OURS, SILENT, WRONG, point_loss, refusal

import retrax as rx
import retrax.torch
from retrax.recording import finite, off_manifold

BATCH = 2
SAMPLES = {"n = 1": 1, "n = b": BATCH, "n = 5": 5}

MANIFOLDS: dict[str, Callable[[], Any]] = {
    "Euclidean d=1": lambda: rx.Euclidean(1),
    "Euclidean": lambda: rx.Euclidean(3, 2),
    "Sphere d=1": lambda: rx.Sphere(1),
    "Sphere": lambda: rx.Sphere(3),
    "Stiefel r=1": lambda: rx.Stiefel(3, 1),
    "Stiefel r=d": lambda: rx.Stiefel(2, 2),
    "Stiefel d=1": lambda: rx.Stiefel(1, 1),
    "Stiefel": lambda: rx.Stiefel(4, 2),
    "Grassmann r=1": lambda: rx.Grassmann(3, 1),
    "Grassmann r=d": lambda: rx.Grassmann(2, 2),
    "Grassmann d=1": lambda: rx.Grassmann(1, 1),
    "Grassmann": lambda: rx.Grassmann(4, 2),
    "SPD d=1": lambda: rx.SPD(1),
    "SPD": lambda: rx.SPD(2),
    "SPD log-Euclidean": lambda: rx.SPD(2, metric="log-euclidean"),
    "SPD Bures-Wasserstein": lambda: rx.SPD(2, metric="bures-wasserstein"),
    "Product": lambda: rx.Product({"a": rx.Sphere(2), "b": rx.Euclidean(1)}),
    "Power": lambda: rx.Power(rx.Sphere(2), 3),
    "Oblique": lambda: rx.Oblique(2, 1),
    "PoincareBall d=1": lambda: rx.PoincareBall(1),
    "PoincareBall": lambda: rx.PoincareBall(2),
    "Lorentz d=1": lambda: rx.Lorentz(1),
    "Lorentz": lambda: rx.Lorentz(2),
    "GeneralizedStiefel r=d": lambda: rx.GeneralizedStiefel(2, 2),
    "GeneralizedStiefel": lambda: rx.GeneralizedStiefel(3, 2),
    "SpecialOrthogonal d=1": lambda: rx.SpecialOrthogonal(1),
    "SpecialOrthogonal": lambda: rx.SpecialOrthogonal(3),
    "FixedRank r=1": lambda: rx.FixedRank(3, 2, 1),
    "FixedRank r=d": lambda: rx.FixedRank(2, 2, 2),
    "Simplex d=1": lambda: rx.Simplex(1),
    "Simplex": lambda: rx.Simplex(3),
    "Positive": lambda: rx.Positive(2),
    "Symmetric": lambda: rx.Symmetric(2),
}

METHODS: dict[str, Callable[[], Any]] = {
    **{
        name: (lambda name=name: getattr(rx, name)(0.01))
        for name in ("rsgd", "csgd_m", "crmsprop", "ramsgrad", "radam", "rasa", "rsrm", "mars")
    },
    **{name: (lambda name=name: getattr(rx, name)(0.01, restart_every=2)) for name in ("rsvrg", "rsrg", "rspider")},
    **{f"{name}()": getattr(rx, name) for name in ("rsrm", "rdog", "rdowg", "nrdog", "storm_plus")},
}

PROBLEMS: dict[str, Callable[[int], Any]] = {
    "PCA": lambda n: rx.problems.PCA(_samples(n, 3), 2),
    "PCA r=d": lambda n: rx.problems.PCA(_samples(n, 2), 2),
    "PCA d=1": lambda n: rx.problems.PCA(_samples(n, 1), 1),
    "Centroid": lambda n: rx.problems.Centroid(_matrices(n, 2)),
    "Centroid d=1": lambda n: rx.problems.Centroid(_matrices(n, 1)),
    "CCA": lambda n: rx.problems.CCA(_samples(n + 3, 3), _samples(n + 3, 2), 1),
    "MatrixCompletion": lambda n: rx.problems.MatrixCompletion(*np.arange(2 * n).reshape(2, n), np.ones(n), 1),
    "Embedding": lambda n: rx.problems.Embedding([(i, (i - 1) // 2) for i in range(1, n + 2)], 2, group=3, negatives=4),
    "JointDiagonalization": lambda n: rx.problems.JointDiagonalization(_matrices(n, 2)),
    "JointDiagonalization d=1": lambda n: rx.problems.JointDiagonalization(_matrices(n, 1)),
}

DRIVERS = ("eager", "jax", "torch")
DTYPES = ("float32", "float64")


class Case(NamedTuple):
    """One run."""

    problem: str
    method: str
    samples: str
    dtype: str
    driver: str


def _samples(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, d))


def _matrices(n: int, d: int) -> np.ndarray:
    factors = np.random.default_rng(n).standard_normal((n, d, d))
    return factors @ factors.swapaxes(1, 2) + np.eye(d)


def all_cases() -> Iterator[Case]:
    """Every one of them: several thousand."""
    yield from map(Case._make, itertools.product([*MANIFOLDS, *PROBLEMS], METHODS, SAMPLES, DTYPES, DRIVERS[:2]))
    for manifold, optimizer, dtype in itertools.product(MANIFOLDS, _optimizers(), DTYPES):
        yield Case(manifold, optimizer, "n = 5", dtype, "torch")


def brief_cases() -> Iterator[Case]:
    """Every one in the eager and PyTorch drivers; every problem and method together in the compiled one."""
    yield from (case for case in all_cases() if case.driver != "jax")
    yield from _compiled_cases(0)


def remaining_cases() -> Iterator[Case]:
    """What the brief cases leave out, so that a run cut short has seen every problem and method."""
    for turn in range(1, len(SAMPLES) * len(DTYPES)):
        yield from _compiled_cases(turn)


def _compiled_cases(turn: int) -> Iterator[Case]:
    kinds = list(itertools.product(SAMPLES, DTYPES))
    for i, problem in enumerate([*MANIFOLDS, *PROBLEMS]):
        for j, method in enumerate(METHODS):
            yield Case(problem, method, *kinds[(i + j + turn) % len(kinds)], "jax")


def covering_cases() -> list[Case]:
    """Few that have every manifold and problem, every method, number of samples, dtype and driver among them."""
    methods, samples = itertools.cycle(METHODS), itertools.cycle(SAMPLES)
    names, dtypes = [*MANIFOLDS, *PROBLEMS], itertools.cycle([*DTYPES, DTYPES[1], DTYPES[0]])
    cases = [Case(name, next(methods), next(samples), next(dtypes), "eager") for name in names]
    cases += [Case(name, next(methods), next(samples), next(dtypes), "jax") for name in ("PCA d=1", "Simplex")]
    optimizers = itertools.cycle(_optimizers())
    return cases + [Case(name, next(optimizers), "n = 5", next(dtypes), "torch") for name in MANIFOLDS]


def _optimizers() -> list[str]:
    base = retrax.torch.RiemannianOptimizer
    named = {name: getattr(retrax.torch, name) for name in retrax.torch.__all__}
    return [
        name for name, kind in named.items() if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    ]


def tried(case: Case) -> tuple[str, str]:
    """How a case ends, and that in words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _stepped(case) if case.driver == "torch" else _ran(case)
    except Exception as error:
        return refusal(error)


def _ran(case: Case) -> tuple[str, str]:
    n = SAMPLES[case.samples]
    if case.problem in PROBLEMS:
        problem = PROBLEMS[case.problem](n)
    else:
        problem = rx.Problem(point_loss, MANIFOLDS[case.problem](), _samples(n, 2))
    result = rx.minimize(
        problem, METHODS[case.method](), steps=3, batch_size=BATCH, record=3, dtype=case.dtype, driver=case.driver
    )
    if result.status is rx.Status.DIVERGED:
        return GOOD, result.detail
    return _judged(problem.manifold, result.x)


def _stepped(case: Case) -> tuple[str, str]:
    manifold = MANIFOLDS[case.problem]()
    if not isinstance(manifold.ambient_shape, tuple):
        return OURS, "a parameter of PyTorch is one array"
    generator = np.random.default_rng(0)
    start = manifold.random_point(generator.standard_normal(manifold.ambient_shape)).astype(case.dtype)
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = getattr(retrax.torch, case.method)([{"params": [weight], "manifold": manifold}], lr=0.01)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = weight.sum() + (weight**2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return _judged(manifold, weight.detach().numpy())


def _judged(manifold: Any, x: Any) -> tuple[str, str]:
    violation = float(np.max(manifold.violation(x)))
    if finite(x) and violation <= off_manifold(x):
        return GOOD, ""
    return SILENT, f"violation {violation:.2g}"


def main() -> int:
    """The command: findings and a summary."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.matrix", description=__doc__)
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--brief", dest="cases", action="store_const", const=brief_cases, default=all_cases)
    part.add_argument("--rest", dest="cases", action="store_const", const=remaining_cases)
    parser.add_argument("--skip", type=int, default=0, help="how many cases an earlier run has seen")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    cases = list(arguments.cases())[arguments.skip :]
    ends: collections.Counter[str] = collections.Counter()
    deadline = time.monotonic() + arguments.seconds
    for case in cases:
        if time.monotonic() > deadline:
            break
        end, words = tried(case)
        ends[end] += 1
        if end in (SILENT, FOREIGN, WRONG):
            print(*case, end, words, sep="\t", flush=True)
    print(f"{ends.total()} of {len(cases)} cases: " + ", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return 1 if ends[SILENT] or ends[WRONG] or ends[FOREIGN] else 0


if __name__ == "__main__":
    sys.exit(main())
