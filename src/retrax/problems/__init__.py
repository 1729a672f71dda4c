"""Problems: the general one, and the paper's three applications."""

from retrax.problems.base import Objective, Problem
from retrax.problems.centroid import Centroid
from retrax.problems.joint_diagonalization import JointDiagonalization
from retrax.problems.pca import PCA

__all__ = ["PCA", "Centroid", "JointDiagonalization", "Objective", "Problem"]
