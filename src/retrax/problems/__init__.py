"""Problems: the general one, the paper's three applications, and three more on other manifolds."""

from retrax.problems.base import Objective, Problem
from retrax.problems.cca import CCA
from retrax.problems.centroid import Centroid
from retrax.problems.embedding import Embedding
from retrax.problems.joint_diagonalization import JointDiagonalization
from retrax.problems.matrix_completion import MatrixCompletion
from retrax.problems.pca import PCA

__all__ = ["CCA", "PCA", "Centroid", "Embedding", "JointDiagonalization", "MatrixCompletion", "Objective", "Problem"]
