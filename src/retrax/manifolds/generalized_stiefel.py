"""The generalized Stiefel manifold {x ∈ R^(d×r) : xᵀBx = I} for a symmetric positive definite B.

B is data, and a manifold holds none: it is the second part of the point, [x, B], a d×(r + d) array. It never moves
(the B part of every tangent vector is zero), travels with the point through compilers, checkpoints and batches, and can
be another for each point of a batch. Where d×d is too much, B is a function, z ↦ Bz, and a point is x alone. The metric
is that of x; no operation solves a system with B.
"""

from collections.abc import Callable
from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction, transport_by_projection
from retrax.typing import Array


def _join(x: Array, b: Array) -> Array:
    return _linalg.namespace(x).concat([x, b], axis=-1)


def qr(self: "GeneralizedStiefel", x: Array, u: Array) -> Array:
    """R_x(u) = y L⁻ᵀ with y = x + u and yᵀBy = L Lᵀ: Gram and Schmidt's, in the product of B."""
    y = self.frame_of(x + u)
    lower = _linalg.cholesky(self._gram_by(x, y))
    return self._tidied(x, _linalg.divide_by_lower_transpose(y, lower))


def polar(self: "GeneralizedStiefel", x: Array, u: Array) -> Array:
    """R_x(u) = y (yᵀBy)^(-1/2) with y = x + u."""
    y = self.frame_of(x + u)
    return self._tidied(x, y @ _linalg.inverse_sqrt(self._gram_by(x, y)))


class GeneralizedStiefel(ArrayManifold):
    """`GeneralizedStiefel(d, r)`: d×r matrices with xᵀBx = I, as points [x, B].

    `point(z, B)` makes a point of any z of rank r, and takes a frame over to a new estimate of B. `frame_of(p)` is x
    and `metric_of(p)` is B; a loss starts with these two.
    `GeneralizedStiefel(d, r, product)` has the B of the function z ↦ Bz, as in `lambda z: A.T @ (A @ z) / len(A)`,
    and its points are x alone, d×r. The function works on arrays of the library that the points are of, with their
    leading batch axes; a step calls it some times, on d×r arrays. Two manifolds are equal if their functions are: a
    checkpoint is resumed in another process only if the function's repr is the same there.
    """

    d: int
    r: int
    product: Callable[[Array], Array] | None = None

    retractions: ClassVar[dict[str, Retraction]] = {"qr": qr, "polar": polar}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False)
    }
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "rotation": "it needs B's square root; whiten the data by it and use Stiefel",
        "parallel": "parallel transport has no closed form here",
    }
    _remedy = "GeneralizedStiefel.point(z, B) makes a point from any z of rank r"

    def __post_init__(self) -> None:
        """Refuse r > d."""
        super().__post_init__()
        self._check_sizes("d", "r")
        if self.r > self.d:
            raise ValueError(f"GeneralizedStiefel({self.d}, {self.r}) is empty: r must be at most d")
        if self.product is not None and not callable(self.product):
            raise TypeError(
                f"product must be a function z ↦ Bz, not {type(self.product).__name__}; "
                "a B that is an array is part of the points: GeneralizedStiefel(d, r).point(z, B)"
            )

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, r + d): x and B side by side; (d, r) where B is a function."""
        return self.d, self.r + (self.d if self.product is None else 0)

    def frame_of(self, x: Array) -> Array:
        """The d×r part of a point or a tangent vector."""
        return x[..., : self.r]

    def metric_of(self, x: Array) -> Array:
        """The d×d part of a point, which is B; of no columns where B is a function."""
        return x[..., self.r :]

    def point(self, z: Array, b: Array | None = None) -> Array:
        """[x, B] with x = z (zᵀBz)^(-1/2), the frame closest to z in the product of B that spans the same space."""
        if (b is None) != (self.product is not None):
            raise TypeError("point takes z and B, or z alone where the manifold was made with a product")
        z = z if b is None else _join(z, b)
        return self._beside(z, self.frame_of(z) @ _linalg.inverse_sqrt(self._gram_by(z, self.frame_of(z))))

    def _times(self, x: Array, z: Array) -> Array:
        """B z, with the B of the point x."""
        return self.metric_of(x) @ z if self.product is None else self.product(z)

    def _gram_by(self, x: Array, y: Array) -> Array:
        """yᵀBy."""
        return _linalg.symmetric_part(y.mT @ self._times(x, y))

    def _beside(self, x: Array, frame: Array) -> Array:
        """The point of another frame and the B of x."""
        return _join(frame, self.metric_of(x))

    def _tidied(self, x: Array, frame: Array) -> Array:
        """One Newton-Schulz step towards yᵀBy = I: rounding errors do not build up."""
        return self._beside(x, frame @ ((3 * _linalg.identity_like(frame) - frame.mT @ self._times(x, frame)) / 2))

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """tr(uᵀv) of the d×r parts."""
        return _linalg.frobenius(self.frame_of(u), self.frame_of(v))

    def project(self, x: Array, z: Array) -> Array:
        """z - y s with y = Bx and the symmetric s from yᵀy s + s yᵀy = yᵀz + zᵀy; nothing of the B part."""
        frame, y = self.frame_of(z), self._times(x, self.frame_of(x))
        s = _linalg.lyapunov(y.mT @ y, 2 * _linalg.symmetric_part(y.mT @ frame))
        return _join(frame - y @ s, 0 * self.metric_of(z))

    def random_point(self, gaussian: Array) -> Array:
        """A frame from the first r columns, and B = exp(sym(gaussian) / √d) of the other d where it is no function."""
        frame = _orthonormal.random_orthonormal(self.frame_of(gaussian))
        if self.product is not None:
            return self.point(frame)
        b = _linalg.symmetric_exp(_linalg.symmetric_part(self.metric_of(gaussian)) / self.d**0.5)
        return self.point(frame, b)

    def check_point(self, x: Array, tolerance: float | None = None, name: str = "x0") -> None:
        """Raise ValueError unless B is positive definite and x fits to it."""
        super().check_point(x, tolerance, name)
        if self.product is not None:
            return
        values, _ = _linalg.eigh(self.metric_of(x))
        if not bool(_linalg.namespace(x).all(values > 0)):
            raise ValueError(f"{name} is not on {self}: its B is not positive definite")

    def violation(self, x: Array) -> Array:
        """The largest entry of |xᵀBx - I|, and the asymmetry of a stored B, relative to its largest entry."""
        xp, frame, b = _linalg.namespace(x), self.frame_of(x), self.metric_of(x)
        off = frame.mT @ self._times(x, frame) - xp.eye(self.r, dtype=x.dtype, device=_linalg.device(x))
        violation = xp.max(xp.abs(off), axis=(-2, -1))
        if self.product is not None:
            return violation
        largest = xp.max(xp.abs(b), axis=(-2, -1))
        asymmetry = xp.max(xp.abs(b - b.mT), axis=(-2, -1)) / xp.where(largest > 0, largest, 1 + 0 * largest)
        return xp.maximum(violation, asymmetry)
