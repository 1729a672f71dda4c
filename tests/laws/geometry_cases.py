"""Manifolds, points and tangent vectors to try the laws on, and the geometry once more in plain NumPy.

Nothing here calls an operation of retrax: what a test measures (inner products, membership, tangency) is measured
independently. Points and tangents include the awkward ones: coordinate axes, repeated singular values and
eigenvalues, rank one, zero.
"""

import dataclasses
import itertools

import jax
import numpy as np
from hypothesis import strategies as st

from retrax.manifolds import SPD, Euclidean, Grassmann, Product, Sphere, Stiefel

# (sizes of the constructor, leading batch axes): edge cases r = 1, r = d and d = 1 among them.
SIZES = {
    Euclidean: [((2, 3), (2, 1)), ((), ()), ((3,), ()), ((), (2,))],
    Sphere: [((5,), ()), ((2,), (3,)), ((1,), ()), ((3,), (2, 2))],
    Stiefel: [((6, 3), ()), ((5, 1), (2,)), ((4, 4), ()), ((1, 1), (2,)), ((5, 4), (2, 2))],
    Grassmann: [((6, 3), ()), ((5, 1), (2,)), ((4, 4), ()), ((1, 1), (2,)), ((5, 4), (2, 2))],
    SPD: [((4,), ()), ((2,), (2,)), ((1,), ()), ((3,), (2, 2))],
}
CLASSES = tuple(SIZES)


def _products(transports):
    """A tuple, a dict and a nested Product; `transports` gives each class's choice."""
    stiefel, grassmann, sphere = (transports[c] for c in (Stiefel, Grassmann, Sphere))
    return {
        "tuple": Product((Sphere(3, transport=sphere), Stiefel(4, 2, transport=stiefel))),
        "dict": Product({"U": Grassmann(5, 2, transport=grassmann), "C": SPD(3), "bias": Euclidean(2)}),
        "nested": Product(
            {
                "layers": (Stiefel(3, 3, retraction="polar", transport=stiefel), [SPD(2)]),
                "scale": {"s": Sphere(2, retraction="exp", transport=sphere), "shift": Euclidean()},
            }
        ),
    }


PRODUCTS = _products({Stiefel: "projection", Grassmann: "projection", Sphere: "projection"})
ISOMETRIC_PRODUCTS = _products({Stiefel: "rotation", Grassmann: "parallel", Sphere: "parallel"})


def _of(cls, **choices):
    return [(cls(*sizes, **choices), batch) for sizes, batch in SIZES[cls]]


def _of_products(prefix, products):
    return {f"{prefix}-{name}": [(product, (2,))] for name, product in products.items()}


def _name(cls, *choices):
    return "-".join((cls.__name__, *choices))


# Name -> the instances (manifold, batch axes) to draw from, by what a law depends on.
BY_MANIFOLD = {_name(c): _of(c) for c in CLASSES} | _of_products("Product", PRODUCTS)
BY_RETRACTION = {
    _name(c, retraction): _of(c, retraction=retraction) for c in CLASSES for retraction in c.retractions
} | _of_products("Product", PRODUCTS)
BY_TRANSPORT = {_name(c, transport): _of(c, transport=transport) for c in CLASSES for transport in c.transports} | (
    _of_products("Product", PRODUCTS) | _of_products("Product-isometric", ISOMETRIC_PRODUCTS)
)
BY_BOTH = {
    _name(c, retraction, transport): _of(c, retraction=retraction, transport=transport)
    for c in CLASSES
    for retraction, transport in itertools.product(c.retractions, c.transports)
} | (_of_products("Product", PRODUCTS) | _of_products("Product-isometric", ISOMETRIC_PRODUCTS))


# --- the geometry in plain NumPy -----------------------------------------------------------------------------


def transpose(a):
    return np.swapaxes(a, -1, -2)


def symmetric(a):
    return (a + transpose(a)) / 2


def factors(manifold, *trees):
    """(factor, its part of each tree) for each factor of a product; a plain manifold is its own only factor."""
    if not isinstance(manifold, Product):
        return [(manifold, *trees)]
    leaves, structure = jax.tree.flatten(manifold.factors)
    return list(zip(leaves, *(structure.flatten_up_to(tree) for tree in trees), strict=True))


def rebuild(manifold, parts):
    if not isinstance(manifold, Product):
        return parts[0]
    return jax.tree.unflatten(jax.tree.structure(manifold.factors), parts)


def each(manifold, function, *trees):
    return rebuild(manifold, [function(*args) for args in factors(manifold, *trees)])


def combine(a, u, b, v):
    return jax.tree.map(lambda p, q: a * p + b * q, u, v)


def scale(a, u):
    return jax.tree.map(lambda p: a * p, u)


def largest(tree):
    """The largest entry of a pytree, in absolute value; NaN and inf count as inf."""
    entries = [np.max(np.nan_to_num(np.abs(leaf), nan=np.inf), initial=0.0) for leaf in jax.tree.leaves(tree)]
    return float(max(entries))


def gap(a, b):
    """The largest difference between two pytrees of the same shapes."""
    for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert p.shape == q.shape
    return largest(jax.tree.map(lambda p, q: p - q, a, b))


def finite(tree):
    return np.isfinite(largest(tree))


def ambient_inner(manifold, u, v):
    def one(m, a, b):
        axes = tuple(range(-len(m.ambient_shape), 0))
        return np.sum(a * b, axis=axes) if axes else a * b

    return sum(one(*args) for args in factors(manifold, u, v))


