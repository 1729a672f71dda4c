"""Who races: each contender tells its points as it goes, on a clock of its own that begins with the call."""

import contextlib
import dataclasses
import functools
import importlib.util
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from benchmarks import machine
from benchmarks.arenas import Arena, Trace
from benchmarks.contenders import geojax_runs, geoopt_runs
from retrax import _programs as programs
from retrax.drivers import choosing

Racer = Callable[[Arena, float], Trace]
PASSES = ("pymanopt CG", "pymanopt TR", "randomized PCA", "pyRiemann")
"""Those that see all samples in every step."""
ONE_POINT_BATCH = 10
BETWEEN = 1.05
"""Points are told when the clock has gone on by this factor."""


def contenders(arena: Arena) -> dict[str, Racer]:
    """Those who can run on this problem, of the libraries that are installed."""
    geoopt_rsgd, geoopt_radam = (functools.partial(_geoopt, optimizer=name) for name in ("RSGD", "RAdam"))
    all_of_them: dict[str, tuple[str, str, Racer]] = {
        "retrax, untuned": ("", "retrax", _retrax),
        "retrax, untuned, rx.cache filled": ("", "retrax", _cached),
        "geoopt RSGD": ("", "geoopt", _tuned("geoopt RSGD", geoopt_rsgd)),
        "geoopt RAdam": ("", "geoopt", _tuned("geoopt RAdam", geoopt_radam)),
        "GeoJAX, its solver": ("", "geojax", _tuned("GeoJAX, its solver", _geojax_solver)),
        "GeoJAX in a compiled loop": ("", "geojax", _tuned("GeoJAX in a compiled loop", _geojax_loop)),
        "pymanopt CG": ("", "pymanopt", functools.partial(_pymanopt, name="ConjugateGradient")),
        "pymanopt TR": ("pca", "pymanopt", functools.partial(_pymanopt, name="TrustRegions")),
        "IncrementalPCA": ("pca", "sklearn", _incremental),
        "randomized PCA": ("pca", "sklearn", _randomized),
        "pyRiemann": ("centroid", "pyriemann", _mean_riemann),
    }
    return {
        name: racer
        for name, (kind, package, racer) in all_of_them.items()
        if kind in ("", arena.kind) and importlib.util.find_spec(package)
    }


def _tuned(name: str, run: Callable[[Arena, float, float], Trace]) -> Racer:
    """With its best learning rate; what was compiled while that was sought is forgotten."""

    def racer(arena: Arena, limit: float) -> Trace:
        trial = min(1.5, 0.3 * limit)
        if name not in arena.chosen:
            next(run(arena, arena.rates[-1], trial), None)  # compiles, which is no matter of the rate
        rate = arena.rate(name, lambda rate: run(arena, rate, trial), trial)
        jax.clear_caches()
        return run(arena, rate, limit)

    return racer


