"""Retrax: stochastic optimization on Riemannian manifolds."""

from retrax import estimators, problems, scalings, schedules
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
from retrax.recording import History, Record, Result, Status
from retrax.sweep import Sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "SPD",
    "Euclidean",
    "Grassmann",
    "History",
    "Manifold",
    "Method",
    "Problem",
    "Product",
    "Record",
    "Result",
    "Sphere",
    "Status",
    "Stiefel",
    "Sweep",
    "crmsprop",
    "csgd_m",
    "estimators",
    "minimize",
    "problems",
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
    "sweep",
]
