"""The Stiefel manifold St(d, r) = {x ∈ R^(d×r) : xᵀx = I} with the metric of the ambient space."""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import NamedTransport, Retraction, transport_by_projection
from retrax.typing import Array


def cayley(self: "Stiefel", x: Array, u: Array) -> Array:
    """R_x(u) = (I - W/2)⁻¹ (I + W/2) x with the skew W = p xᵀ - x pᵀ, p = (I - xxᵀ/2) u, so that W x = u.

    W has rank 2r: by Woodbury, R_x(u) = x + a (I - bᵀa/2)⁻¹ bᵀx with a = [p, x] and b = [x, -p].
    """
    xp = _linalg.namespace(x)
    p = u - x @ (x.mT @ u) / 2
    a, b = xp.concat([p, x], axis=-1), xp.concat([x, -p], axis=-1)
    middle = xp.eye(a.shape[-1], dtype=x.dtype, device=_linalg.device(x)) - b.mT @ a / 2
    moved = x + a @ xp.linalg.solve(middle, b.mT @ x)
    return _orthonormal.tidy(moved)


def rotation_transport(self: "Stiefel", x: Array, y: Array, u: Array) -> Array:
    """Isometric: u = xΩ + w with w ⊥ x goes to yΩ + (w, rotated along the shortest path of subspaces)."""
    omega = x.mT @ u
    if x.shape[-1] == x.shape[-2]:  # square: there is no normal part
        return y @ omega
    a, k = _orthonormal.rotation(x, y, y.mT @ u - (y.mT @ x) @ omega)
    return u - x @ (omega + k) + y @ (omega - a.mT @ k)


class Stiefel(_orthonormal.OrthonormalColumns):
    """`Stiefel(d, r)`: d×r matrices with orthonormal columns."""

    retractions: ClassVar[dict[str, Retraction]] = {
        "qr": _orthonormal.qr,
        "polar": _orthonormal.polar,
        "cayley": cayley,
    }
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False),
        "rotation": NamedTransport(rotation_transport, isometric=True),
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "parallel": "parallel transport has no closed form on Stiefel; 'rotation' is isometric too",
        "exp": "the exponential map needs a matrix exponential at every step; 'polar' is of second order too",
    }

    def project(self, x: Array, z: Array) -> Array:
        """z - x (a + aᵀ)/2 with a = xᵀz."""
        a = x.mT @ z
        return _linalg.minus_product(z, x, a + a.mT, 1 / 2)
