"""Retrax for PyTorch: the methods as `torch.optim` optimizers, on the same estimators, scalings and manifolds.

A parameter's manifold is an option of its group, `{"params": [weight], "manifold": rx.Stiefel(64, 16)}`; parameters
without one are Euclidean. Nothing here repeats a formula of the library.
"""

from retrax._extras import advice

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(f"retrax.torch needs PyTorch: {advice('torch', 'torch')}") from None

from retrax.torch.initial import orthogonal_, point_, positive_definite_, retract_, unit_
from retrax.torch.methods import (
    CSGDM,
    MARS,
    RADAM,
    RASA,
    RSGD,
    RSRG,
    RSRM,
    RSVRG,
    CRMSProp,
    NRDoG,
    RAMSGrad,
    RDoG,
    RDoWG,
    StormPlus,
)
from retrax.torch.optimizer import RiemannianOptimizer
from retrax.torch.parameters import violation

__all__ = [
    "CSGDM",
    "MARS",
    "RADAM",
    "RASA",
    "RSGD",
    "RSRG",
    "RSRM",
    "RSVRG",
    "CRMSProp",
    "NRDoG",
    "RAMSGrad",
    "RDoG",
    "RDoWG",
    "RiemannianOptimizer",
    "StormPlus",
    "orthogonal_",
    "point_",
    "positive_definite_",
    "retract_",
    "unit_",
    "violation",
]
