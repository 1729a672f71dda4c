"""The manifolds. `base.py` states the protocol and its laws; each other file is one manifold."""

from retrax.manifolds.base import Manifold
from retrax.manifolds.euclidean import Euclidean
from retrax.manifolds.grassmann import Grassmann
from retrax.manifolds.product import Product
from retrax.manifolds.spd import SPD
from retrax.manifolds.sphere import Sphere
from retrax.manifolds.stiefel import Stiefel

__all__ = ["SPD", "Euclidean", "Grassmann", "Manifold", "Product", "Sphere", "Stiefel"]
