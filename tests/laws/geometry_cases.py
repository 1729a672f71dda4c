"""Manifolds, points and tangent vectors to try the laws on, measured by the formulas of `textbook.py`.

Points and tangents include the awkward ones: coordinate axes, repeated singular values and eigenvalues, rank one, zero.
"""

import dataclasses

import jax
import numpy as np
import textbook
from hypothesis import assume
from hypothesis import strategies as st
from textbook import axes, haar, spd_matrix, symmetric, transpose

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
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
)

__all__ = ["axes", "haar", "spd_matrix", "symmetric", "transpose"]

# (arguments of the constructor, leading batch axes): edge cases r = 1, r = d and d = 1 among them.
BURES = "bures-wasserstein"
FAMILIES = {
    "Euclidean": (Euclidean, [((2, 3), (2, 1)), ((), ()), ((3,), ()), ((), (2,))]),
    "Sphere": (Sphere, [((5,), ()), ((2,), (3,)), ((1,), ()), ((3,), (2, 2))]),
    "Oblique": (Oblique, [((4, 2), ()), ((2, 3), (2,)), ((1, 1), ())]),
    "Stiefel": (Stiefel, [((6, 3), ()), ((5, 1), (2,)), ((4, 4), ()), ((1, 1), (2,)), ((5, 4), (2, 2))]),
    "Grassmann": (Grassmann, [((6, 3), ()), ((5, 1), (2,)), ((4, 4), ()), ((1, 1), (2,)), ((5, 4), (2, 2))]),
    "GeneralizedStiefel": (GeneralizedStiefel, [((5, 2), ()), ((3, 1), (2,)), ((2, 2), (2,))]),
    "FixedRank": (FixedRank, [((6, 5, 2), ()), ((3, 4, 2), (2,)), ((2, 3, 1), (2,)), ((2, 2, 2), ())]),
    "SpecialOrthogonal": (SpecialOrthogonal, [((4,), ()), ((3,), (2,)), ((1,), ()), ((2,), (2, 2))]),
    "SPD": (SPD, [((4,), ()), ((2,), (2,)), ((1,), ()), ((3,), (2, 2))]),
    "LogEuclidean": (SPD, [((3, "log-euclidean"), ()), ((2, "log-euclidean"), (2,)), ((1, "log-euclidean"), ())]),
    "BuresWasserstein": (SPD, [((3, BURES), ()), ((2, BURES), (2,)), ((1, BURES), ())]),
    "Symmetric": (Symmetric, [((3,), ()), ((1,), (2,))]),
    "Positive": (Positive, [((2, 3), (2,)), ((), ()), ((3,), ())]),
    "Simplex": (Simplex, [((4,), ()), ((2,), (2,)), ((1,), ())]),
    "PoincareBall": (PoincareBall, [((3,), ()), ((2, 0.5), (2,)), ((1, 2.0), ())]),
    "Lorentz": (Lorentz, [((3,), ()), ((2, 0.5), (2,)), ((1, 2.0), ())]),
}


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


POWERS = {
    "Power": [(Power(Sphere(3), 4), (2,)), (Power(SPD(2), 2, 2), ()), (Power(Stiefel(3, 2)), (2,))],
    "Power-isometric": [(Power(Sphere(3, retraction="exp", transport="parallel"), 4), (2,))],
}
PRODUCTS = _products({Stiefel: "projection", Grassmann: "projection", Sphere: "projection"})
ISOMETRIC_PRODUCTS = _products({Stiefel: "rotation", Grassmann: "parallel", Sphere: "parallel"})


def _of(family, **choices):
    cls, instances = FAMILIES[family]
    return [(cls(*arguments, **choices), batch) for arguments, batch in instances]


def _choices(kind):
    """(family, choice) for each choice of retraction or transport that a family has."""
    return [(family, choice) for family in FAMILIES for choice in getattr(_of(family)[0][0], kind)]


def _pairs(family):
    """Pairs in which each choice comes up: a transport sees two points, not how they came about."""
    retractions, transports = (list(getattr(_of(family)[0][0], kind)) for kind in ("retractions", "transports"))
    longer = max(len(retractions), len(transports))
    return [(retractions[i % len(retractions)], transports[i % len(transports)]) for i in range(longer)]


