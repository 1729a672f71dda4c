"""Step sizes that look at what was measured; a schedule (`retrax.schedules`) is one that looks at t only."""

from retrax.step_sizes.base import StepSize
from retrax.step_sizes.secant import Secant

__all__ = ["Secant", "StepSize"]
