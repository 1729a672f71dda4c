"""Retrax inside an optax loop: each method as a `GradientTransformationExtraArgs`, with a manifold for each leaf.

    optimizer = retrax.optax.rsgd(0.1, manifolds={"frame": rx.Stiefel(64, 16)})
    state = optimizer.init(params)
    updates, state = optimizer.update(gradients, state, params)
    params = optax.apply_updates(params, updates)

Leaves that `manifolds` does not name are Euclidean. Two-point methods (`rsrm`, `rsvrg`, `rsrg`, `storm_plus`) also take
`gradient_fn=`, the gradient of the same batch as a function of the parameters.
"""

from retrax._extras import advice

try:
    import optax as _optax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "optax":
        raise
    raise ImportError(f"retrax.optax needs optax: {advice('optax', 'optax')}") from None

from retrax.optax.methods import (
    crmsprop,
    csgd_m,
    mars,
    nrdog,
    radam,
    ramsgrad,
    rasa,
    rdog,
    rdowg,
    rsgd,
    rspider,
    rsrg,
    rsrm,
    rsvrg,
    storm_plus,
)
from retrax.optax.transformation import RiemannianState, Transformation, transform

__all__ = [
    "RiemannianState",
    "Transformation",
    "crmsprop",
    "csgd_m",
    "mars",
    "nrdog",
    "radam",
    "ramsgrad",
    "rasa",
    "rdog",
    "rdowg",
    "rsgd",
    "rspider",
    "rsrg",
    "rsrm",
    "rsvrg",
    "storm_plus",
    "transform",
]