def _of_products(prefix, products):
    return {f"{prefix}-{name}": [(product, (2,))] for name, product in products.items()}


# Name -> the instances (manifold, batch axes) to draw from, by what a law depends on.
_COMPOSED = POWERS | _of_products("Product", PRODUCTS)
_ALL_COMPOSED = _COMPOSED | _of_products("Product-isometric", ISOMETRIC_PRODUCTS)
BY_MANIFOLD = {family: _of(family) for family in FAMILIES} | _COMPOSED
BY_RETRACTION = {f"{f}-{r}": _of(f, retraction=r) for f, r in _choices("retractions")} | _COMPOSED
BY_TRANSPORT = {f"{f}-{t}": _of(f, transport=t) for f, t in _choices("transports")} | _ALL_COMPOSED
BY_BOTH = {f"{f}-{r}-{t}": _of(f, retraction=r, transport=t) for f in FAMILIES for r, t in _pairs(f)} | _ALL_COMPOSED


# --- the geometry in plain NumPy, factor by factor -----------------------------------------------------------


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
    """The product that `project` is self-adjoint in: the Euclidean one, on the hyperboloid Minkowski's."""
    return sum(textbook.of(m).ambient_inner(m, *parts) for m, *parts in factors(manifold, u, v))


def euclidean_inner(manifold, u, v):
    """Σ uᵢvᵢ for each batch index."""
    return sum(textbook.Textbook().ambient_inner(m, *parts) for m, *parts in factors(manifold, u, v))


def inner(manifold, x, u, v):
    """⟨u, v⟩_x by the textbook formula."""
    return sum(textbook.of(m).inner(m, *parts) for m, *parts in factors(manifold, x, u, v))


def norm(manifold, x, u):
    return np.sqrt(np.maximum(inner(manifold, x, u, u), 0))


def size(manifold, x, z):
    """The length of an ambient array that need not be tangent at x."""
    return np.sqrt(sum(textbook.of(m).size(m, *parts) ** 2 for m, *parts in factors(manifold, x, z)))


def project(manifold, x, z):
    return each(manifold, lambda m, x, z: textbook.of(m).project(m, x, z), x, z)


def tangent_defect(manifold, x, u):
    """How far u is from the tangent space at x, relative to u."""
    return gap(project(manifold, x, u), u) / max(largest(u), 1e-300)


def violation(manifold, x):
    """How far x is from the manifold; on SPD inf unless symmetric and positive definite."""
    return max(textbook.of(m).violation(m, part) for m, part in factors(manifold, x))


def condition(manifold, *points):
    """By how much rounding errors grow at these points: 1 but on SPD and in hyperbolic space."""
    return float(np.prod([max(textbook.of(m).condition(m, x) for m, x in factors(manifold, p)) for p in points]))


def projection_condition(manifold, x):
    """By how much rounding errors grow in a projection: 1 but on the hyperboloid."""
    return max(textbook.of(m).projection_condition(m, part) for m, part in factors(manifold, x))


def bend(manifold, x):
    """A bound of the second derivative of a unit step, where it is not 1."""
    return max(textbook.of(m).bend(m, part) for m, part in factors(manifold, x))


def assume_representable(manifold, x, u, epsilon):
    """A matrix whose condition number is beyond 1/ε is not positive definite once rounded."""
    for m, part, tangent in factors(manifold, x, u):
        assume(textbook.of(m).condition_after(m, part, tangent) < 0.02 / epsilon)


def assume_one_shortest_path(manifold, x, y, least=1e-3):
    """Away from right angles, opposite points and half turns, where nothing is unique."""
    assume(min(textbook.of(m).separation(m, *parts) for m, *parts in factors(manifold, x, y)) > least)


# --- points and tangent vectors ------------------------------------------------------------------------------


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
            return textbook.of(m).point(m, rng, self.batch, points, self.condition)

        return rebuild(self.manifold, [one(m) for (m,) in factors(self.manifold)])

    def tangent(self, x, index=0, length=None, tangents=None):
        """A tangent vector at x whose length in the metric is `length`, for each batch index."""
        rng = np.random.default_rng([self.seed, 1000 + index])
        tangents = self.tangents if tangents is None else tangents
        length = self.norm if length is None else length

        u = each(self.manifold, lambda m, x: textbook.of(m).tangent(m, rng, x, tangents), x)
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
