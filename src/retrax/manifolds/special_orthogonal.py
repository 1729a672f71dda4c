"""The rotations SO(n) = {x ∈ R^(n×n) : xᵀx = I, det x = 1} with the metric of the ambient space, which is bi-invariant.

A tangent vector at x is u = xΩ with a skew Ω.
"""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction, transport_by_projection
from retrax.manifolds.power import Power
from retrax.typing import Array


def _skew_part(a: Array) -> Array:
    return (a - a.mT) / 2


def exponential(self: "SpecialOrthogonal", x: Array, u: Array) -> Array:
    """Exp_x(xΩ) = x exp(Ω), with exp(Ω) = cos(S) + Ω sin(S)/S and S² = ΩᵀΩ: a symmetric eigenproblem."""
    omega = _skew_part(x.mT @ u)
    cosines, sines = _linalg.symmetric_functions(omega.mT @ omega, "cos of root", "sinc of root")
    return _orthonormal.tidy(x @ (cosines + omega @ sines))


def cayley(self: "SpecialOrthogonal", x: Array, u: Array) -> Array:
    """R_x(xΩ) = x (I - Ω/2)⁻¹ (I + Ω/2)."""
    half, eye = _skew_part(x.mT @ u) / 2, _linalg.identity_like(x)
    return _orthonormal.tidy(x @ _linalg.namespace(x).linalg.solve(eye - half, eye + half))


def left_translation(self: "SpecialOrthogonal", x: Array, y: Array, u: Array) -> Array:
    """T u = y xᵀu: the same Ω, in the frame of y."""
    return y @ _skew_part(x.mT @ u)


class SpecialOrthogonal(ArrayManifold):
    """`SpecialOrthogonal(n)`: n×n rotations; `Rotations(100)` is a hundred rotations of space.

    The metric is tr(uᵀv) = tr(ΩᵀΩ'): a rotation of space by an angle θ has distance √2 θ from the identity.
    """

    n: int

    retractions: ClassVar[dict[str, Retraction]] = {
        "exp": exponential,
        "cayley": cayley,
        "qr": _orthonormal.qr,
        "polar": _orthonormal.polar,
    }
    transports: ClassVar[dict[str, NamedTransport]] = {
        "translation": NamedTransport(left_translation, isometric=True),
        "projection": NamedTransport(transport_by_projection, isometric=False),
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "parallel": "it needs a logarithm in every step; 'translation' is isometric too",
    }

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("n")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(n, n)."""
        return self.n, self.n

    def project(self, x: Array, z: Array) -> Array:
        """x (xᵀz - zᵀx) / 2."""
        return x @ _skew_part(x.mT @ z)

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u."""
        return exponential(self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity xΩ with x exp(Ω) = y, for rotations by angles below π from x to y.

        With the skew a = (I + xᵀy)⁻¹ (xᵀy - I), whose eigenvalues are i tan(θ/2), Ω = 2 a atan(A)/A and A² = aᵀa.
        """
        xp, between, eye = _linalg.namespace(x), x.mT @ y, _linalg.identity_like(x)
        tangents = _skew_part(xp.linalg.solve(eye + between, between - eye))
        (angles,) = _linalg.symmetric_functions(tangents.mT @ tangents, "atanc of root")
        return 2 * x @ _skew_part(tangents @ angles)

    def distance(self, x: Array, y: Array) -> Array:
        """√2 times the root of the sum of squared angles."""
        return self.norm(x, self.log(x, y))

    def random_point(self, gaussian: Array) -> Array:
        """Uniform (Haar)."""
        xp, q = _linalg.namespace(gaussian), _orthonormal.random_orthonormal(gaussian)
        sign = xp.where(xp.linalg.det(q) < 0, -1.0 + 0 * q[..., 0, 0], 1.0 + 0 * q[..., 0, 0])
        return xp.concat([sign[..., None, None] * q[..., :1], q[..., 1:]], axis=-1)

    def violation(self, x: Array) -> Array:
        """The largest entry of |xᵀx - I|, and 2 more for a reflection."""
        xp, largest = _linalg.namespace(x), _orthonormal.violation(x)
        return largest + xp.where(xp.linalg.det(x) < 0, 2 + 0 * largest, 0 * largest)


def Rotations(*shape: int, **choices: str) -> Power:  # noqa: N802  A manifold, named as the others are.
    """`Rotations(100)`: a hundred rotations of space in one array, which is `Power(SpecialOrthogonal(3), 100)`.

    choices: `retraction=` and `transport=`, those of `SpecialOrthogonal`.
    """
    return Power(SpecialOrthogonal(3, **choices), *shape)
