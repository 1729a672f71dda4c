"""Tiny problems: each is a Retrax problem and, beside it, the same loss and ambient gradient in plain NumPy."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from retrax import sampling

from . import hand_computed
from .hand_computed import Batches, Geometry

SAMPLES = 7


def pca_loss(x, batch):
    """Minus the mean of ‖xᵀs‖²; x is a vector or a matrix with orthonormal columns."""
    return -jnp.mean(jnp.sum((batch @ x).reshape(batch.shape[0], -1) ** 2, axis=-1))


def pca_gradient(x, samples):
    return -2 / len(samples) * samples.T @ (samples @ x)


def least_squares_loss(x, batch):
    features, targets = batch
    return jnp.mean((features @ x - targets) ** 2) / 2


def least_squares_gradient(x, samples):
    features, targets = samples
    return features.T @ (features @ x - targets) / len(targets)


def spd_loss(x, batch):
    """Minus the log-likelihood of a covariance x: mean tr(A x⁻¹) + log det x."""
    return jnp.mean(jnp.trace(batch @ jnp.linalg.inv(x), axis1=-2, axis2=-1)) + jnp.linalg.slogdet(x)[1]


def spd_gradient(x, samples):
    inverse = np.linalg.inv(x)
    return inverse - inverse @ samples.mean(0) @ inverse


MATRIX_MANIFOLDS = {
    "stiefel qr projection": rx.Stiefel(4, 2),
    "stiefel polar rotation": rx.Stiefel(4, 2, retraction="polar", transport="rotation"),
    "stiefel cayley rotation": rx.Stiefel(4, 2, retraction="cayley", transport="rotation"),
    "grassmann polar projection": rx.Grassmann(4, 2),
    "grassmann qr parallel": rx.Grassmann(4, 2, retraction="qr", transport="parallel"),
    "grassmann exp parallel": rx.Grassmann(4, 2, retraction="exp", transport="parallel"),
    "spd exp parallel": rx.SPD(2),
    "spd second-order parallel": rx.SPD(2, retraction="second-order"),
}
VECTOR_MANIFOLDS = {
    "euclidean": rx.Euclidean(4),
    "sphere normalise projection": rx.Sphere(4),
    "sphere exp parallel": rx.Sphere(4, retraction="exp", transport="parallel"),
}
MANIFOLDS = VECTOR_MANIFOLDS | MATRIX_MANIFOLDS


@dataclasses.dataclass(frozen=True)
class Case:
    """A problem, where to start, and the same in plain NumPy."""

    problem: rx.Problem
    x0: Any
    geometry: Geometry
    ambient_gradient: Callable[..., Any]

    def gradient(self, x, indices):
        """The Riemannian mini-batch gradient, by hand."""
        samples = jax.tree.map(lambda a: a[indices], self.problem.data)
        return self.geometry.gradient(x, self.ambient_gradient(x, samples))

    def loss(self, x):
        with jax.enable_x64(True):
            return float(self.problem.objective.loss(x, self.problem.data))


def case(name: str) -> Case:
    """The tiny problem on the manifold of that name."""
    rng = np.random.default_rng(20210819)
    manifold, geometry = MANIFOLDS[name], hand_computed.GEOMETRIES[name]
    samples = rng.standard_normal((SAMPLES, 4)) * np.array([1.5, 1.2, 0.8, 0.5])
    if name == "euclidean":
        targets = rng.standard_normal(SAMPLES)
        problem = rx.Problem(least_squares_loss, manifold, (samples, targets))
        return Case(problem, rng.standard_normal(4), geometry, least_squares_gradient)
    if name.startswith("spd"):
        roots = rng.standard_normal((SAMPLES, 2, 3))
        problem = rx.Problem(spd_loss, manifold, roots @ roots.swapaxes(1, 2) / 3)
        return Case(problem, np.array([[2.0, 0.3], [0.3, 1.0]]), geometry, spd_gradient)
    start = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    x0 = start[:, 0] if name.startswith("sphere") else start
    return Case(rx.Problem(pca_loss, manifold, samples), x0, geometry, pca_gradient)


def batches(
    n: int,
    *,
    seed: int,
    steps: int,
    batch_size: int | Callable[[int], int],
    first_batch_size: int,
    restart_every: int | None = None,
) -> Batches:
    """The samples of each step, in the order in which a run draws them."""
    result: Batches = []
    drawn = 0
    for t in range(1, steps + 1):
        if t == 1 or (restart_every is not None and (t - 1) % restart_every == 0):
            everything = first_batch_size == n
            chosen = np.arange(n) if everything else sampling.large_batch_indices(seed, t, first_batch_size, n)
            result.append((True, chosen))
        else:
            size = batch_size(t) if callable(batch_size) else batch_size
            result.append((False, sampling.batch_indices(seed, drawn, size, n)))
            drawn += size
    return result


# --- every method: Retrax's and the one by hand ---------------------------------------------------------------

ETA, RHO, MOMENTUM, BETA, EPSILON, EVERY = 0.2, 0.6, 0.7, 0.6, 1e-3, 3
DISTANCE, CURVATURE = 0.15, -0.5
"""Unlike the defaults, so that a swapped or forgotten one shows."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """A method of Retrax, and the same by hand: (geometry, grad, x, batches) -> points, directions."""

    method: rx.Method
    by_hand: Callable[..., Any]

    @property
    def restart_every(self) -> int | None:
        return self.method.restart_every


def _falling(t):
    return ETA / np.sqrt(t)


def _constant(t):
    return ETA


def _by(function, eta, **numbers):
    return lambda *args: function(*args, eta, **numbers)


_ADAM = {"momentum": MOMENTUM, "beta": BETA, "epsilon": EPSILON}
_RASA = {"beta": BETA, "epsilon": EPSILON}


def _dog(**variant):
    return lambda *args: hand_computed.rdog(*args, DISTANCE, CURVATURE, **variant)


PAIRS = {
    "rsgd": Pair(rx.rsgd(ETA), _by(hand_computed.rsgd, _falling)),
    "csgd_m": Pair(rx.csgd_m(ETA, MOMENTUM), _by(hand_computed.csgd_m, _falling, momentum=MOMENTUM)),
    "crmsprop": Pair(rx.crmsprop(ETA, BETA, EPSILON), _by(hand_computed.crmsprop, _falling, **_RASA)),
    "ramsgrad": Pair(rx.ramsgrad(ETA, MOMENTUM, BETA, EPSILON), _by(hand_computed.ramsgrad, _falling, **_ADAM)),
    "radam": Pair(
        rx.radam(ETA, MOMENTUM, BETA, EPSILON), _by(hand_computed.ramsgrad, _falling, **_ADAM, maximum=False)
    ),
    "rasa-L": Pair(rx.rasa(ETA, "L", BETA, EPSILON), _by(hand_computed.rasa, _falling, sides="L", **_RASA)),
    "rasa-R": Pair(rx.rasa(ETA, "R", BETA, EPSILON), _by(hand_computed.rasa, _falling, sides="R", **_RASA)),
    "rasa-LR": Pair(rx.rasa(ETA, "LR", BETA, EPSILON), _by(hand_computed.rasa, _falling, sides="LR", **_RASA)),
    "rsrm": Pair(
        rx.rsrm(ETA, RHO),
        _by(hand_computed.rsrm, lambda t: ETA * t ** (-1 / 3), rho=lambda t: RHO * t ** (-2 / 3)),
    ),
    "rsvrg": Pair(rx.rsvrg(ETA, restart_every=EVERY), _by(hand_computed.rsvrg, _constant)),
    "rsrg": Pair(rx.rsrg(ETA, restart_every=EVERY), _by(hand_computed.rsrm, _constant, rho=lambda t: 0)),
    "rspider": Pair(
        rx.rspider(ETA, restart_every=EVERY),
        _by(hand_computed.rsrm, _constant, rho=lambda t: 0, normalised=True),
    ),
    "rdog": Pair(rx.rdog(DISTANCE, CURVATURE), _dog()),
    "rdowg": Pair(rx.rdowg(DISTANCE, CURVATURE), _dog(weighted=True)),
    "nrdog": Pair(rx.nrdog(DISTANCE, CURVATURE), _dog(normalised=True)),
    "storm_plus": Pair(rx.storm_plus(), hand_computed.storm_plus),
}
METHODS = {name: pair.method for name, pair in PAIRS.items()}


# --- a product of everything ----------------------------------------------------------------------------------


def _product_loss(x, batch):
    scores = batch @ x["frame"] * x["weight"]
    return (
        jnp.mean((jnp.sum(scores, axis=-1) + batch @ x["nested"][0] - 1) ** 2)
        + pca_loss(x["subspace"], batch)
        + jnp.mean(jnp.sum((batch[:, :2] @ x["nested"][1]) * batch[:, :2], axis=-1))
        - jnp.linalg.slogdet(x["nested"][1])[1]
    )


def product_problem() -> rx.Problem:
    """A dict with a nested tuple: Stiefel, Euclidean, Grassmann, Sphere and SPD."""
    manifold = rx.Product(
        {
            "frame": rx.Stiefel(4, 2, transport="rotation"),
            "weight": rx.Euclidean(2),
            "subspace": rx.Grassmann(4, 2, transport="parallel"),
            "nested": (rx.Sphere(4), rx.SPD(2)),
        }
    )
    samples = np.random.default_rng(3).standard_normal((SAMPLES, 4))
    return rx.Problem(_product_loss, manifold, samples)


def _matrices_loss(x, batch):
    subspace, (frame, shape) = x
    quadratic = jnp.mean(jnp.sum((batch[:, :2] @ shape) * batch[:, :2], axis=-1)) - jnp.linalg.slogdet(shape)[1]
    return pca_loss(subspace, batch) + pca_loss(frame, batch) + jnp.sum((subspace.mT @ frame) ** 2) + quadratic


def product_of_matrices() -> rx.Problem:
    """Grassmann, Stiefel and SPD: matrices only, as RASA needs them."""
    manifold = rx.Product((rx.Grassmann(4, 2, transport="parallel"), (rx.Stiefel(4, 2), rx.SPD(2))))
    samples = np.random.default_rng(4).standard_normal((SAMPLES, 4))
    return rx.Problem(_matrices_loss, manifold, samples)
