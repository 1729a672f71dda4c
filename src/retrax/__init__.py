"""Retrax: stochastic optimization on Riemannian manifolds."""

from typing import Any

from retrax import datasets, estimators, problems, scalings, schedules, step_sizes
from retrax._tree import pytree, static
from retrax.checkpoint import Checkpoint
from retrax.checks import check_gradient, check_retraction, check_transport
from retrax.manifolds import SPD, Euclidean, Grassmann, Manifold, Product, Sphere, Stiefel
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
    "Grassmann",
    "History",
    "InterruptedRun",
    "Manifold",
    "Method",
    "Problem",
    "Product",
    "Pushed",
    "Record",
    "Result",
    "Run",
    "Sphere",
    "Status",
    "Stiefel",
    "Stream",
    "Sweep",
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
]


def __getattr__(name: str) -> Any:
    """`retrax.torch` on first use: PyTorch is optional, and slow to import."""
    if name == "torch":
        import importlib

        return importlib.import_module("retrax.torch")
    raise AttributeError(f"module 'retrax' has no attribute {name!r}")
