"""Problems: the general one, and the paper's three applications."""

from retrax.problems.base import Objective, Problem

__all__ = ["Objective", "Problem"]
