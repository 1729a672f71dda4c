"""Step sizes that look at what was measured; a schedule (`retrax.schedules`) is one that looks at t only."""

from retrax.step_sizes.base import StepSize
from retrax.step_sizes.distance import DistanceOverGradients
from retrax.step_sizes.secant import Secant
from retrax.step_sizes.storm_plus import CubeRoot

__all__ = ["CubeRoot", "DistanceOverGradients", "Secant", "StepSize"]
