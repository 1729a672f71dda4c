"""Time to accuracy as a user feels it, for more and more samples: from the call on, compiling included.

Seconds until F lies within 10⁻², 10⁻³ and 10⁻⁴ of the first gap above the optimum; measuring F is outside the clock.
Retrax runs untuned. geoopt's learning rates are chosen on the smallest n, outside the clock: the best of six. From
`race_mapped` samples on they are a memory-mapped file of single precision, open to every contender.
"""

import contextlib
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from benchmarks import cases
from benchmarks.contenders import by_numpy
from benchmarks.sizes import Sizes
from retrax.datasets import synthetic
from retrax.drivers import programs
from retrax.problems.base import SampleMean

TARGETS = (1e-2, 1e-3, 1e-4)
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
CHUNK = 50_000
Trace = Iterator[tuple[float, float]]
"""(seconds so far, F) as a run goes on."""


class Arena:
    """Samples, F over all of them, its smallest value, a start, and the contenders by name."""

    def __init__(self, label: str, data: np.ndarray, problem: Callable[[], rx.Problem], start: np.ndarray) -> None:
        self.label, self.data, self.problem, self.start = label, data, problem, start
        self.contenders: dict[str, Callable[[float], Trace]] = {}
        self.value: Callable[[np.ndarray], float]
        self.optimum: float

    def goals(self) -> list[float]:
        """The values of F to reach."""
        first = self.value(self.start)
        return [self.optimum + target * (first - self.optimum) for target in TARGETS]


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """For each problem: its targets, and for each n the seconds of each contender."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="retrax-bench-") as folder:
        for d, counts in sizes.race_pca.items():
            label = f"PCA on Gr({d},{sizes.rank})"
            path = pathlib.Path(folder) / f"{d}.npy"
            samples = _samples(path, d, max(counts), sizes)
            makers = [lambda n=n, samples=samples: _pca(samples, n, sizes) for n in counts]
            results[label] = _race(label, makers, counts, sizes, say)
            path.unlink(missing_ok=True)
    for label, counts, make in (
        (f"robust PCA on Gr({sizes.race_robust[0]},{sizes.rank}), a user's loss", sizes.race_robust[1], _robust),
        (f"centroid on SPD({sizes.race_centroid[0]})", sizes.race_centroid[1], _centroid),
        (f"joint diagonalization on St({sizes.race_joint[0]},{sizes.race_joint[0]})", sizes.race_joint[1], _joint),
    ):
        results[label] = _race(label, [lambda n=n, make=make: make(n, sizes) for n in counts], counts, sizes, say)
    return results


def _race(label: str, makers: list[Any], counts: Any, sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    rows = []
    for n, make in zip(counts, makers, strict=True):
        arena = make()
        goals, found = arena.goals(), {}
        for name, trace in arena.contenders.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found[name] = _times(trace(sizes.race_seconds), goals, sizes.race_seconds)
            except Exception as error:  # one contender's failure is a line, not the end
                found[name] = f"failed: {type(error).__name__}"
            say(f"  {label}, n = {n}, {name}: {found[name]}")
        rows.append({"n": n, "seconds": found})
    return {"targets": TARGETS, "limit": sizes.race_seconds, "rows": rows}


def _times(trace: Trace, goals: list[float], limit: float) -> list[float | None]:
    """Seconds at which each goal is reached first; None where it is not within the limit."""
    found: list[float | None] = [None] * len(goals)
    for seconds, value in trace:
        if seconds > limit:
            break
        found = [s if s is not None or value > g else seconds for s, g in zip(found, goals, strict=True)]
        if None not in found:
            break
    return found


# --- the problems ---------------------------------------------------------------------------------------------------


def _samples(path: pathlib.Path, d: int, n: int, sizes: Sizes) -> np.ndarray:
    """n rows with SYN1's kind of spectrum, in a file where they are many."""
    base = synthetic.pca(min(n, CHUNK), d, sizes.rank).astype(np.float32)
    if n < sizes.race_mapped:
        return base if n <= len(base) else _blocks(np.empty((n, d), np.float32), base)
    return _blocks(np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d)), base)


