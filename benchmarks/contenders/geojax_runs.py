"""GeoJAX: its StochasticGradient solver as it comes, and its geometry in a compiled loop that a user could write."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases import Case
from benchmarks.timing import Run, timed


def _manifold(kind: str, shape: tuple[int, ...]) -> Any:
    import geojax

    if kind == "centroid":
        return geojax.SPDAffineInvariant(shape)
    return (geojax.StiefelEuclidean if kind == "joint" else geojax.Grassmann)(shape)


def _sample_loss(kind: str) -> Callable[[Any, Any], Any]:
    def centroid(x: Any, sample: Any) -> Any:
        inverse = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(x), jnp.eye(x.shape[0]), lower=True)
        return jnp.sum(jnp.log(jnp.linalg.eigvalsh(inverse @ sample @ inverse.T)) ** 2)

    if kind == "robust":
        return lambda x, sample: jnp.sqrt(1 + jnp.sum((sample - x @ (sample @ x)) ** 2))
    if kind == "pca":
        return lambda x, sample: -jnp.sum((sample @ x) ** 2)
    if kind == "joint":
        return lambda x, sample: -jnp.sum(jnp.sum(x * (sample @ x), axis=0) ** 2)
    return centroid


def _mean_loss(kind: str) -> Callable[[Any, Any], Any]:
    return lambda x, samples: jnp.mean(jax.vmap(_sample_loss(kind), (None, 0))(x, samples))


def finite_sum(kind: str, data: Any, start: Any) -> Any:
    """The problem that its stochastic solver takes."""
    from geojax.optimization import problems

    loss, manifold = _sample_loss(kind), _manifold(kind, start.shape)
    return problems.FiniteSum(M=manifold, loss=lambda x, i: loss(x, data[i]), num_terms=len(data), x0=start)


def solver(case: Case, steps: int, batch: int) -> Run:
    """Seconds per iteration of StochasticGradient by its own log, without the full evaluation before the first."""
    from geojax.optimization import stochasticgradient

    method = stochasticgradient.StochasticGradient(
        batch_size=batch,
        step_schedule=stochasticgradient.PolynomialDecay(case.step_size, 1.0),
        evaluation_period=10**9,
        maxiter=steps,
        verbosity=0,
        tolgradnorm=-math.inf,
        key=0,
    )

    def run() -> float:
        with jax.enable_x64(True):
            # It evaluates all samples before and after, outside this clock: a part of them keeps that short.
            problem = finite_sum(case.kind, jnp.asarray(case.data[:200]), jnp.asarray(case.start))
            _, _, log = method.solve(problem)
            return (log[-1].time - log[1].time) / (log[-1].iter - log[1].iter)

    return run


def compiled_loop(case: Case, steps: int, batch: int) -> Run:
    """RSGD from GeoJAX's `egrad_to_rgrad` and `retr`, in a compiled scan."""
    manifold, loss = _manifold(case.kind, case.start.shape), _mean_loss(case.kind)

    @jax.jit
    def run(x: Any, data: Any, indices: Any) -> Any:
        def body(x: Any, now: Any) -> Any:
            t, chosen = now
            gradient = manifold.egrad_to_rgrad(x, jax.grad(loss)(x, data[chosen]))
            return manifold.retr(x, -case.step_size * t**-0.5 * gradient), None

        return jax.lax.scan(body, x, (jnp.arange(2, steps + 2, dtype=x.dtype), indices))[0]

    with jax.enable_x64(True):
        arguments = [jnp.asarray(a) for a in (case.start, case.data, case.indices(steps, batch))]

    def repetition() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(run(*arguments))

    return timed(repetition, steps)


@functools.cache
def advance(kind: str, shape: tuple[int, ...]) -> Callable[..., Any]:
    """RSGD over given mini-batches, compiled, with the decay that its solver has by default."""
    manifold, loss = _manifold(kind, shape), _mean_loss(kind)

    @jax.jit
    def run(x: Any, batches: Any, first: Any, rate: Any) -> Any:
        def body(x: Any, now: Any) -> Any:
            t, batch = now
            gradient = manifold.egrad_to_rgrad(x, jax.grad(loss)(x, batch))
            return manifold.retr(x, -rate * (1 + 0.01 * t) ** -0.5 * gradient), None

        times = first + jnp.arange(len(batches), dtype=x.dtype)
        return jax.lax.scan(body, x, (times, batches))[0]

    return run
