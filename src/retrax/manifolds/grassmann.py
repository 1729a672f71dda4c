"""The Grassmann manifold Gr(d, r) of r-dimensional subspaces of R^d, each held as a d×r orthonormal basis x.

Tangent vectors are horizontal: xᵀu = 0. Bases x and xQ stand for one subspace, and the operations agree with that:
replacing (x, u) by (xQ, uQ) replaces the result by itself times Q, up to the choice of basis.
"""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import NamedTransport, Retraction, transport_by_projection
from retrax.typing import Array


def exponential(self: "Grassmann", x: Array, u: Array) -> Array:
    """Exp_x(u) = x V cos(Σ) Vᵀ + u V (sin(Σ)/Σ) Vᵀ, where uᵀu = V Σ² Vᵀ: an r×r eigenproblem."""
    cosines, sines = _linalg.symmetric_functions(u.mT @ u, "cos of root", "sinc of root")
    return _orthonormal.tidy(x @ cosines + u @ sines)


def parallel_transport(self: "Grassmann", x: Array, y: Array, u: Array) -> Array:
    """Along the geodesic from span(x) to span(y), and into the basis y (Edelman, Arias & Smith 1998, theorem 2.4).

    With A the polar factor of xᵀy and ŷ = yAᵀ: T u = (u - (x + ŷ)(I + xᵀŷ)⁻¹ ŷᵀu) A.
    """
    a, k = _orthonormal.rotation(x, y, y.mT @ u)
    xp, k_a = _linalg.namespace(x), k @ a
    return xp.concat([x, y, u], axis=-1) @ xp.concat([-k_a, -a.mT @ k_a, a], axis=-2)  # one product for three


class Grassmann(_orthonormal.OrthonormalColumns):
    """`Grassmann(d, r)`: the r-dimensional subspaces of R^d, as d×r matrices with orthonormal columns."""

    retractions: ClassVar[dict[str, Retraction]] = {
        "polar": _orthonormal.polar,
        "qr": _orthonormal.qr,
        "exp": exponential,
    }
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False),
        "parallel": NamedTransport(parallel_transport, isometric=True),
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "rotation": "that is Stiefel's; 'parallel' is Grassmann's isometric transport",
    }

    def project(self, x: Array, z: Array) -> Array:
        """(I - xxᵀ) z."""
        return z - x @ (x.mT @ z)

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at span(x) with velocity u."""
        return exponential(self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The horizontal u with span(Exp_x(u)) = span(y), for subspaces with no right angle between them.

        With m = (I - xxᵀ) y (xᵀy)⁻¹ = U tan(Σ) Vᵀ it is U Σ Vᵀ, found from the r×r eigenproblem of mᵀm.
        """
        xp = _linalg.namespace(x)
        m = xp.linalg.solve((x.mT @ y).mT, self.project(x, y).mT).mT
        (angles,) = _linalg.symmetric_functions(m.mT @ m, "atanc of root")
        return m @ angles

    def distance(self, x: Array, y: Array) -> Array:
        """The root of the sum of squared principal angles, also where some are right angles.

        Their squared sines are the eigenvalues of sᵀs with s = (I - xxᵀ) y.
        """
        xp, sideways = _linalg.namespace(x), _linalg.formed(self.project(x, y))
        # The least positive number keeps the eigenproblem away from a matrix of zeros, at y = x.
        squared_sines = sideways.mT @ sideways + xp.finfo(x.dtype).smallest_normal * _linalg.identity_like(x)
        (squared_angles,) = _linalg.symmetric_functions(squared_sines, "squared angle")
        return _linalg.safe_sqrt(_linalg.frobenius(squared_angles, _linalg.identity_like(x)))