def _blocks(out: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Fresh Gaussian mixtures of the rows of `base`: the same second moment, and no row twice."""
    generator, (k, d) = np.random.default_rng(1), base.shape
    factor = np.linalg.cholesky(base.T.astype(float) @ base / k + 1e-9 * np.eye(d)).T.astype(np.float32)
    for first in range(0, len(out), CHUNK):
        rows = min(CHUNK, len(out) - first)
        out[first : first + rows] = generator.standard_normal((rows, d), dtype=np.float32) @ factor
    return out


def _pca(samples: np.ndarray, n: int, sizes: Sizes) -> Arena:
    data = samples[:n]
    if n < sizes.race_mapped:
        data = np.array(data)
    d, r = data.shape[1], sizes.rank
    moment = sum(_moment(data[first : first + CHUNK]) for first in range(0, n, CHUNK)) / n
    start = np.linalg.qr(np.random.default_rng(2).standard_normal((d, r)))[0]
    arena = Arena(f"n = {n}", data, lambda: rx.problems.PCA(data, r), start)
    arena.value = lambda x: -float(np.sum(x * (moment @ x)))
    arena.optimum = -float(np.sum(np.linalg.eigvalsh(moment)[-r:]))
    arena.contenders = {
        **_ours(arena, 5 if d < 200 else 10),
        **_geoopt(arena, "pca"),
        "pymanopt CG": lambda limit: _pymanopt(arena, "CG", "Grassmann", _full_pca(data), limit),
        "pymanopt TR": lambda limit: _pymanopt(arena, "TR", "Grassmann", _full_pca(data), limit),
        "IncrementalPCA": lambda limit: _incremental(arena, limit),
        "randomized PCA": lambda limit: _randomized(arena),
    }
    return arena


def _moment(rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float64)
    return rows.T @ rows


def _full_pca(data: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """F and its Euclidean gradient over all samples, in chunks."""

    def full(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros_like(x)
        for first in range(0, len(data), CHUNK):
            rows = np.asarray(data[first : first + CHUNK])
            products = rows @ x.astype(rows.dtype)
            value -= float(np.sum(products**2, dtype=np.float64))
            gradient -= 2 * (rows.T @ products)
        return value / len(data), gradient / len(data)

    return full


def _robust_loss(x: Any, batch: Any) -> Any:
    """The mean of √(1 + ‖z - x xᵀz‖²): far samples count less than in PCA."""
    residual = batch - (batch @ x) @ x.T
    return jnp.mean(jnp.sqrt(1 + jnp.sum(residual**2, axis=-1)))


def _robust(n: int, sizes: Sizes) -> Arena:
    d, r = sizes.race_robust[0], sizes.rank
    data = synthetic.pca(n, d, r)
    data[::10] *= np.random.default_rng(3).uniform(3, 10, (len(data[::10]), 1))
    start = np.linalg.qr(np.random.default_rng(2).standard_normal((d, r)))[0]
    arena = Arena("", data, lambda: rx.Problem(_robust_loss, rx.Grassmann(d, r), data), start)

    def full(x: np.ndarray) -> tuple[float, np.ndarray]:
        residual = data - (data @ x) @ x.T
        lengths = np.sqrt(1 + np.sum(residual**2, axis=-1))
        weighted = residual / lengths[:, None]
        gradient = -(weighted.T @ (data @ x) + data.T @ (weighted @ x)) / n
        return float(np.mean(lengths)), gradient

    arena.value = lambda x: full(x)[0]
    arena.optimum = min(value for _, value in _pymanopt(arena, "CG", "Grassmann", full, 60))
    arena.contenders = {
        **_ours(arena, 5),
        **_geoopt(arena, "robust"),
        "pymanopt CG": lambda limit: _pymanopt(arena, "CG", "Grassmann", full, limit),
    }
    return arena


def _centroid(n: int, sizes: Sizes) -> Arena:
    d = sizes.race_centroid[0]
    data = synthetic.spd(n, d)
    problem = rx.problems.Centroid(data)
    arena = Arena("", data, lambda: rx.problems.Centroid(data), np.asarray(problem.initial_point(0)))
    full = jax.jit(lambda x, data: SampleMean(problem.objective, 2000, data)(x)[0])

    def value(x: np.ndarray) -> float:
        with jax.enable_x64(True):
            return float(full(x, data))

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        return value(x), by_numpy.spd_gradient(x, data)

    arena.value, arena.optimum = value, float(problem.optimum)
    arena.contenders = {
        **_ours(arena, 5),
        "pymanopt CG": lambda limit: _pymanopt(arena, "CG", "SymmetricPositiveDefinite", both, limit),
        "pyRiemann": lambda limit: _mean_riemann(arena, limit),
    }
    return arena


def _joint(n: int, sizes: Sizes) -> Arena:
    d = sizes.race_joint[0]
    data = cases.nearly_diagonalizable(n, d)
    problem = rx.problems.JointDiagonalization(data)
    arena = Arena("", data, lambda: rx.problems.JointDiagonalization(data), np.asarray(problem.initial_point(0)))

    def full(x: np.ndarray) -> tuple[float, np.ndarray]:
        products = data @ x
        diagonals = np.sum(x * products, axis=-2)
        return -float(np.sum(diagonals**2)) / n, -4 * np.einsum("nk,ndk->dk", diagonals, products) / n

    arena.value, arena.optimum = (lambda x: full(x)[0]), float(problem.optimum)
    arena.contenders = {
        **_ours(arena, 20),
        "pymanopt CG": lambda limit: _pymanopt(arena, "CG", "Stiefel", full, limit),
    }
    return arena


# --- the contenders -------------------------------------------------------------------------------------------------


def _ours(arena: Arena, batch: int) -> dict[str, Callable[[float], Trace]]:
    return {
        "retrax, untuned": lambda limit: _retrax(arena, limit, batch),
        "retrax, untuned, rx.cache filled": lambda limit: _cached(arena, limit, batch),
    }


def _cached(arena: Arena, limit: float, batch: int) -> Trace:
    """As in the second process of a user who keeps compiled programs on disk."""
    with tempfile.TemporaryDirectory(prefix="retrax-bench-") as folder:
        rx.cache(folder)
        try:
            next(_retrax(arena, limit, batch), None)
            yield from _retrax(arena, limit, batch)
        finally:
            rx.cache(None)


def _retrax(arena: Arena, limit: float, batch: int) -> Trace:
    """Untuned RSRM as in a fresh process: what was compiled is forgotten, and what comes before its steps counts."""
    programs._kept.clear()
    jax.clear_caches()
    begin = time.perf_counter()
    problem = arena.problem()
    run = rx.Run(problem, rx.rsrm(), batch_size=batch, first_batch_size=20 * batch, seed=0, x0=arena.start)
    seconds, stretch = time.perf_counter() - begin, 200
    while seconds < limit:
        begin = time.perf_counter()
        run.advance(stretch)
        x = np.asarray(run.x)
        seconds += time.perf_counter() - begin
        yield seconds, arena.value(x)
        stretch = min(2 * stretch, 3200)


def _geoopt(arena: Arena, kind: str) -> dict[str, Callable[[float], Trace]]:
    """RSGD and RAdam with their best learning rates of a grid, found on this problem outside the clock."""
    try:
        import geoopt
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)

    def run(name: str, rate: float, limit: float) -> Trace:
        data = arena.data
        x = geoopt.ManifoldParameter(
            torch.from_numpy(arena.start.astype(data.dtype)), manifold=geoopt.Stiefel(canonical=False)
        )
        method = {"RSGD": geoopt.optim.RiemannianSGD, "RAdam": geoopt.optim.RiemannianAdam}[name]([x], rate)
        generator, seconds = np.random.default_rng(0), 0.0
        while seconds < limit:
            begin = time.perf_counter()
            for chosen in generator.integers(0, len(data), (50, 10)):
                batch = torch.from_numpy(np.asarray(data[chosen]))
                method.zero_grad()
                products = batch @ x
                if kind == "pca":
                    loss = -products.square().sum(-1).mean()
                else:
                    loss = (1 + (batch - products @ x.mT).square().sum(-1)).sqrt().mean()
                loss.backward()
                method.step()
            seconds += time.perf_counter() - begin
            yield seconds, arena.value(x.detach().numpy().astype(float))

    def best(name: str) -> float:
        if (kind, name, arena.start.shape) not in _chosen:
            goals = arena.goals()
            found = {rate: _times(run(name, rate, 1.5), goals, 1.5) for rate in RATES}
            key = lambda rate: [np.inf if s is None else s for s in reversed(found[rate])]  # noqa: E731
            _chosen[kind, name, arena.start.shape] = min(RATES, key=key)
        return _chosen[kind, name, arena.start.shape]

    return {f"geoopt {name}": lambda limit, name=name: run(name, best(name), limit) for name in ("RSGD", "RAdam")}


_chosen: dict[Any, float] = {}


def _pymanopt(
    arena: Arena, name: str, manifold: str, full: Callable[[np.ndarray], tuple[float, np.ndarray]], limit: float
) -> Trace:
    """CG or TR with full gradients; F is what it computes itself."""
    import pymanopt
    from pymanopt import manifolds, optimizers

    shape = arena.start.shape if manifold != "SymmetricPositiveDefinite" else arena.start.shape[:1]
    space = getattr(manifolds, manifold)(*shape)
    seen: list[tuple[float, float]] = []
    begin = time.perf_counter()
    memory: dict[bytes, tuple[float, np.ndarray]] = {}

    def in_time(x: np.ndarray) -> tuple[float, np.ndarray]:
        if time.perf_counter() - begin > limit:
            raise TimeoutError  # It looks at its clock between iterations only, which may be long.
        return full(x)

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        key = x.tobytes()
        if key not in memory:
            memory.clear()
            memory[key] = in_time(x)
        return memory[key]

    @pymanopt.function.numpy(space)
    def cost(x: np.ndarray) -> float:
        value = both(x)[0]
        seen.append((time.perf_counter() - begin, value))
        return value

    @pymanopt.function.numpy(space)
    def gradient(x: np.ndarray) -> np.ndarray:
        return both(x)[1]

    @pymanopt.function.numpy(space)
    def hessian(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return in_time(u)[1]  # F is a quadratic form in PCA, the only problem that TR is given

    if manifold == "SymmetricPositiveDefinite":
        problem = pymanopt.Problem(space, cost, riemannian_gradient=gradient)
    else:
        problem = pymanopt.Problem(space, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
    method = {"CG": optimizers.ConjugateGradient, "TR": optimizers.TrustRegions}[name]
    with contextlib.suppress(TimeoutError):
        method(verbosity=0, max_time=limit, max_iterations=300).run(problem, initial_point=arena.start)
    yield from seen


def _incremental(arena: Arena, limit: float) -> Trace:
    from sklearn.decomposition import IncrementalPCA

    d, r = arena.start.shape
    model, seconds = IncrementalPCA(r), 0.0
    for first in range(0, len(arena.data) - r, 5 * d):
        rows = arena.data[first : first + 5 * d]
        if len(rows) < r or seconds > limit:
            break
        begin = time.perf_counter()
        model.partial_fit(np.asarray(rows))
        seconds += time.perf_counter() - begin
        yield seconds, arena.value(model.components_.T.astype(float))


def _randomized(arena: Arena) -> Trace:
    from sklearn.utils.extmath import randomized_svd

    if isinstance(arena.data, np.memmap):
        raise MemoryError("wants its samples in memory")
    begin = time.perf_counter()
    _, _, right = randomized_svd(arena.data, arena.start.shape[1], random_state=0)
    yield time.perf_counter() - begin, arena.value(right.T.astype(float))


def _mean_riemann(arena: Arena, limit: float) -> Trace:
    try:
        from pyriemann.geometry.mean import mean_riemann
    except ImportError:
        from pyriemann.utils.mean import mean_riemann
    for iterations in range(1, 30):
        begin = time.perf_counter()
        x = mean_riemann(arena.data, init=arena.start, maxiter=iterations)
        seconds = time.perf_counter() - begin
        yield seconds, arena.value(x)
        if seconds > limit:
            break
