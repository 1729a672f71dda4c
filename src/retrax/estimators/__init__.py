"""Estimators of the gradient: from mini-batches to directions."""

from retrax.estimators.automatic_momentum import AutomaticMomentum
from retrax.estimators.base import Estimate, Estimator, EvaluatesAll, Memoryless
from retrax.estimators.momentum import Momentum
from retrax.estimators.one_gradient_momentum import OneGradientMomentum
from retrax.estimators.plain import Plain
from retrax.estimators.recursive_momentum import RecursiveMomentum
from retrax.estimators.storm_plus import StormPlus
from retrax.estimators.svrg import SVRG

__all__ = [
    "SVRG",
    "AutomaticMomentum",
    "Estimate",
    "Estimator",
    "EvaluatesAll",
    "Memoryless",
    "Momentum",
    "OneGradientMomentum",
    "Plain",
    "RecursiveMomentum",
    "StormPlus",
]
