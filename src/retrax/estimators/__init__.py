"""Estimators of the gradient: from mini-batches to directions."""

from retrax.estimators.base import Estimate, Estimator
from retrax.estimators.momentum import Momentum
from retrax.estimators.plain import Plain
from retrax.estimators.recursive_momentum import RecursiveMomentum
from retrax.estimators.svrg import SVRG

__all__ = ["SVRG", "Estimate", "Estimator", "Momentum", "Plain", "RecursiveMomentum"]