@contextlib.contextmanager
def _given_up_after(seconds: float) -> Iterator[None]:
    """Leave the block when its time is over: for calls without a clock of their own."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again: one that falls into a garbage collection is lost
    try:
        with contextlib.suppress(TimeoutError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _in_memory(data: np.ndarray, copies: int) -> np.ndarray:
    """The samples, for somebody who works on all of them at once and needs so many arrays of their size."""
    if copies * data.nbytes > 0.6 * machine.memory():
        raise MemoryError("it works on all samples at once, too many for this memory")
    return data


def _steps(step: Callable[[], None], point: Callable[[], np.ndarray], limit: float) -> Trace:
    seconds, due = 0.0, 0.0
    while seconds < limit:
        begin = time.perf_counter()
        step()
        seconds += time.perf_counter() - begin
        if seconds >= due:
            yield seconds, point()
            due = BETWEEN * seconds


def _cached(arena: Arena, limit: float) -> Trace:
    """As in the second process of a user who keeps compiled programs on disk."""
    with tempfile.TemporaryDirectory(prefix="retrax-bench-") as folder:
        rx.cache(folder)
        try:
            next(_retrax(dataclasses.replace(arena, seed=arena.seed + 1000), limit), None)
            yield from _retrax(arena, limit)
        finally:
            rx.cache(None)


def _retrax(arena: Arena, limit: float) -> Trace:
    """Untuned RSRM as in a fresh process: what was compiled is forgotten, and what comes before its steps counts."""
    programs.forget()
    choosing.forget()
    jax.clear_caches()
    begin = time.perf_counter()
    sizes = {"batch_size": arena.batch, "first_batch_size": 20 * arena.batch}
    run = rx.Run(arena.problem(arena.data), rx.rsrm(), **sizes, seed=arena.seed, x0=arena.start)
    seconds, stretch = time.perf_counter() - begin, 200
    while seconds < limit:
        begin = time.perf_counter()
        run.advance(stretch)
        x = np.asarray(run.x)
        seconds += time.perf_counter() - begin
        yield seconds, x
        stretch = min(2 * stretch, 3200)


def _geoopt(arena: Arena, rate: float, limit: float, optimizer: str) -> Trace:
    step, x = geoopt_runs.stepper(arena, optimizer, rate)
    generator = np.random.default_rng(arena.seed)

    def steps() -> None:
        for chosen in generator.integers(0, len(arena.data), (20, ONE_POINT_BATCH)):
            step(chosen)

    return _steps(steps, lambda: x.detach().numpy().copy(), limit)


def _geojax_loop(arena: Arena, rate: float, limit: float, steps: int = 200) -> Trace:
    """Its geometry in a compiled RSGD, with mini-batches gathered by NumPy: from an array or a file alike."""
    advance, generator = geojax_runs.advance(arena.kind, arena.start.shape), np.random.default_rng(arena.seed)
    state = [jnp.asarray(arena.start), 0]

    def stretch() -> None:
        batches = arena.data[generator.integers(0, len(arena.data), (steps, ONE_POINT_BATCH))]
        state[0] = jax.block_until_ready(advance(state[0], batches, np.float32(state[1]), np.float32(rate)))
        state[1] += steps

    return _steps(stretch, lambda: np.asarray(state[0]), limit)


def _geojax_solver(arena: Arena, rate: float, limit: float) -> Trace:
    """StochasticGradient as it comes, eager, which looks at all samples before its first step."""
    from geojax.optimization import stochasticgradient

    data = _in_memory(arena.data, 4)
    seen: list[tuple[float, Any]] = []

    def stop(problem: Any, x: Any, information: Any) -> tuple[bool, str]:
        seen.append((time.perf_counter() - begin, x))
        if seen[-1][0] > limit:
            raise TimeoutError  # An orderly end would be another look at all samples.
        return False, ""

    begin = time.perf_counter()
    method = stochasticgradient.StochasticGradient(
        batch_size=ONE_POINT_BATCH,
        step_schedule=stochasticgradient.PolynomialDecay(rate),
        evaluation_period=10**9,
        maxiter=10**9,
        tolgradnorm=-math.inf,
        verbosity=0,
        key=0,
        stopfun=stop,
    )
    with contextlib.suppress(TimeoutError):
        method.solve(geojax_runs.finite_sum(arena.kind, jnp.asarray(data), jnp.asarray(arena.start)))
    yield from seen


def _pymanopt(arena: Arena, limit: float, name: str) -> Trace:
    """CG or TR with full gradients."""
    import pymanopt
    from pymanopt import manifolds, optimizers

    if arena.kind == "centroid":
        space = manifolds.SymmetricPositiveDefinite(len(arena.start))
    else:
        space = (manifolds.Stiefel if arena.kind == "joint" else manifolds.Grassmann)(*arena.start.shape)
    seen: list[tuple[float, np.ndarray]] = []
    memory: dict[bytes, tuple[float, np.ndarray]] = {}
    begin = time.perf_counter()

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        key = x.tobytes()
        if key not in memory:
            memory.clear()
            memory[key] = arena.full(x)
        return memory[key]

    @pymanopt.function.numpy(space)
    def cost(x: np.ndarray) -> float:
        value = both(x)[0]
        seen.append((time.perf_counter() - begin, x.copy()))
        return value

    @pymanopt.function.numpy(space)
    def gradient(x: np.ndarray) -> np.ndarray:
        return both(x)[1]

    @pymanopt.function.numpy(space)
    def hessian(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return arena.full(u)[1]  # F is a quadratic form in PCA, the only problem that TR is given

    kind = "riemannian_gradient" if arena.kind == "centroid" else "euclidean_gradient"
    derivatives = {kind: gradient} | ({"euclidean_hessian": hessian} if arena.kind == "pca" else {})
    problem = pymanopt.Problem(space, cost, **derivatives)
    method = getattr(optimizers, name)(verbosity=0, max_time=limit, max_iterations=300)
    with _given_up_after(limit):  # It looks at its clock between iterations only, which may be long.
        method.run(problem, initial_point=arena.start.astype(float))
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
        yield seconds, model.components_.T


def _randomized(arena: Arena, limit: float) -> Trace:
    from sklearn.utils.extmath import randomized_svd

    data, found = _in_memory(arena.data, 1), []
    begin = time.perf_counter()
    with _given_up_after(limit):
        found.append(randomized_svd(data, arena.start.shape[1], random_state=0)[2].T)
    yield from ((time.perf_counter() - begin, x) for x in found)


def _mean_riemann(arena: Arena, limit: float) -> Trace:
    """It tells no points on its way: it is called anew with more and more iterations, each time from the start."""
    try:
        from pyriemann.geometry.mean import mean_riemann
    except ImportError:
        from pyriemann.utils.mean import mean_riemann

    data = _in_memory(arena.data, 4)
    for iterations in range(1, 30):
        found = []
        begin = time.perf_counter()
        with _given_up_after(limit):
            found.append(mean_riemann(data, init=arena.start, maxiter=iterations))
        if not found:
            break
        yield time.perf_counter() - begin, found[0]
