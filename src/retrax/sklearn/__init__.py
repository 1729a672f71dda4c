"""Estimators with the interface of scikit-learn: subspaces, means of covariances, sources, from data that may stream.

Small data are solved in plain NumPy, large data by Retrax's methods without a step size; `solver_` says which it was.
"""

from retrax._extras import optional

optional("sklearn")

from retrax.sklearn.cca import CCA  # noqa: E402
from retrax.sklearn.completion import MatrixCompletion  # noqa: E402
from retrax.sklearn.pca import PCA  # noqa: E402
from retrax.sklearn.separation import JADE, SOBI, JointDiagonalizer  # noqa: E402
from retrax.sklearn.spd import MinimumDistanceToMean, SPDMean, TangentSpace  # noqa: E402

__all__ = [
    "CCA",
    "JADE",
    "PCA",
    "SOBI",
    "JointDiagonalizer",
    "MatrixCompletion",
    "MinimumDistanceToMean",
    "SPDMean",
    "TangentSpace",
]
