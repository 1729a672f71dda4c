"""The manifolds. `base.py` states the protocol and its laws; each other file is one manifold."""

from retrax.manifolds.base import Manifold
from retrax.manifolds.euclidean import Euclidean
from retrax.manifolds.fixed_rank import FixedRank
from retrax.manifolds.generalized_stiefel import GeneralizedStiefel
from retrax.manifolds.grassmann import Grassmann
from retrax.manifolds.lorentz import Lorentz
from retrax.manifolds.oblique import Oblique
from retrax.manifolds.poincare import PoincareBall
from retrax.manifolds.positive import Positive
from retrax.manifolds.power import Power
from retrax.manifolds.product import Product
from retrax.manifolds.simplex import Simplex
from retrax.manifolds.spd import SPD
from retrax.manifolds.special_orthogonal import Rotations, SpecialOrthogonal
from retrax.manifolds.sphere import Sphere
from retrax.manifolds.stiefel import Stiefel
from retrax.manifolds.symmetric import Symmetric
from retrax.manifolds.validated import Validated, validated

__all__ = [
    "SPD",
    "Euclidean",
    "FixedRank",
    "GeneralizedStiefel",
    "Grassmann",
    "Lorentz",
    "Manifold",
    "Oblique",
    "PoincareBall",
    "Positive",
    "Power",
    "Product",
    "Rotations",
    "Simplex",
    "SpecialOrthogonal",
    "Sphere",
    "Stiefel",
    "Symmetric",
    "Validated",
    "validated",
]
