"""Every method on every manifold: none refuses one, and each goes downhill and stays on it."""

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

LOG, BURES = "log-euclidean", "bures-wasserstein"
MANIFOLDS = [
    rx.Euclidean(4),
    rx.Sphere(4),
    rx.Oblique(4, 3),
    rx.Stiefel(4, 2),
    rx.GeneralizedStiefel(4, 2),
    rx.Grassmann(4, 2),
    rx.SpecialOrthogonal(3),
    rx.FixedRank(4, 3, 2),
    rx.SPD(3),
    rx.SPD(3, metric=LOG),
    rx.SPD(3, metric=BURES),
    rx.Symmetric(3),
    rx.Positive(4),
    rx.Simplex(4),
    rx.PoincareBall(3),
    rx.Lorentz(3),
    rx.Power(rx.Sphere(3), 4),
]
METHODS = {
    "rsgd": rx.rsgd(0.02),
    "csgd_m": rx.csgd_m(0.02),
    "crmsprop": rx.crmsprop(0.01),
    "ramsgrad": rx.ramsgrad(0.01),
    "radam": rx.radam(0.01),
    "rasa-L": rx.rasa(0.01, "L"),
    "rasa-R": rx.rasa(0.01, "R"),
    "rasa-LR": rx.rasa(0.01),
    "rsrm": rx.rsrm(0.02),
    "rsrm, untuned": rx.rsrm(),
    "mars": rx.mars(0.02),
    "rsvrg": rx.rsvrg(0.02),
    "rsrg": rx.rsrg(0.02),
    "rspider": rx.rspider(0.01),
    "rdog": rx.rdog(1e-3),
    "rdowg": rx.rdowg(1e-3),
    "nrdog": rx.nrdog(1e-3),
    "storm_plus": rx.storm_plus(),
}


def problem_on(manifold):
    """The mean of ‖X - z‖²/2 over samples z around one point, from another; X is the matrix that a point stands for."""
    rng = np.random.default_rng(5)
    start, target = manifold.random_point(rng.standard_normal((2, *manifold.ambient_shape)))
    if isinstance(manifold, rx.FixedRank):
        dense = manifold.matrix
    elif isinstance(manifold, rx.GeneralizedStiefel):
        dense = manifold.frame_of
    elif isinstance(manifold, rx.Grassmann):  # a function of the subspace, not of its basis
        dense = lambda x: x @ x.mT  # noqa: E731
    else:
        dense = lambda x: x  # noqa: E731
    centre = np.asarray(dense(target))
    samples = centre + 0.1 * rng.standard_normal((20, *centre.shape))

    def loss(x, batch):
        return 0.5 * jnp.sum((dense(x) - batch) ** 2) / batch.shape[0]

    return rx.Problem(loss, manifold, samples), start


@pytest.mark.slow
@pytest.mark.parametrize("manifold", MANIFOLDS, ids=str)
def test_every_method_goes_downhill(manifold):
    problem, start = problem_on(manifold)
    for name, method in METHODS.items():
        result = rx.minimize(problem, method, steps=30, batch_size=5, x0=start, seed=1, record=30, driver="eager")
        losses = result.history["loss"]
        assert losses[-1] < losses[0], name
        assert result.history["violation"].max() < 1e-12, name
