"""JAX as a user would write it: a `lax.scan` of the formulas.

Grassmann and Stiefel: two autodiff gradients a step and `jnp.linalg.qr`; SPD: one `eigh` per matrix function.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.cases import Case
from benchmarks.timing import Run, timed

Step = Callable[[Any, Any, Any, Any, Any, Any], Any]


def rsrm(case: Case, steps: int, batch: int) -> Run:
    """RSRM; Grassmann and Stiefel by QR and projection, SPD by exponential map and parallel transport."""
    step = _spd_step if case.kind == "centroid" else _orthonormal_step(case.kind)

    @jax.jit
    def run(x: Any, data: Any, indices: Any) -> Any:
        def body(carry: Any, now: Any) -> Any:
            t, chosen = now
            eta, rho = case.step_size * t ** (-1 / 3), 0.1 * t ** (-2 / 3)
            return step(*carry, data[chosen], eta, rho), None

        times = jnp.arange(2, steps + 2, dtype=x.dtype)
        return jax.lax.scan(body, (x, x, jnp.zeros_like(x)), (times, indices))[0]

    with jax.enable_x64(True):
        arguments = [jnp.asarray(a) for a in (case.start, case.data, case.indices(steps, batch))]

    def repetition() -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(run(*arguments))

    return timed(repetition, steps)


def _loss(kind: str) -> Callable[[Any, Any], Any]:
    if kind == "pca":
        return lambda x, batch: -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))
    return lambda x, batch: -jnp.mean(jnp.sum(jnp.einsum("dk,ndk->nk", x, batch @ x) ** 2, axis=-1))


def _orthonormal_step(kind: str) -> Step:
    loss = _loss(kind)

    def project(x: Any, z: Any) -> Any:
        product = x.T @ z
        return z - x @ (product if kind == "pca" else (product + product.T) / 2)

    def step(x: Any, previous: Any, direction: Any, batch: Any, eta: Any, rho: Any) -> Any:
        gradient = project(x, jax.grad(loss)(x, batch))
        previous_gradient = project(previous, jax.grad(loss)(previous, batch))
        direction = gradient + (1 - rho) * project(x, direction - previous_gradient)
        q, r = jnp.linalg.qr(x - eta * direction)
        return q * jnp.sign(jnp.diagonal(r)), x, direction

    return step


def _function(function: Callable[[Any], Any], a: Any) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return (vectors * function(values)[..., None, :]) @ vectors.mT


def _roots(x: Any) -> tuple[Any, Any]:
    return _function(jnp.sqrt, x), _function(lambda w: w**-0.5, x)


def _spd_gradient(x: Any, batch: Any) -> Any:
    root, inverse = _roots(x)
    return -2 * root @ jnp.mean(_function(jnp.log, inverse @ batch @ inverse), axis=0) @ root


def _spd_step(x: Any, previous: Any, direction: Any, batch: Any, eta: Any, rho: Any) -> Any:
    root, inverse = _roots(previous)
    transport = root @ _function(jnp.sqrt, inverse @ x @ inverse) @ inverse
    carried = transport @ (direction - _spd_gradient(previous, batch)) @ transport.T
    direction = _spd_gradient(x, batch) + (1 - rho) * carried
    root, inverse = _roots(x)
    return root @ _function(jnp.exp, inverse @ (-eta * direction) @ inverse) @ root, x, direction
