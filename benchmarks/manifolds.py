"""A stochastic step on each manifold, beside GeoJAX's own solver and geoopt's RSGD where they have the manifold.

python benchmarks/manifolds.py [--rounds 5] [--steps 2000] [--only Sphere]

The loss is the same everywhere: the mean of ‖x - z‖²/2 over a batch of 10 samples z of the ambient space, in float64;
geometry and overhead are what differs. Contenders take turns; figures are CPU time (GeoJAX's by the clock of its log),
the shortest of the rounds, which a busy machine changes least, and ratios are of these. Needs the extras `bench` and
`dev`.
"""

import argparse
import functools
import math
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import retrax as rx
from benchmarks import timing
from benchmarks.timing import Contender, Run, UnavailableError

BATCH, SAMPLES, RATE = 10, 200, 1e-3
EAGER_STEPS = 100
BURES, LOG = "bures-wasserstein", "log-euclidean"


class Kind(NamedTuple):
    """A manifold of ours, and theirs by name and arguments; None where they lack it."""

    ours: Any
    geojax: tuple[Any, ...] | None = None
    geoopt: tuple[str, dict[str, Any]] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """That of a dense point: ours of fixed rank is in factors, of generalized Stiefel beside its B."""
        if isinstance(self.ours, rx.FixedRank):
            return self.ours.m, self.ours.n
        return (self.ours.d, self.ours.r) if isinstance(self.ours, rx.GeneralizedStiefel) else self.ours.ambient_shape

    def dense(self, x: Any) -> Any:
        """A point of ours as an array of that shape."""
        if isinstance(self.ours, rx.FixedRank):
            return self.ours.matrix(x)
        return self.ours.frame_of(x) if isinstance(self.ours, rx.GeneralizedStiefel) else x

    @property
    def start(self) -> np.ndarray:
        """A random point of ours."""
        return self.ours.random_point(np.random.default_rng(0).standard_normal(self.ours.ambient_shape))

    @property
    def samples(self) -> np.ndarray:
        """Noise around the starting point: the walk stays where it began."""
        noise = np.random.default_rng(1).standard_normal((SAMPLES, *self.shape))
        return self.dense(self.start) + 0.1 * noise / math.sqrt(noise[0].size)


STIEFEL = ("Stiefel", {"canonical": False})
KINDS = [
    Kind(rx.Euclidean(100), ("Euclidean", 100), ("Euclidean", {"ndim": 1})),
    Kind(rx.Sphere(100), ("Sphere", 100), ("Sphere", {})),
    Kind(rx.Power(rx.Sphere(20), 50), None, ("Sphere", {})),
    Kind(rx.Oblique(20, 50), ("Oblique", (20, 50))),
    Kind(rx.Stiefel(50, 5), ("StiefelEuclidean", (50, 5)), STIEFEL),
    Kind(rx.Grassmann(50, 5), ("Grassmann", (50, 5))),
    Kind(rx.GeneralizedStiefel(20, 3), ("GeneralizedStiefel", (20, 3))),
    Kind(rx.SpecialOrthogonal(3), ("SpecialOrthogonal", 3)),
    Kind(rx.SpecialOrthogonal(10), ("SpecialOrthogonal", 10), STIEFEL),
    Kind(rx.FixedRank(50, 40, 5), ("FixedRank", (50, 40), 5)),
    Kind(rx.SPD(10), ("SPDAffineInvariant", (10, 10)), ("SymmetricPositiveDefinite", {})),
    Kind(
        rx.SPD(10, metric=LOG), ("SPDLogEuclidean", (10, 10)), ("SymmetricPositiveDefinite", {"default_metric": "LEM"})
    ),
    Kind(rx.SPD(10, metric=BURES), ("SPDBuresWasserstein", (10, 10))),
    Kind(rx.Simplex(50), ("ProbabilitySimplex", 50)),
    Kind(rx.PoincareBall(10), ("PoincareBall", 10), ("PoincareBall", {})),
    Kind(rx.Power(rx.PoincareBall(10), 100), None, ("PoincareBall", {})),
    Kind(rx.Lorentz(10), ("Hyperboloid", 11), ("Lorentz", {})),
]


