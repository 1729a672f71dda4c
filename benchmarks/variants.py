"""One problem in several ways: in both precisions, without a step size, by every method, with a user's own loss."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

import retrax as rx
from benchmarks import cases, timing
from benchmarks.cases import Case
from benchmarks.contenders import by_c, retrax_runs
from benchmarks.sizes import Sizes
from benchmarks.timing import Contender
from retrax.drivers import trial

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
    for label, contenders in _losses_in_one_kernel(sizes).items():
        say(f"variants: {label}")
        results[label] = timing.measure(contenders, sizes.repetitions, say)
    return results


def _contenders(case: Case, loss: Any, sizes: Sizes) -> list[Contender]:
    # A run also starts and draws a first batch, some milliseconds: steps enough to leave that behind.
    steps = max(sizes.compiled_steps // 2, 20)
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
        found += [
            Contender(method.name, lambda method=method: retrax_runs.minimize(case, method, 10, steps), "batches of 10")
            for method in _one_point_methods(case.step_size)
        ]
    return found


def _one_point_methods(step_size: float) -> list[rx.Method]:
    scaled = [rx.crmsprop(1e-3), rx.ramsgrad(1e-2), *(rx.rasa(1e-3, sides=sides) for sides in ("L", "R", "LR"))]
    return [rx.rsgd(step_size), *scaled, rx.rdog()]


def _losses_in_one_kernel(sizes: Sizes) -> dict[str, list[Contender]]:
    """Users' small losses, which another process compiles into one kernel, beside the ordinary form of their loops."""
    samples = np.random.default_rng(0).standard_normal((sizes.samples, 20)) * np.sqrt(np.arange(1.0, 21.0))
    pair = rx.Product((rx.Grassmann(20, 2), rx.Euclidean(20)))
    losses: dict[str, tuple[rx.Manifold, Callable[[Any, Any], Any]]] = {
        "a user's loss on the sphere in R²⁰": (rx.Sphere(20), _logistic),
        "a user's loss on St(20,3)": (rx.Stiefel(20, 3), _robust),
        "a user's loss on Gr(20,2) × R²⁰": (pair, lambda x, batch: _robust(x[0], batch - x[1])),
    }
    return {label: _with_and_without(label, *given, samples, sizes) for label, given in losses.items()}


def _with_and_without(label: str, manifold: rx.Manifold, loss: Any, data: Any, sizes: Sizes) -> list[Contender]:
    def case() -> Case:  # A function of its own for each, so that each has a program of its own.
        return Case("own", label, data, rx.Problem(lambda x, batch: loss(x, batch), manifold, data), 0.01)

    def ordinary(method: rx.Method) -> timing.Run:
        run = in_kernel(method)

        def without_trial() -> float:
            with mock.patch.object(trial, "is_possible", return_value=False):
                return run()

        return without_trial

    def in_kernel(method: rx.Method) -> timing.Run:
        return retrax_runs.minimize(case(), method, 5, sizes.compiled_steps)

    found = []
    for name, method in (("rsrm(η₀)", rx.rsrm(0.01)), ("rsrm()", rx.rsrm()), ("rsgd(η₀)", rx.rsgd(0.01))):
        found += [
            Contender(f"{name}, ordinary form", lambda method=method: ordinary(method), "", not found),
            Contender(f"{name}, one kernel", lambda method=method: in_kernel(method), ""),
        ]
    return found


def _logistic(x: Any, batch: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0.0, -batch @ x))


def _robust(x: Any, batch: Any) -> Any:
    return jnp.mean(jnp.log1p(jnp.sum((batch - (batch @ x) @ x.T) ** 2, axis=-1)))


def _pca_loss(x: Any, batch: Any) -> Any:
    return -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))


def _joint_loss(x: Any, batch: Any) -> Any:
    return -jnp.mean(jnp.sum(jnp.sum(x * (batch @ x), axis=-2) ** 2, axis=-1))


def _centroid_loss(x: Any, batch: Any) -> Any:
    return jnp.mean(rx.SPD(x.shape[-1]).distance(x, batch) ** 2)
