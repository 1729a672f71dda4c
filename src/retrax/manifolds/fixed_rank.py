"""Matrices of rank k, as left · middle · rightᵀ with orthonormal left (m×k) and right (n×k), invertible middle (k×k).

A point is one array of m + n + k rows and k columns, the three factors below each other; so is a tangent vector
(l, c, r), which stands for the m×n matrix l·middle·rightᵀ + left·c·rightᵀ + left·middle·rᵀ, with leftᵀl = 0 and
rightᵀr = 0. Lengths are those of the m×n matrices; nothing of that size is ever formed. The same matrix has many such
points, (left p, pᵀ middle q, right q) with orthogonal p and q, and the operations agree with that.
References: Vandereycken (2013); Absil & Oseledets (2015).
"""

from typing import ClassVar, NamedTuple

from retrax import _linalg
from retrax.manifolds import _orthonormal
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


class Factors(NamedTuple):
    """left (m×k), middle (k×k) and right (n×k), of a point or of a tangent vector."""

    left: Array
    middle: Array
    right: Array


def _join(left: Array, middle: Array, right: Array) -> Array:
    return _linalg.namespace(left).concat([left, middle, right], axis=-2)


def _divide(b: Array, a: Array) -> Array:
    """b a⁻¹."""
    return _linalg.namespace(a).linalg.solve(a.mT, b.mT).mT


def _without(basis: Array, z: Array) -> Array:
    """z minus its part in the span of an orthonormal basis."""
    return z - basis @ (basis.mT @ z)


def retract_by_svd(self: "FixedRank", x: Array, u: Array) -> Array:
    """The best approximation of rank k of x + u, a matrix of rank 2k: by QR factors and a 2k×2k SVD.

    Of all its bases the result has those closest to x's, so that it depends smoothly on u.
    """
    xp = _linalg.namespace(x)
    (left, middle, right), (dl, dc, dr) = self.factors(x), self.factors(u)
    eye, nothing = _linalg.identity_like(x) + 0 * middle, 0 * middle
    left_q, left_r = xp.linalg.qr(xp.concat([left, dl @ middle], axis=-1))
    right_q, right_r = xp.linalg.qr(xp.concat([right, dr @ middle.mT], axis=-1))
    core = xp.concat([xp.concat([middle + dc, eye], axis=-1), xp.concat([eye, nothing], axis=-1)], axis=-2)
    a, sigma, bt = xp.linalg.svd(left_r @ core @ right_r.mT, full_matrices=False)
    new_left, new_right = left_q @ a[..., :, : self.k], right_q @ bt.mT[..., :, : self.k]
    turn_left, turn_right = _closest(new_left.mT @ left), _closest(new_right.mT @ right)
    new_middle = turn_left.mT @ (sigma[..., : self.k, None] * turn_right)
    return _join(_orthonormal.tidy(new_left @ turn_left), new_middle, _orthonormal.tidy(new_right @ turn_right))


def _closest(a: Array) -> Array:
    """The orthogonal factor of a square matrix, which may be singular."""
    left, _, right = _linalg.namespace(a).linalg.svd(a, full_matrices=False)
    return left @ right


def retract_factors(self: "FixedRank", x: Array, u: Array) -> Array:
    """(polar(left + l), middle + c, polar(right + r)): cheaper, and good for short steps."""
    (left, middle, right), (dl, dc, dr) = self.factors(x), self.factors(u)
    return _join(_orthonormal.polar(self, left, dl), middle + dc, _orthonormal.polar(self, right, dr))


def project_to(self: "FixedRank", x: Array, y: Array, u: Array) -> Array:
    """T u: the m×n matrix that u is at x, projected onto the tangent space at y."""
    (left, middle, right), (dl, dc, dr) = self.factors(x), self.factors(u)
    new_left, new_middle, new_right = self.factors(y)
    across_left, across_right = left.mT @ new_left, right.mT @ new_right
    # The matrix times new_right, and its transpose times new_left.
    times_right = (dl @ middle + left @ dc) @ across_right + left @ (middle @ (dr.mT @ new_right))
    times_left = (dr @ middle.mT + right @ dc.mT) @ across_left + right @ (middle.mT @ (dl.mT @ new_left))
    return _join(
        _divide(_without(new_left, times_right), new_middle),
        new_left.mT @ times_right,
        _divide(_without(new_right, times_left), new_middle.mT),
    )