def of_retrax(kind: Kind, steps: int) -> Run:
    """`rx.Run.advance`: drawing indices, handing them over, and the compiled loop."""

    def loss(x: Any, batch: Any) -> Any:
        return 0.5 * ((kind.dense(x) - batch) ** 2).sum() / batch.shape[0]

    problem = rx.Problem(loss, kind.ours, kind.samples)
    session = rx.Run(problem, rx.rsgd(RATE), batch_size=BATCH, x0=kind.start, dtype="float64")
    return _timed(lambda: session.advance(steps), steps)


def _timed(action: Callable[[], Any], steps: int) -> Run:
    """CPU seconds of a step."""

    def run() -> float:
        start = time.process_time()
        action()
        return (time.process_time() - start) / steps

    return run


def of_geojax(kind: Kind) -> Run:
    """StochasticGradient as it comes: seconds per iteration by its own log, without its full evaluations."""
    if kind.geojax is None:
        raise UnavailableError("it has no such manifold")
    import geojax
    import jax
    import jax.numpy as jnp
    from geojax.optimization import problems, stochasticgradient

    name, size, *rank = kind.geojax
    method = stochasticgradient.StochasticGradient(
        batch_size=BATCH,
        step_schedule=stochasticgradient.PolynomialDecay(RATE, 1.0),
        evaluation_period=10**9,
        maxiter=4,
        verbosity=0,
        tolgradnorm=-math.inf,
        key=0,
    )

    def run() -> float:
        with jax.enable_x64(True):
            more: dict[str, Any] = {"rank": rank[0]} if rank else {}
            if name == "GeneralizedStiefel":
                more = {"metric": jnp.asarray(kind.ours.metric_of(kind.start))}
            data, start = jnp.asarray(kind.samples), jnp.asarray(kind.dense(kind.start))
            problem = problems.FiniteSum(
                M=getattr(geojax, name)(size, **more),
                loss=lambda x, i: 0.5 * jnp.sum((x - data[i]) ** 2),
                num_terms=SAMPLES,
                x0=start,
            )
            _, _, log = method.solve(problem)
            return (log[-1].time - log[1].time) / (log[-1].iter - log[1].iter)

    return run


def of_geoopt(kind: Kind) -> Run:
    """RiemannianSGD as its documentation shows it."""
    if kind.geoopt is None:
        raise UnavailableError("it has no such manifold")
    import geoopt
    import torch

    torch.set_num_threads(1)
    name, options = kind.geoopt
    data = torch.from_numpy(kind.samples)
    start = torch.from_numpy(kind.start.copy())
    x = geoopt.ManifoldParameter(start, manifold=getattr(geoopt, name)(**options))
    method = geoopt.optim.RiemannianSGD([x], lr=RATE)
    indices = np.random.default_rng(2).integers(0, SAMPLES, (EAGER_STEPS, BATCH))

    def steps() -> None:
        for chosen in indices:
            method.zero_grad()
            (0.5 * ((x - data[chosen]) ** 2).sum() / BATCH).backward()
            method.step()

    return _timed(steps, EAGER_STEPS)


def row(kind: Kind, arguments: argparse.Namespace, say: Callable[[str], None]) -> str:
    """A line of the table."""
    names = "retrax", "GeoJAX", "geoopt"
    builds = functools.partial(of_retrax, kind, arguments.steps), functools.partial(of_geojax, kind)
    contenders = [Contender(n, b) for n, b in zip(names, (*builds, functools.partial(of_geoopt, kind)), strict=True)]
    result = timing.measure(contenders, arguments.rounds, say)
    least = {found["name"]: min(found["repetitions_us"]) for found in result["rows"]}
    ratios = {name: microseconds / least["retrax"] for name, microseconds in least.items()}
    cells = [f"{least[name]:.3g}" if name in least else "-" for name in names]
    cells += [f"{ratios[name]:.3g}" if name in ratios else "-" for name in names[1:]]
    return f"| {_short(kind.ours)} | " + " | ".join(cells) + " |"


def _short(manifold: Any) -> str:
    """Its repr without the names of retraction and transport."""
    return re.sub(r", retraction='[a-z-]*', transport='[a-z-]*'", "", str(manifold))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000, help="of retrax in a round")
    parser.add_argument("--only", default="", help="manifolds whose names have this in them")
    arguments = parser.parse_args()
    rows = [
        "| manifold | retrax µs | GeoJAX µs | geoopt µs | GeoJAX/retrax | geoopt/retrax |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        if arguments.only in str(kind.ours):
            print(kind.ours, flush=True)
            rows.append(row(kind, arguments, lambda text: print(text, flush=True)))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
