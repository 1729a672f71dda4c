"""Under JAX: compiled and mapped operations give the same numbers, and derivatives are right and finite everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_backends import jax_precision
from geometry_cases import BY_BOTH, BY_MANIFOLD, BY_RETRACTION, BY_TRANSPORT, Case, combine, finite, gap, largest, scale

from retrax import _linalg
from retrax.manifolds import SPD, Grassmann, Product


def without(kinds, *names):
    """Products differentiate factor by factor, and compile slowly: one structure is enough."""
    return [kind for kind in kinds if not any(name in kind for name in names)]


@pytest.fixture(autouse=True)
def _double_precision():
    with jax_precision("float64"):
        yield


def make(instance, batch=(), points="random", tangents="random", length=0.7):
    manifold, _ = instance
    case = Case(manifold, batch, seed=2, points=points, tangents=tangents, norm=length, condition=10.0)
    x, y = case.point(0), case.point(1, points="random")
    u, v = case.tangent(x, 0), case.tangent(x, 1, length=1.0, tangents="random")
    return manifold, *(jax.tree.map(jnp.asarray, tree) for tree in (x, y, u, v, case.ambient()))


def total(tree, weights):
    return sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(tree), jax.tree.leaves(weights), strict=True))


@pytest.mark.parametrize("kind", without(BY_BOTH, "tuple", "nested", "Product-dict"))
def test_eager_compiled_and_mapped_agree(kind):
    manifold, x, y, u, *_ = make(BY_BOTH[kind][0], batch=(2,))
    for operation, args in {
        "retract": (x, u),
        "transport": (x, y, u),
    }.items():
        function = getattr(manifold, operation)
        eager = function(*args)
        assert gap(jax.jit(function)(*args), eager) <= 1e-13
        assert gap(jax.vmap(function)(*args), eager) <= 1e-13


# The log-Euclidean formulas contain a derivative already, and FixedRank's an SVD: as documented, their derivatives are
# finite only where eigenvalues and singular values differ.
@pytest.mark.parametrize("kind", without(BY_RETRACTION, "tuple", "nested", "LogEuclidean-exp", "FixedRank-svd"))
def test_derivatives_of_a_retraction_at_zero_and_elsewhere(kind):
    """The first-order law without a step size: D R_x(0)[v] = v. And gradients are finite, in both arguments."""
    for instance in BY_RETRACTION[kind][:2]:
        manifold = instance[0]
        forward = jax.jit(lambda x, u, v, m=manifold: jax.jvp(lambda w: m.retract(x, w), (u,), (v,))[1])
        backward = jax.jit(jax.grad(lambda x, u, w, m=manifold: total(m.retract(x, u), w), argnums=(0, 1)))
        for points in ("random", "axes"):
            for tangents in ("random", "equal", "zero"):
                _, x, _, u, v, weights = make(instance, points=points, tangents=tangents)
                assert finite(backward(x, u, weights))
            assert gap(forward(x, scale(0.0, u), v), v) <= 1e-12


@pytest.mark.parametrize("kind", without(BY_TRANSPORT, "tuple", "nested", "LogEuclidean"))
def test_gradient_through_a_transport_is_finite(kind):
    for instance in BY_TRANSPORT[kind][:2]:
        manifold = instance[0]
        gradient = jax.jit(jax.grad(lambda x, y, u, w, m=manifold: total(m.transport(x, y, u), w), argnums=(0, 1, 2)))
        for points in ("random", "axes"):
            _, x, y, u, _, weights = make(instance, points=points)
            assert finite(gradient(x, x, u, weights))
            assert finite(gradient(x, y, u, weights))


@pytest.mark.parametrize("kind", without(BY_BOTH, "tuple", "nested", "Product-dict"))
def test_derivatives_agree_with_differences(kind):
    """The hand-written derivative rules, through retraction and transport, in all arguments at once."""
    manifold, x, y, u, v, z = make(BY_BOTH[kind][0])
    # Symmetric directions on SPD, where only one triangle is read; any direction elsewhere.
    dx, dy, du = (manifold.project(x, d) if _has_spd(manifold) else d for d in (z, scale(0.5, z), v))
    for function, primals, tangents in (
        (manifold.retract, (x, u), (dx, du)),
        (manifold.transport, (x, y, u), (dx, dy, du)),
    ):
        compiled = jax.jit(function)
        _, derivative = jax.jvp(compiled, primals, tangents)
        h = 1e-5

        def at(step, f=compiled, primals=primals, tangents=tangents):
            return f(*(combine(1.0, p, step, d) for p, d in zip(primals, tangents, strict=True)))

        difference = scale(1 / (2 * h), combine(1.0, at(h), -1.0, at(-h)))
        assert gap(derivative, difference) <= 1e-7 * (1 + largest(difference) / 10)


def _has_spd(manifold):
    return isinstance(manifold, SPD | Product)


DISTANCES = [
    "Euclidean",
    "Sphere",
    "Grassmann",
    "SpecialOrthogonal",
    "SPD",
    "LogEuclidean",
    "BuresWasserstein",
    "Positive",
    "Simplex",
    "PoincareBall",
    "Lorentz",
]


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("points", ["random", "axes", "repeated"])
def test_gradient_of_the_squared_distance_is_minus_twice_the_logarithm(kind, points):
    """True away from x = y and at it, where the distance itself has no derivative."""
    manifold, x, y, *_ = make(BY_MANIFOLD[kind][0], points=points)
    log, gradient_at = jax.jit(manifold.log), jax.jit(manifold.gradient)
    if kind == "Grassmann":  # nearby, for axes can be at right angles to y
        y = manifold.retract(x, 0.3 * manifold.project(x, y))
    ambient = jax.jit(jax.grad(lambda x, y: manifold.distance(x, y) ** 2))
    for target in (y, x):
        # Only one triangle of a symmetric matrix is read: `gradient` takes the symmetric part.
        assert gap(gradient_at(x, ambient(x, target)), -2 * log(x, target)) <= 1e-10


@pytest.mark.parametrize("kind", BY_MANIFOLD)
def test_derivative_of_the_norm_is_finite_at_zero(kind):
    manifold, x, _, u, *_ = make(BY_MANIFOLD[kind][0])
    assert finite(jax.grad(lambda w: manifold.norm(x, w))(scale(0.0, u)))
    assert finite(jax.grad(lambda w: manifold.norm(x, w))(u))


@pytest.mark.parametrize("name", list(_linalg._FUNCTIONS))
@pytest.mark.parametrize(
    "eigenvalues",
    [
        (1.0, 1.0, 1.0),
        (2.0, 2.0, 0.5),
        (3.0, 2.0, 1.0),
        (1.0, 1.0 + 1e-9, 1.0 + 1e-6),
        (4.0, 1e-5, 1e-4),
        (9.0, 1.0, 1e-3),
    ],
)
def test_derivatives_of_symmetric_functions(name, eigenvalues):
    """At repeated and nearly repeated eigenvalues, and where the series takes over from the formula."""
    if name == "squared angle":  # of squared sines, which do not exceed 1
        eigenvalues = np.array(eigenvalues) / 10
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    a = jnp.asarray((q * np.array(eigenvalues)) @ q.T)
    a = (a + a.T) / 2
    e = rng.standard_normal((3, 3))
    e = jnp.asarray(e + e.T)
    h = 1e-6 * min(eigenvalues)

    f = jax.jit(lambda x: _linalg.symmetric_functions(x, name)[0])
    _, derivative = jax.jvp(f, (a,), (e,))
    difference = (8 * (f(a + h * e) - f(a - h * e)) - (f(a + 2 * h * e) - f(a - 2 * h * e))) / (12 * h)
    assert gap(derivative, difference) <= 1e-8 / min(eigenvalues) * (1 + np.max(np.abs(derivative)))


@pytest.mark.parametrize("function", ["inverse_sqrt", "polar_factor"])
@pytest.mark.parametrize("size", [1, 3])
def test_derivatives_of_polar_factors(function, size):
    function = {"inverse_sqrt": _linalg.inverse_sqrt, "polar_factor": _linalg.polar_factor}[function]
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((size, size)))[0]
    for values in (np.ones(size), np.linspace(0.3, 0.9, size)):
        a = jnp.asarray((q * values) @ q.T)
        e = jnp.asarray(rng.standard_normal((size, size)))
        if function is _linalg.inverse_sqrt:
            e = (e + e.T) / 2
        _, derivative = jax.jvp(function, (a,), (e,))
        h = 1e-6
        assert gap(derivative, (function(a + h * e) - function(a - h * e)) / (2 * h)) <= 1e-7
        assert finite(jax.grad(lambda b: jnp.sum(function(b)))(a))


def test_manifolds_are_static_arguments():
    """A manifold holds no arrays: it is hashable, and equal to another made alike, so nothing is compiled twice."""
    traces = []

    def step(manifold, x):
        traces.append(manifold)
        return manifold.project(x, x)

    step = jax.jit(step, static_argnums=0)
    x = jnp.eye(4)[:, :2]
    step(Grassmann(4, 2), x)
    step(Grassmann(4, 2), x)
    assert len(traces) == 1
    assert Product({"a": SPD(2)}) == Product({"a": SPD(2)})
    assert hash(Product({"a": SPD(2)})) == hash(Product({"a": SPD(2)}))
    assert Product({"a": SPD(2)}) != Product({"b": SPD(2)})
    assert Grassmann(4, 2) != Grassmann(4, 2, transport="parallel")
