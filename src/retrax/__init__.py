"""Retrax: stochastic optimization on Riemannian manifolds."""

from typing import Any

from retrax import datasets, estimators, problems, scalings, schedules, step_sizes
from retrax._tree import pytree, static
from retrax.checkpoint import Checkpoint
from retrax.checks import check_gradient, check_retraction, check_transport
from retrax.manifolds import (
    SPD,
    Euclidean,
    FixedRank,
    GeneralizedStiefel,
    Grassmann,
    Lorentz,
    Manifold,
    Oblique,
    PoincareBall,
    Positive,
    Power,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
    validated,
)
from retrax.methods import (
    Method,
    crmsprop,
    csgd_m,
    radam,
    ramsgrad,
    rasa,
    rsgd,
    rspider,
    rsrg,
    rsrm,
    rsvrg,
)
from retrax.minimize import minimize
from retrax.problems import Problem
from retrax.recording import History, InterruptedRun, Record, Result, Status, TerminatedRun
from retrax.run import Run
from retrax.sources import Pushed, Stream
from retrax.sweep import Sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "SPD",
    "Checkpoint",
    "Euclidean",
    "FixedRank",
    "GeneralizedStiefel",
    "Grassmann",
    "History",
    "InterruptedRun",
    "Lorentz",
    "Manifold",
    "Method",
    "Oblique",
    "PoincareBall",
    "Positive",
    "Power",
    "Problem",
    "Product",
    "Pushed",
    "Record",
    "Result",
    "Run",
    "Simplex",
    "SpecialOrthogonal",
    "Sphere",
    "Status",
    "Stiefel",
    "Stream",
    "Sweep",
    "Symmetric",
    "TerminatedRun",
    "check_gradient",
    "check_retraction",
    "check_transport",
    "crmsprop",
    "csgd_m",
    "datasets",
    "estimators",
    "minimize",
    "problems",
    "pytree",
    "radam",
    "ramsgrad",
    "rasa",
    "rsgd",
    "rspider",
    "rsrg",
    "rsrm",
    "rsvrg",
    "scalings",
    "schedules",
    "static",
    "step_sizes",
    "sweep",
    "validated",
]


def __getattr__(name: str) -> Any:
    """`retrax.torch` on first use: PyTorch is optional, and slow to import."""
    if name == "torch":
        import importlib

        return importlib.import_module("retrax.torch")
    raise AttributeError(f"module 'retrax' has no attribute {name!r}")
