"""Scalings: how a direction is reshaped before the step."""

from retrax.scalings.amsgrad import AMSGrad
from retrax.scalings.base import Scaling
from retrax.scalings.coordinatewise import Coordinatewise
from retrax.scalings.identity import Identity, Normalised
from retrax.scalings.per_factor import PerFactor
from retrax.scalings.rasa import RASA
from retrax.scalings.weight_decay import WeightDecay

__all__ = ["RASA", "AMSGrad", "Coordinatewise", "Identity", "Normalised", "PerFactor", "Scaling", "WeightDecay"]
