"""The torch optimizers take the same steps as the JAX engine when they see the same batches.

RSRM on PCA against the compiled engine; the other combinations against its eager twin, which need not be compiled.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import retrax as rx
import retrax.torch
from retrax import sampling

SEED = 3


def data(n=300, d=20, seed=0):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((n, d)) * np.linspace(2.0, 0.3, d)


class Batches:
    """The batches that `rx.minimize(seed=SEED)` sees, as torch tensors."""

    def __init__(self, samples, batch_size, first_batch_size, restart_every=None):
        self.samples, self.batch_size, self.first = samples, batch_size, first_batch_size
        self.restart_every = restart_every
        self.drawn = 0

    def restarts_at(self, step):
        return step == 1 or (self.restart_every is not None and (step - 1) % self.restart_every == 0)

    def at(self, step):
        n = len(self.samples)
        if self.restarts_at(step):
            if self.first == n:
                return torch.from_numpy(self.samples)
            return torch.from_numpy(self.samples[sampling.large_batch_indices(SEED, step, self.first, n)])
        indices = sampling.batch_indices(SEED, self.drawn, self.batch_size, n)
        self.drawn += self.batch_size
        return torch.from_numpy(self.samples[indices])


def run_torch(make_optimizer, loss, start, batches, steps):
    parameter = torch.nn.Parameter(torch.from_numpy(np.array(start)))
    optimizer = make_optimizer(parameter)
    for step in range(1, steps + 1):
        batch = batches.at(step)

        def closure(batch=batch):
            optimizer.zero_grad()
            value = loss(parameter, batch)
            value.backward()
            return value

        optimizer.step(closure, restart=batches.restarts_at(step))
    return parameter.detach().numpy()


def pca_loss(x, batch):
    return -((batch @ x) ** 2).sum() / batch.shape[0]


def test_500_steps_of_rsrm_on_pca_equal_the_jax_engine():
    samples = data(n=1000, d=100)
    problem = rx.problems.PCA(samples, 10)
    start = problem.initial_point(SEED)
    result = rx.minimize(
        problem, rx.rsrm(0.05), steps=500, batch_size=5, first_batch_size=100, seed=SEED, x0=start, dtype="float64"
    )
    found = run_torch(
        lambda p: rx.torch.RSRM([{"params": [p], "manifold": problem.manifold}], lr=0.05),
        pca_loss,
        start,
        Batches(samples, 5, 100),
        500,
    )
    assert np.abs(start - found).max() > 0.1
    np.testing.assert_allclose(found, result.x, rtol=0, atol=1e-9)


def unbiased(method):
    return dataclasses.replace(method, scaling=dataclasses.replace(method.scaling, unbiased=True))


METHODS = {
    "RSGD": (rx.torch.RSGD, {}, lambda: rx.rsgd(0.02), None),
    "CSGDM": (rx.torch.CSGDM, {"momentum": 0.9}, lambda: rx.csgd_m(0.02, momentum=0.9), None),
    "CRMSProp": (rx.torch.CRMSProp, {"beta": 0.8}, lambda: unbiased(rx.crmsprop(0.02, beta=0.8)), None),
    "RAMSGrad": (rx.torch.RAMSGrad, {"beta": 0.9}, lambda: unbiased(rx.ramsgrad(0.02, momentum=0.9)), None),
    "RADAM": (rx.torch.RADAM, {}, lambda: unbiased(rx.radam(0.02)), None),
    "MARS": (rx.torch.MARS, {"gamma": 0.3}, lambda: rx.mars(0.02, gamma=0.3), None),
    "RASA": (rx.torch.RASA, {"sides": "R"}, lambda: rx.rasa(0.02, sides="R"), None),
    "RSRM": (rx.torch.RSRM, {"rho": 0.3}, lambda: rx.rsrm(0.02, rho=0.3), None),
    "RSVRG": (rx.torch.RSVRG, {}, lambda: rx.rsvrg(0.02, restart_every=20), 20),
    "RSRG": (rx.torch.RSRG, {}, lambda: rx.rsrg(0.02, restart_every=20), 20),
}
UNTUNED = {
    "RDoG": (rx.torch.RDoG, {"initial_distance": 0.1, "curvature": -0.5}, lambda: rx.rdog(0.1, -0.5)),
    "RDoWG": (rx.torch.RDoWG, {"initial_distance": 0.1}, lambda: rx.rdowg(0.1)),
    "NRDoG": (rx.torch.NRDoG, {"initial_distance": 0.1}, lambda: rx.nrdog(0.1)),
    "StormPlus": (rx.torch.StormPlus, {}, rx.storm_plus),
}
MANIFOLDS = {
    "grassmann": rx.Grassmann(20, 4, retraction="exp", transport="parallel"),
    "stiefel": rx.Stiefel(20, 4, transport="rotation"),
    "euclidean": rx.Euclidean(20, 4),
}


def weighted_loss(x, batch):
    """Not invariant under a change of basis, and bounded below without a constraint as well."""
    weights = np.linspace(1.0, 2.0, 4)
    if isinstance(x, torch.Tensor):
        weights = torch.from_numpy(weights)
    return ((batch @ x - weights) ** 2).sum() / batch.shape[0]


@pytest.mark.parametrize("manifold", MANIFOLDS.values(), ids=MANIFOLDS.keys())
@pytest.mark.parametrize("name", METHODS)
def test_every_optimizer_equals_the_eager_engine(name, manifold):
    optimizer, options, method, restart_every = METHODS[name]
    check_against_eager(manifold, optimizer, {"lr": 0.02, **options}, method(), restart_every)


@pytest.mark.parametrize("manifold", MANIFOLDS.values(), ids=MANIFOLDS.keys())
@pytest.mark.parametrize("name", UNTUNED)
def test_every_optimizer_without_a_rate_equals_the_eager_engine(name, manifold):
    optimizer, options, method = UNTUNED[name]
    check_against_eager(manifold, optimizer, options, method())


def check_against_eager(manifold, optimizer, options, method, restart_every=None):
    samples = data()
    problem = rx.Problem(lambda x, batch: jnp.asarray(weighted_loss(x, batch)), manifold, samples)
    start = rx.Stiefel(20, 4).random_point(np.random.default_rng(1).standard_normal((20, 4)))
    first = len(samples) if restart_every else 40
    result = rx.minimize(
        problem,
        method,
        steps=50,
        batch_size=5,
        first_batch_size=first,
        seed=SEED,
        x0=start,
        dtype="float64",
        driver="eager",
    )
    found = run_torch(
        lambda p: optimizer([{"params": [p], "manifold": manifold}], **options),
        weighted_loss,
        start,
        Batches(samples, 5, first, restart_every),
        50,
    )
    np.testing.assert_allclose(found, result.x, rtol=0, atol=1e-10)


def test_spd_and_sphere_equal_the_eager_engine():
    samples = data(d=6)
    cases = (
        (rx.SPD(6), lambda x, b: ((b @ x) ** 2).sum() / b.shape[0] - 5 * x.diagonal().sum(), np.eye(6)),
        (rx.Sphere(6, transport="parallel"), lambda x, b: ((b @ x) ** 2).sum() / b.shape[0], np.ones(6) / 6**0.5),
    )
    for manifold, loss, start in cases:
        result = rx.minimize(
            rx.Problem(loss, manifold, samples),
            rx.rsrm(0.01),
            steps=60,
            seed=SEED,
            x0=start,
            dtype="float64",
            driver="eager",
        )
        found = run_torch(
            lambda p, manifold=manifold: rx.torch.RSRM([{"params": [p], "manifold": manifold}], lr=0.01),
            loss,
            start,
            Batches(samples, 5, 100),
            60,
        )
        assert np.abs(found - start).max() > 1e-2
        np.testing.assert_allclose(found, result.x, rtol=0, atol=1e-10)