class FixedRank(ArrayManifold):
    """`FixedRank(m, n, k)`: m×n matrices of rank k with the metric of the m×n matrices, in (m + n + k) k numbers.

    `factors(x)` gives (left, middle, right), `matrix(x)` the matrix, `from_factors(a, b)` the point of a bᵀ. A loss
    starts with `left, middle, right = manifold.factors(x)`; its ambient gradient is the one with respect to these
    three, which is what automatic differentiation gives.
    """

    m: int
    n: int
    k: int

    retractions: ClassVar[dict[str, Retraction]] = {"svd": retract_by_svd, "factors": retract_factors}
    transports: ClassVar[dict[str, NamedTransport]] = {"projection": NamedTransport(project_to, isometric=False)}
    refused: ClassVar[dict[str, str]] = {
        "identity": "a tangent vector at x is not tangent at y",
        "parallel": "it has no closed form here",
        "exp": "the geodesics have no closed form; 'svd' is of second order too",
    }
    _remedy = "FixedRank.from_factors(a, b) makes a point from any two factors of rank k"

    def __post_init__(self) -> None:
        """Refuse k > min(m, n)."""
        super().__post_init__()
        self._check_sizes("m", "n", "k")
        if self.k > min(self.m, self.n):
            raise ValueError(f"FixedRank({self.m}, {self.n}, {self.k}) is empty: k must be at most min(m, n)")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(m + k + n, k): left, middle and right below each other."""
        return self.m + self.k + self.n, self.k

    def factors(self, x: Array) -> Factors:
        """(left, middle, right) of a point or a tangent vector."""
        return Factors(x[..., : self.m, :], x[..., self.m : self.m + self.k, :], x[..., self.m + self.k :, :])

    def matrix(self, x: Array) -> Array:
        """The m×n matrix that a point is."""
        left, middle, right = self.factors(x)
        return left @ middle @ right.mT

    def tangent_matrix(self, x: Array, u: Array) -> Array:
        """The m×n matrix that a tangent vector at x is."""
        (left, middle, right), (dl, dc, dr) = self.factors(x), self.factors(u)
        return (dl @ middle + left @ dc) @ right.mT + left @ middle @ dr.mT

    def from_factors(self, a: Array, b: Array) -> Array:
        """The point of the matrix a bᵀ, for a of shape (m, k) and b of shape (n, k), both of rank k."""
        xp = _linalg.namespace(a)
        (left, a_upper), (right, b_upper) = xp.linalg.qr(a), xp.linalg.qr(b)
        return _join(left, a_upper @ b_upper.mT, right)

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """tr of the product of the m×n matrices: ⟨l·middle, l'·middle⟩ + ⟨c, c'⟩ + ⟨r·middleᵀ, r'·middleᵀ⟩."""
        middle, first, second = self.factors(x).middle, self.factors(u), self.factors(v)
        return (
            _linalg.frobenius(first.left @ middle, second.left @ middle)
            + _linalg.frobenius(first.middle, second.middle)
            + _linalg.frobenius(first.right @ middle.mT, second.right @ middle.mT)
        )

    def project(self, x: Array, z: Array) -> Array:
        """l and r without their parts in the span of left and right: self-adjoint as a map of (m+n+k)×k arrays."""
        (left, _, right), (dl, dc, dr) = self.factors(x), self.factors(z)
        return _join(_without(left, dl), dc, _without(right, dr))

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """From the derivatives by left, middle and right: their tangent part, in the metric of the m×n matrices."""
        (left, middle, right), (gl, gc, gr) = self.factors(x), self.factors(ambient_gradient)
        by_left, by_right = _without(left, gl), _without(right, gr)
        return _join(_divide(_divide(by_left, middle.mT), middle), gc, _divide(_divide(by_right, middle), middle.mT))

    def random_point(self, gaussian: Array) -> Array:
        """Uniform left and right; singular values from 1 to 2, apart from each other and from zero."""
        xp, parts = _linalg.namespace(gaussian), self.factors(gaussian)
        values = 1 + xp.arange(self.k, dtype=gaussian.dtype, device=_linalg.device(gaussian)) / self.k
        turn = _orthonormal.random_orthonormal(parts.middle)
        left, right = _orthonormal.random_orthonormal(parts.left), _orthonormal.random_orthonormal(parts.right)
        return _join(left, turn * values, right)

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """Isotropic: a Gaussian m×n matrix, projected."""
        middle, parts = self.factors(x).middle, self.factors(self.project(x, gaussian))
        return _join(_divide(parts.left, middle), parts.middle, _divide(parts.right, middle.mT))

    def violation(self, x: Array) -> Array:
        """The largest entry of |leftᵀleft - I| and |rightᵀright - I|, and 1 more where the rank is below k."""
        xp, (left, middle, right) = _linalg.namespace(x), self.factors(x)
        off = xp.maximum(_orthonormal.violation(left), _orthonormal.violation(right))
        values = xp.linalg.svdvals(middle)
        singular = xp.min(values, axis=-1) <= _linalg.epsilon(x) * xp.max(values, axis=-1)
        return off + xp.where(singular, 1 + 0 * off, 0 * off)