def inner(manifold, x, u, v):
    """⟨u, v⟩_x by the textbook formula; on SPD the trace of x⁻¹ u x⁻¹ v."""

    def one(m, x, u, v):
        if isinstance(m, SPD):
            return np.trace(np.linalg.solve(x, u) @ np.linalg.solve(x, v), axis1=-2, axis2=-1)
        return ambient_inner(m, u, v)

    return sum(one(*args) for args in factors(manifold, x, u, v))


def norm(manifold, x, u):
    return np.sqrt(np.maximum(inner(manifold, x, u, u), 0))


def project(manifold, x, z):
    def one(m, x, z):
        if isinstance(m, Euclidean):
            return z
        if isinstance(m, Sphere):
            return z - np.sum(x * z, axis=-1, keepdims=True) * x
        if isinstance(m, SPD):
            return symmetric(z)
        if isinstance(m, Grassmann):
            return z - x @ (transpose(x) @ z)
        return z - x @ symmetric(transpose(x) @ z)

    return each(manifold, one, x, z)


def tangent_defect(manifold, x, u):
    """How far u is from the tangent space at x, relative to u."""
    return gap(project(manifold, x, u), u) / max(largest(u), 1e-300)


def violation(manifold, x):
    """How far x is from the manifold; on SPD inf unless symmetric and positive definite."""

    def one(m, x):
        if isinstance(m, Euclidean):
            return 0.0
        if isinstance(m, Sphere):
            return largest(np.sum(x * x, axis=-1) - 1)
        if isinstance(m, SPD):
            positive = finite(x) and bool(np.all(np.linalg.eigvalsh(x)[..., 0] > 0))
            return largest(x - transpose(x)) / largest(x) if positive else np.inf
        return largest(transpose(x) @ x - np.eye(x.shape[-1]))

    return max(one(*args) for args in factors(manifold, x))


def condition(manifold, *points):
    """The product of the points' largest condition numbers: 1 but on SPD."""
    spd = [x for point in points for m, x in factors(manifold, point) if isinstance(m, SPD)]
    return float(np.prod([np.max(np.linalg.cond(x)) for x in spd])) if spd else 1.0


# --- points and tangent vectors ------------------------------------------------------------------------------


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


@dataclasses.dataclass(frozen=True)
class Case:
    """One drawn example: an instance, how its points and tangents look, and the seed of their numbers."""

    manifold: object
    batch: tuple
    seed: int
    points: str
    tangents: str
    norm: float
    condition: float

    @property
    def rng(self):
        return np.random.default_rng(self.seed)

    def point(self, index=0, points=None):
        rng = np.random.default_rng([self.seed, index])
        points = self.points if points is None else points

        def one(m):
            frame = axes if points == "axes" else haar
            if isinstance(m, Euclidean):
                return rng.standard_normal(self.batch + m.ambient_shape)
            if isinstance(m, Sphere):
                return frame(rng, self.batch, m.ambient_shape[0], 1)[..., 0]
            if isinstance(m, SPD):
                clusters = {"axes": 1, "repeated": 2}.get(points)
                return spd_matrix(rng, self.batch, m.ambient_shape[0], self.condition, clusters)
            return frame(rng, self.batch, *m.ambient_shape)

        return rebuild(self.manifold, [one(m) for (m,) in factors(self.manifold)])

    def tangent(self, x, index=0, length=None, tangents=None):
        """A tangent vector at x whose length in the metric is `length`, for each batch index."""
        rng = np.random.default_rng([self.seed, 1000 + index])
        tangents = self.tangents if tangents is None else tangents
        length = self.norm if length is None else length

        def one(m, x):
            z = rng.standard_normal(x.shape)
            if isinstance(m, SPD):
                if tangents == "rank one":
                    z = z[..., :1] * transpose(z[..., :1])
                elif tangents == "equal":
                    z = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
                lower = np.linalg.cholesky(x)
                return symmetric(lower @ symmetric(z) @ transpose(lower))
            if tangents == "rank one" and isinstance(m, Stiefel | Grassmann):
                z = z[..., :1] * rng.standard_normal((*self.batch, 1, x.shape[-1]))
            elif tangents == "equal" and isinstance(m, Stiefel | Grassmann):
                # The image of an orthonormal frame of the complement: all singular values equal where r ≤ d - r.
                z = np.linalg.qr(z - x @ (transpose(x) @ z))[0]
            # Twice: a tangent vector close to zero would keep relatively much of its normal part.
            return project(m, x, project(m, x, z))

        u = each(self.manifold, one, x)
        size = norm(self.manifold, x, u)
        factor = np.where(size > 1e-6, length / np.where(size > 1e-6, size, 1), 0.0)
        if tangents == "zero":
            factor = 0 * factor

        def stretch(m, u):
            return u * factor.reshape(factor.shape + (1,) * len(m.ambient_shape))

        return each(self.manifold, stretch, u)

    def ambient(self, index=0):
        rng = np.random.default_rng([self.seed, 2000 + index])
        return each(self.manifold, lambda m: rng.standard_normal(self.batch + m.ambient_shape))


NOT_ZERO = ["random", "rank one", "equal"]


@st.composite
def cases(draw, instances, max_norm=10.0, max_condition=1e3, points=None, tangents=None):
    """Strategy for a `Case` of one of the `instances`."""
    manifold, batch = draw(st.sampled_from(instances))
    return Case(
        manifold=manifold,
        batch=batch,
        seed=draw(st.integers(0, 2**32 - 1)),
        points=draw(st.sampled_from(points or ["random", "axes", "repeated"])),
        tangents=draw(st.sampled_from(tangents or [*NOT_ZERO, "zero"])),
        norm=draw(st.floats(1e-9, max_norm)),
        condition=10 ** draw(st.floats(0, np.log10(max_condition))),
    )
