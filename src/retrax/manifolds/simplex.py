"""Probability vectors with positive entries and the Fisher-Rao metric ⟨u, v⟩_x = Σ u v / x.

s = √x takes it to the unit sphere, with u ↦ u / (2s): an isometry up to the factor 2 (Lebanon 2005; Åström, Petra,
Schmitzer & Schnörr 2017).
"""

from typing import ClassVar

from retrax import _linalg
from retrax.manifolds import sphere
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction
from retrax.typing import Array


def _total(a: Array) -> Array:
    return _linalg.namespace(a).sum(a, axis=-1, keepdims=True)


def _root(x: Array) -> Array:
    return _linalg.namespace(x).sqrt(x)


def _interior(x: Array) -> Array:
    """x with no entry below ε², and of sum 1: a distance from the boundary that can be divided by."""
    xp = _linalg.namespace(x)
    least = _linalg.epsilon(x) ** 2
    x = xp.where(x < least, least + 0 * x, x)
    return x / _total(x)


def multiplicative(self: "Simplex", x: Array, u: Array) -> Array:
    """R_x(u) = x exp(u/x) / Σ x exp(u/x): never leaves the interior."""
    xp = _linalg.namespace(x)
    rate = u / x
    return _interior(x * xp.exp(rate - xp.max(rate, axis=-1, keepdims=True)))


def exponential(self: "Simplex", x: Array, u: Array) -> Array:
    """Exp_x(u) = s², with s the end of the great circle from √x with velocity u / (2√x).

    A geodesic up to the boundary, at which it ends; beyond, the great circle's squares.
    """
    root = _root(x)
    end = sphere.exponential(None, root, u / (2 * root))
    return _interior(end * end)


def parallel_transport(self: "Simplex", x: Array, y: Array, u: Array) -> Array:
    """Along the geodesic from x to y: the sphere's."""
    start, end = _root(x), _root(y)
    return self.project(y, 2 * end * sphere.parallel_transport(None, start, end, u / (2 * start)))


class Simplex(ArrayManifold):
    """`Simplex(d)`: probability vectors with d positive entries, Fisher-Rao metric; `Power(Simplex(d), n)` for n rows.

    Entries are kept above ε², ε being the rounding unit.
    """

    d: int

    retractions: ClassVar[dict[str, Retraction]] = {"multiplicative": multiplicative, "exp": exponential}
    transports: ClassVar[dict[str, NamedTransport]] = {"parallel": NamedTransport(parallel_transport, isometric=True)}
    refused: ClassVar[dict[str, str]] = {
        "identity": "it does not respect the Fisher-Rao metric",
        "projection": "every vector of sum 0 is tangent at every point, so it would be the identity, "
        "which does not respect the Fisher-Rao metric",
        "addition": "x + u may have negative entries; 'multiplicative' never has",
    }
    _remedy = "a point must have positive entries of sum 1"

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        super().__post_init__()
        self._check_sizes("d")

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.d,)

    def inner(self, x: Array, u: Array, v: Array) -> Array:
        """Σ u v / x."""
        return _total(u * v / x)[..., 0]

    def project(self, x: Array, z: Array) -> Array:
        """z minus its mean."""
        return z - _total(z) / self.d

    def gradient(self, x: Array, ambient_gradient: Array) -> Array:
        """x (∇f - Σ x ∇f)."""
        return self.project(x, x * (ambient_gradient - _total(x * ambient_gradient)))

    def exp(self, x: Array, u: Array) -> Array:
        """The end of the geodesic that starts at x with velocity u, which must not meet the boundary."""
        return exponential(self, x, u)

    def log(self, x: Array, y: Array) -> Array:
        """The velocity u with Exp_x(u) = y."""
        start = _root(x)
        return self.project(x, 2 * start * sphere.logarithm(start, _root(y)))

    def distance(self, x: Array, y: Array) -> Array:
        """Twice the angle between √x and √y."""
        velocity = sphere.logarithm(_root(x), _root(y))
        return 2 * _linalg.safe_sqrt(_total(velocity * velocity)[..., 0])

    def random_point(self, gaussian: Array) -> Array:
        """The softmax of the Gaussian vector."""
        xp = _linalg.namespace(gaussian)
        return _interior(xp.exp(gaussian - xp.max(gaussian, axis=-1, keepdims=True)))

    def random_tangent(self, x: Array, gaussian: Array) -> Array:
        """√x · gaussian, projected in the metric: isotropic."""
        root = _root(x)
        return self.project(x, root * (gaussian - root * _total(root * gaussian)))

    def violation(self, x: Array) -> Array:
        """|Σ x - 1|, and 1 more where an entry is not positive."""
        xp = _linalg.namespace(x)
        off = xp.abs(_total(x)[..., 0] - 1)
        return off + xp.where(xp.min(x, axis=-1) > 0, 0 * off, 1 + 0 * off)
