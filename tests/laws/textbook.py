"""Each manifold once more in plain NumPy, from the textbook: metric, projection, membership, points and tangents.

Nothing here calls an operation of retrax: what a law measures is measured independently.
"""

import numpy as np

from retrax.manifolds import (
    SPD,
    Euclidean,
    FixedRank,
    GeneralizedStiefel,
    Grassmann,
    Lorentz,
    Oblique,
    PoincareBall,
    Positive,
    Power,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
)


def transpose(a):
    return np.swapaxes(a, -1, -2)


def symmetric(a):
    return (a + transpose(a)) / 2


def largest(array):
    """The largest entry in absolute value; NaN and inf count as inf."""
    return float(np.max(np.nan_to_num(np.abs(array), nan=np.inf), initial=0.0))


def haar(rng, batch, d, r):
    return np.linalg.qr(rng.standard_normal((*batch, d, r)))[0]


def axes(rng, batch, d, r):
    """Columns are coordinate axes, with signs."""
    columns = np.argsort(rng.random((*batch, d)), axis=-1)[..., :r]
    signs = rng.choice([-1.0, 1.0], size=(*batch, 1, r))
    return (np.arange(d)[:, None] == columns[..., None, :]) * signs


def spd_matrix(rng, batch, d, condition_number, clusters=None):
    """Q diag Qᵀ with eigenvalues from 1 to 1/condition_number; `clusters` of them equal where given."""
    values = np.geomspace(1, 1 / condition_number, d if clusters is None else min(clusters, d))
    values = np.resize(np.repeat(values, -(-d // len(values))), d)
    q = haar(rng, batch, d, d)
    return symmetric((q * values) @ transpose(q))


class Textbook:
    """A submanifold of its ambient space with its metric; `point` makes "random", "axes" and "repeated" points."""

    def ambient_inner(self, m, u, v):
        over = tuple(range(-len(m.ambient_shape), 0))
        return np.sum(u * v, axis=over) if over else u * v

    def inner(self, m, x, u, v):
        return self.ambient_inner(m, u, v)

    def size(self, m, x, z):
        """The length of any ambient array at x, a tangent vector or not."""
        return np.sqrt(np.maximum(self.inner(m, x, z, z), 0))

    def project(self, m, x, z):
        return z

    def violation(self, m, x):
        return 0.0

    def condition(self, m, x):
        """By how much rounding grows at x."""
        return 1.0

    def bend(self, m, x):
        """A bound of the second derivative of a retraction along a unit vector, in units of 3."""
        return 1.0

    def condition_after(self, m, x, u):
        """About the condition number of the point that a step of u leads to."""
        return 1.0

    def projection_condition(self, m, x):
        """By how much rounding grows in a projection at x."""
        return 1.0

    def separation(self, m, x, y):
        """How far the pair is from having no unique shortest path: 0 is none, 1 is far."""
        return 1.0

    def point(self, m, rng, batch, points, condition):
        return rng.standard_normal(batch + m.ambient_shape)

    def tangent(self, m, rng, x, tangents):
        # Twice: a tangent vector close to zero would keep relatively much of its normal part.
        return self.project(m, x, self.project(m, x, rng.standard_normal(x.shape)))


class OnSphere(Textbook):
    def project(self, m, x, z):
        return z - np.sum(x * z, axis=-1, keepdims=True) * x

    def violation(self, m, x):
        return largest(np.sum(x * x, axis=-1) - 1)

    def separation(self, m, x, y):
        return np.min(1 + np.sum(x * y, axis=-1))

    def point(self, m, rng, batch, points, condition):
        return (axes if points == "axes" else haar)(rng, batch, m.ambient_shape[0], 1)[..., 0]


class OnOblique(Textbook):
    def project(self, m, x, z):
        return z - x * np.sum(x * z, axis=-2, keepdims=True)

    def violation(self, m, x):
        return largest(np.sum(x * x, axis=-2) - 1)

    def separation(self, m, x, y):
        return np.min(1 + np.sum(x * y, axis=-2))

    def point(self, m, rng, batch, points, condition):
        return transpose((axes if points == "axes" else haar)(rng, (*batch, m.k), m.d, 1)[..., 0])


class OnStiefel(Textbook):
    def project(self, m, x, z):
        return z - x @ symmetric(transpose(x) @ z)

    def violation(self, m, x):
        return largest(transpose(x) @ x - np.eye(x.shape[-1]))

    def separation(self, m, x, y):
        return np.min(np.linalg.svd(transpose(x) @ y, compute_uv=False))

    def point(self, m, rng, batch, points, condition):
        return (axes if points == "axes" else haar)(rng, batch, *m.ambient_shape)

    def tangent(self, m, rng, x, tangents):
        z = rng.standard_normal(x.shape)
        if tangents == "rank one":
            z = z[..., :1] * rng.standard_normal((*x.shape[:-2], 1, x.shape[-1]))
        elif tangents == "equal":
            # The image of an orthonormal frame of the complement: all singular values equal where r ≤ d - r.
            z = np.linalg.qr(z - x @ (transpose(x) @ z))[0]
        return self.project(m, x, self.project(m, x, z))


class OnGrassmann(OnStiefel):
    def project(self, m, x, z):
        return z - x @ (transpose(x) @ z)


class OnRotations(OnStiefel):
    def violation(self, m, x):
        return super().violation(m, x) + 2 * (np.min(np.linalg.det(x)) < 0)

    def separation(self, m, x, y):
        return np.min(np.linalg.svd(np.eye(m.n) + transpose(x) @ y, compute_uv=False)) / 2

    def point(self, m, rng, batch, points, condition):
        x = super().point(m, rng, batch, points, condition)
        x[..., :1] *= np.sign(np.linalg.det(x))[..., None, None]
        return x

    def tangent(self, m, rng, x, tangents):
        z = rng.standard_normal(x.shape)
        if tangents == "rank one":  # one plane only is turned
            z = z[..., :1] * z[..., :1, :]
        elif tangents == "equal":  # all planes by the same angle
            z = np.kron(np.eye(-(-m.n // 2)), [[0.0, 1.0], [-1.0, 0.0]])[: m.n, : m.n] + 0 * z
        return x @ (z - transpose(z)) / 2


class OnSPD(Textbook):
    def inner(self, m, x, u, v):
        return np.trace(np.linalg.solve(x, u) @ np.linalg.solve(x, v), axis1=-2, axis2=-1)

    def project(self, m, x, z):
        return symmetric(z)

    def violation(self, m, x):
        positive = np.all(np.isfinite(x)) and bool(np.all(np.linalg.eigvalsh(x)[..., 0] > 0))
        return largest(x - transpose(x)) / largest(x) if positive else np.inf

    def condition(self, m, x):
        return np.max(np.linalg.cond(x))

    def condition_after(self, m, x, u):
        spread = np.ptp(np.linalg.eigvals(np.linalg.solve(x, u)).real, axis=-1).max()
        return np.exp(spread) * self.condition(m, x)

    def point(self, m, rng, batch, points, condition):
        clusters = {"axes": 1, "repeated": 2}.get(points)
        return spd_matrix(rng, batch, m.d, condition, clusters)

    def tangent(self, m, rng, x, tangents):
        z = rng.standard_normal(x.shape)
        if tangents == "rank one":
            z = z[..., :1] * transpose(z[..., :1])
        elif tangents == "equal":
            z = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
        lower = np.linalg.cholesky(x)
        return symmetric(lower @ symmetric(z) @ transpose(lower))


class OnLogEuclidean(OnSPD):
    def flat(self, x, u):
        """D log_x[u] by the integral formula in the eigenbasis."""
        values, vectors = np.linalg.eigh(x)
        a, b = values[..., :, None], values[..., None, :]
        far = np.abs(a - b) > 1e-6 * b
        slope = np.where(far, (np.log(a) - np.log(b)) / np.where(far, a - b, 1), 2 / (a + b))
        return vectors @ (slope * (transpose(vectors) @ u @ vectors)) @ transpose(vectors)

    def inner(self, m, x, u, v):
        return np.sum(self.flat(x, u) * self.flat(x, v), axis=(-2, -1))

    def condition(self, m, x):
        return np.max(np.linalg.cond(x)) ** 2

    def condition_after(self, m, x, u):
        spread = np.ptp(np.linalg.eigvalsh(self.flat(x, u)), axis=-1).max()
        return np.exp(spread) * self.condition(m, x)


class OnBuresWasserstein(OnSPD):
    def lyapunov(self, x, u):
        """The solution of x ℓ + ℓ x = u as a linear system for the entries of ℓ."""
        eye = np.eye(x.shape[-1])
        big = np.einsum("...ij,kl->...ikjl", x, eye) + np.einsum("ij,...kl->...ikjl", eye, x)
        n = x.shape[-1] ** 2
        solved = np.linalg.solve(big.reshape(*x.shape[:-2], n, n), u.reshape(*u.shape[:-2], n, 1))
        return solved.reshape(u.shape)

    def inner(self, m, x, u, v):
        return np.sum(self.lyapunov(x, u) * v, axis=(-2, -1)) / 2

    def condition(self, m, x):
        return np.max(np.linalg.cond(x)) ** 2

    def bend(self, m, x):
        return np.max(np.linalg.norm(np.linalg.inv(x), 2, axis=(-2, -1))) ** 0.5 * 3

    def condition_after(self, m, x, u):
        factor = np.eye(m.d) + self.lyapunov(x, u)
        return np.max(np.linalg.cond(factor)) ** 2 * self.condition(m, x)

    def tangent(self, m, rng, x, tangents):
        ell = np.linalg.solve(x, super().tangent(m, rng, x, tangents))
        return x @ symmetric(ell) + symmetric(ell) @ x


class OnSymmetric(Textbook):
    def project(self, m, x, z):
        return symmetric(z)

    def violation(self, m, x):
        return largest(x - transpose(x))

    def point(self, m, rng, batch, points, condition):
        return symmetric(super().point(m, rng, batch, points, condition))


class OnPositive(Textbook):
    def inner(self, m, x, u, v):
        return self.ambient_inner(m, u / x, v / x)

    def violation(self, m, x):
        return 0.0 if np.all(x > 0) else 1 - np.min(x)

    def point(self, m, rng, batch, points, condition):
        return (
            np.exp(super().point(m, rng, batch, points, condition)) if points == "random" else np.ones(batch + m.shape)
        )

    def tangent(self, m, rng, x, tangents):
        return x * rng.standard_normal(x.shape)


class OnSimplex(Textbook):
    """Points away from the boundary, which geodesics reach; "axes" is the centre."""

    def inner(self, m, x, u, v):
        return np.sum(u * v / x, axis=-1)

    def project(self, m, x, z):
        return z - np.mean(z, axis=-1, keepdims=True)

    def violation(self, m, x):
        return largest(np.sum(x, axis=-1) - 1) + (0 if np.all(x > 0) else 1)

    def condition(self, m, x):
        return 1 / np.min(x)

    def point(self, m, rng, batch, points, condition):
        x = np.exp((0 if points == "axes" else 0.3) * rng.standard_normal((*batch, m.d)))
        return x / np.sum(x, axis=-1, keepdims=True)


class OnBall(Textbook):
    """Points: about 1 from the origin, the origin itself ("axes"), and 3 away from it ("repeated")."""

    def gap(self, m, x):
        return 1 - m.curvature * np.sum(x * x, axis=-1, keepdims=True)

    def inner(self, m, x, u, v):
        return np.sum(4 * u * v / self.gap(m, x) ** 2, axis=-1)

    def violation(self, m, x):
        squared = m.curvature * np.sum(x * x, axis=-1)
        return 0.0 if np.all(squared < 1) else largest(squared)

    def condition(self, m, x):
        return np.max(4 / self.gap(m, x))  # about exp(√c ρ)

    def radius(self, m, rng, batch, points):
        """Directions, and distances from the origin in units of 1/√c."""
        z = rng.standard_normal((*batch, m.d))
        z = z / np.linalg.norm(z, axis=-1, keepdims=True)
        return z, {"axes": 0.0, "repeated": 3.0}.get(points, 1.0) * (0.5 + rng.random((*batch, 1)))

    def point(self, m, rng, batch, points, condition):
        z, radius = self.radius(m, rng, batch, points)
        return np.tanh(radius / 2) * z / m.curvature**0.5

    def tangent(self, m, rng, x, tangents):
        z = rng.standard_normal(x.shape)
        if tangents == "equal":  # along the radius
            z = x + 1e-3 * (np.sum(x * x, axis=-1, keepdims=True) == 0)
        return z * self.gap(m, x)


class OnHyperboloid(OnBall):
    def ambient_inner(self, m, u, v):
        return np.sum(u[..., 1:] * v[..., 1:], axis=-1) - u[..., 0] * v[..., 0]

    def inner(self, m, x, u, v):
        return self.ambient_inner(m, u, v)

    def size(self, m, x, z):
        return np.linalg.norm(z, axis=-1) / x[..., 0] / m.curvature**0.5

    def project(self, m, x, z):
        return z + m.curvature * self.ambient_inner(m, x, z)[..., None] * x

    def violation(self, m, x):
        right = np.sqrt(1 / m.curvature + np.sum(x[..., 1:] ** 2, axis=-1))
        return largest((x[..., 0] - right) / right)

    def condition(self, m, x):
        return np.max(4 * m.curvature * x[..., 0] ** 2)  # about exp(2√c ρ): the products here are the textbook's

    projection_condition = condition

    def point(self, m, rng, batch, points, condition):
        z, radius = self.radius(m, rng, batch, points)
        return np.concatenate([np.cosh(radius), np.sinh(radius) * z], axis=-1) / m.curvature**0.5

    def tangent(self, m, rng, x, tangents):
        z = rng.standard_normal(x.shape) + (x if tangents == "equal" else 0)
        z[..., 0] = np.sum(x[..., 1:] * z[..., 1:], axis=-1) / x[..., 0]
        return z


class OnGeneralizedStiefel(Textbook):
    """[x, B]; the normal space at x is spanned by Bx s with symmetric s, and projections onto it are least squares."""

    def project(self, m, x, z):
        normal = x[..., m.r :] @ x[..., : m.r]
        basis = []
        for i in range(m.r):
            for j in range(i, m.r):
                s = np.zeros((m.r, m.r))
                s[i, j] = s[j, i] = 1.0
                basis.append((normal @ s).reshape(*x.shape[:-2], -1))
        q = np.linalg.qr(np.stack(basis, axis=-1))[0]
        flat = z[..., : m.r].reshape(*z.shape[:-2], -1, 1)
        tangent = (flat - q @ (transpose(q) @ flat)).reshape(*z.shape[:-1], m.r)
        return np.concatenate([tangent, 0 * z[..., m.r :]], axis=-1)

    def violation(self, m, x):
        frame, b = x[..., : m.r], x[..., m.r :]
        return max(largest(transpose(frame) @ b @ frame - np.eye(m.r)), largest(b - transpose(b)) / largest(b))

    def condition(self, m, x):
        return np.max(np.linalg.cond(x[..., m.r :]))

    projection_condition = condition

    def bend(self, m, x):
        return 2 * self.condition(m, x)

    def point(self, m, rng, batch, points, condition):
        b = spd_matrix(rng, batch, m.d, 5.0, {"axes": 1, "repeated": 2}.get(points))
        frame = (axes if points == "axes" else haar)(rng, batch, m.d, m.r)
        lower = np.linalg.cholesky(transpose(frame) @ b @ frame)
        return np.concatenate([frame @ transpose(np.linalg.inv(lower)), b], axis=-1)


class OnFixedRank(Textbook):
    """Through the m×n matrices: a tangent vector (l, c, r) is l·middle·rightᵀ + left·c·rightᵀ + left·middle·rᵀ."""

    def parts(self, m, x):
        return np.split(x, [m.m, m.m + m.k], axis=-2)

    def matrix(self, m, x, u):
        (left, middle, right), (dl, dc, dr) = self.parts(m, x), self.parts(m, u)
        return dl @ middle @ transpose(right) + left @ dc @ transpose(right) + left @ middle @ transpose(dr)

    def inner(self, m, x, u, v):
        return np.sum(self.matrix(m, x, u) * self.matrix(m, x, v), axis=(-2, -1))

    def project(self, m, x, z):
        (left, _, right), (dl, dc, dr) = self.parts(m, x), self.parts(m, z)
        return np.concatenate([dl - left @ (transpose(left) @ dl), dc, dr - right @ (transpose(right) @ dr)], axis=-2)

    def violation(self, m, x):
        left, middle, right = self.parts(m, x)
        off = max(largest(transpose(q) @ q - np.eye(m.k)) for q in (left, right))
        return off + (np.max(np.linalg.cond(middle)) > 1e12)

    def condition(self, m, x):
        return np.max(np.linalg.cond(self.parts(m, x)[1])) ** 2

    def bend(self, m, x):
        return 3.0

    def separation(self, m, x, y):
        pairs = zip(self.parts(m, x)[::2], self.parts(m, y)[::2], strict=True)
        return min(np.min(np.linalg.svd(transpose(a) @ b, compute_uv=False)) for a, b in pairs)

    def point(self, m, rng, batch, points, condition):
        frame = axes if points == "axes" else haar
        values = np.ones(m.k) if points == "repeated" else np.linspace(1, 2, m.k)
        middle = frame(rng, batch, m.k, m.k) * values
        return np.concatenate([frame(rng, batch, m.m, m.k), middle, frame(rng, batch, m.n, m.k)], axis=-2)


class OnPower(Textbook):
    """The base's, with the axes of the power as batch axes."""

    def ambient_inner(self, m, u, v):
        return self.summed(m, of(m.manifold).ambient_inner(m.manifold, u, v))

    def inner(self, m, x, u, v):
        return self.summed(m, of(m.manifold).inner(m.manifold, x, u, v))

    def summed(self, m, numbers):
        return np.sum(numbers, axis=tuple(range(-len(m.shape), 0))) if m.shape else numbers

    def project(self, m, x, z):
        return of(m.manifold).project(m.manifold, x, z)

    def violation(self, m, x):
        return of(m.manifold).violation(m.manifold, x)

    def condition(self, m, x):
        return of(m.manifold).condition(m.manifold, x)

    def separation(self, m, x, y):
        return of(m.manifold).separation(m.manifold, x, y)

    def point(self, m, rng, batch, points, condition):
        return of(m.manifold).point(m.manifold, rng, batch + m.shape, points, condition)

    def tangent(self, m, rng, x, tangents):
        return of(m.manifold).tangent(m.manifold, rng, x, tangents)


_BY_CLASS = {
    Euclidean: Textbook(),
    Sphere: OnSphere(),
    Oblique: OnOblique(),
    Stiefel: OnStiefel(),
    Grassmann: OnGrassmann(),
    FixedRank: OnFixedRank(),
    GeneralizedStiefel: OnGeneralizedStiefel(),
    SpecialOrthogonal: OnRotations(),
    Symmetric: OnSymmetric(),
    Positive: OnPositive(),
    Simplex: OnSimplex(),
    PoincareBall: OnBall(),
    Lorentz: OnHyperboloid(),
    Power: OnPower(),
}


_BY_METRIC = {
    "affine-invariant": OnSPD(),
    "log-euclidean": OnLogEuclidean(),
    "bures-wasserstein": OnBuresWasserstein(),
}


def of(manifold):
    """The textbook of a manifold that is not a product."""
    return _BY_METRIC[manifold.metric] if isinstance(manifold, SPD) else _BY_CLASS[type(manifold)]
