"""GeoJAX: its StochasticGradient solver as it comes, and its geometry in a compiled loop that a user could write."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases import Case
from benchmarks.timing import Run, timed


def _manifold(case: Case) -> Any:
    import geojax

    if case.kind == "centroid":
        return geojax.SPDAffineInvariant(case.data.shape[1:])
    return (geojax.Grassmann if case.kind == "pca" else geojax.StiefelEuclidean)(case.start.shape)


def _sample_loss(kind: str) -> Callable[[Any, Any], Any]:
    def centroid(x: Any, sample: Any) -> Any:
        inverse = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(x), jnp.eye(x.shape[0]), lower=True)
        return jnp.sum(jnp.log(jnp.linalg.eigvalsh(inverse @ sample @ inverse.T)) ** 2)

    if kind == "pca":
        return lambda x, sample: -jnp.sum((sample @ x) ** 2)
    if kind == "joint":
        return lambda x, sample: -jnp.sum(jnp.sum(x * (sample @ x), axis=0) ** 2)
    return centroid


def solver(case: Case, steps: int, batch: int) -> Run:
    """Seconds per iteration of StochasticGradient by its own log, without the full evaluation before the first."""
    from geojax.optimization import problems, stochasticgradient

    loss, manifold = _sample_loss(case.kind), _manifold(case)
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
            data = jnp.asarray(case.data[:200])
            problem = problems.FiniteSum(
                M=manifold, loss=lambda x, i: loss(x, data[i]), num_terms=len(data), x0=jnp.asarray(case.start)
            )
            _, _, log = method.solve(problem)
            return (log[-1].time - log[1].time) / (log[-1].iter - log[1].iter)

    return run


def compiled_loop(case: Case, steps: int, batch: int) -> Run:
    """RSGD from GeoJAX's `egrad_to_rgrad` and `retr`, in a compiled scan."""
    manifold, sample_loss = _manifold(case), _sample_loss(case.kind)
    loss = lambda x, samples: jnp.mean(jax.vmap(sample_loss, (None, 0))(x, samples))  # noqa: E731

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
