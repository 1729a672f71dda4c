"""One problem in several ways: double and single precision, without a step size, and with a user's own loss."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

import retrax as rx
from benchmarks import cases, timing
from benchmarks.cases import Case
from benchmarks.contenders import by_c, retrax_runs
from benchmarks.sizes import Sizes
from benchmarks.timing import Contender

READY, SINGLE, UNTUNED, OWN = "ready-made, rsrm(η₀)", "float32", "untuned, rsrm()", "own loss"


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """One table for each problem; the first row is what the others are compared with."""
    makers = [lambda d=d: (cases.pca(d, sizes.rank, sizes.samples), _pca_loss) for d in sizes.variant_dimensions]
    makers += [lambda: (cases.joint_diagonalization(*sizes.variant_joint), _joint_loss)]
    makers += [lambda d=d: (cases.centroid(d, min(sizes.samples, 2000)), _centroid_loss) for d in sizes.variant_spd]
    results = {}
    for make in makers:
        case, loss = make()
        say(f"variants: {case.label}")
        results[case.label] = timing.measure(_contenders(case, loss, sizes), sizes.repetitions, say)
    return results


def _contenders(case: Case, loss: Any, sizes: Sizes) -> list[Contender]:
    heavy = case.start.size > 1500
    steps = max(sizes.compiled_steps // (10 if heavy else 2), 20)
    own = Case(case.kind, case.label, case.data, rx.Problem(loss, case.problem.manifold, case.data), case.step_size)
    method, untuned = rx.rsrm(case.step_size), rx.rsrm()

    def runs(case: Case, method: rx.Method, dtype: str = "float64") -> Callable[[], timing.Run]:
        return lambda: retrax_runs.minimize(case, method, 5, steps, dtype)

    found = [
        Contender(READY, runs(case, method), "float64", True),
        Contender(SINGLE, runs(case, method, "float32"), "the same in single precision"),
        Contender(UNTUNED, runs(case, untuned), ""),
        Contender(OWN, runs(own, method), "gradient by autodiff"),
        Contender(f"{OWN}, float32", runs(own, method, "float32"), ""),
    ]
    if case.kind == "pca":
        found.append(Contender("C, RSRM, polar", lambda: by_c.rsrm(case, steps, 5), ""))
    return found


def _pca_loss(x: Any, batch: Any) -> Any:
    return -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))


def _joint_loss(x: Any, batch: Any) -> Any:
    return -jnp.mean(jnp.sum(jnp.sum(x * (batch @ x), axis=-2) ** 2, axis=-1))


def _centroid_loss(x: Any, batch: Any) -> Any:
    return jnp.mean(rx.SPD(x.shape[-1]).distance(x, batch) ** 2)
