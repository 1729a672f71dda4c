"""Retrax: stochastic optimization on Riemannian manifolds.

Importing it takes milliseconds: JAX, and what is built on it, is loaded when a name is first used.
"""

# ruff: noqa: F405  (the names of __all__ are in _public)
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrax import datasets, estimators, problems, scalings, schedules, step_sizes
    from retrax._public import *  # noqa: F403

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

_FOLDERS = frozenset({"datasets", "estimators", "problems", "scalings", "schedules", "step_sizes", "torch"})


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


class _Package(ModuleType):
    """Keeps `retrax.minimize` and `retrax.sweep` functions when the modules of these names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and name not in _FOLDERS and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
