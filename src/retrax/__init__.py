"""Retrax: stochastic optimization on Riemannian manifolds.

Importing it takes milliseconds: JAX, and what is built on it, is loaded when a name is first used.
"""

# ruff: noqa: F405  (the names of __all__ are in _public)
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrax import datasets, estimators, problems, scalings, schedules, step_sizes
    from retrax._public import *  # noqa: F403

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
    "Rotations",
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
    "cache",
    "check_gradient",
    "check_retraction",
    "check_transport",
    "crmsprop",
    "csgd_m",
    "datasets",
    "estimators",
    "mars",
    "minimize",
    "nrdog",
    "problems",
    "pytree",
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
    "scalings",
    "schedules",
    "static",
    "step_sizes",
    "storm_plus",
    "sweep",
    "validated",
]

_FOLDERS = frozenset(
    {
        *("datasets", "estimators", "optax", "problems", "scalings", "schedules", "sklearn", "step_sizes", "torch"),
        "trackers",
    }
)


def __getattr__(name: str) -> Any:
    """A public name on first use."""
    if name in _FOLDERS:
        return importlib.import_module(f"retrax.{name}")
    if name in __all__:
        public = importlib.import_module("retrax._public")
        globals().update({one: getattr(public, one) for one in set(__all__) - _FOLDERS})
        return globals()[name]
    raise AttributeError(f"module 'retrax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
