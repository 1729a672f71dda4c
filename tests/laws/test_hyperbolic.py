"""Hyperbolic space far out: accuracy as the documents state it, no NaN, and two models that are one space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_backends import BACKENDS, DOUBLE, Backend, jax_precision
from geometry_cases import BY_RETRACTION, finite, gap, inner, largest, norm

import retrax as rx
from retrax.manifolds import Lorentz, PoincareBall

every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)
HYPERBOLIC = [kind for kind in BY_RETRACTION if kind.startswith(("PoincareBall", "Lorentz"))]


def pairs(radius, curvature, count=40):
    """Two neighbours (about 1/√c apart) at the given radius: unit vectors, in extended precision."""
    rng = np.random.default_rng(int(radius))
    z = rng.standard_normal((count, 3))
    w = z / np.linalg.norm(z, axis=-1, keepdims=True) + np.exp(-radius) * rng.standard_normal((count, 3))
    z, w = (a.astype(np.longdouble) / np.linalg.norm(a, axis=-1, keepdims=True) for a in (z, w))
    return z, w


def in_ball(z, radius, curvature, dtype):
    return (np.tanh(np.longdouble(radius) / 2) * z / np.sqrt(np.longdouble(curvature))).astype(dtype)


def on_hyperboloid(z, radius, curvature, dtype):
    space = (np.sinh(np.longdouble(radius)) * z / np.sqrt(np.longdouble(curvature))).astype(dtype)
    time = np.sqrt(1 / np.longdouble(curvature) + np.sum(space.astype(np.longdouble) ** 2, axis=-1, keepdims=True))
    return np.concatenate([time.astype(dtype), space], axis=-1)


def exact_distance(manifold, x, y):
    """In extended precision, from the numbers as they are stored (of the hyperboloid: the space components)."""
    c = np.longdouble(manifold.curvature)
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    if isinstance(manifold, Lorentz):
        x, y = x[..., 1:], y[..., 1:]
        x, y = (a / (1 + np.sqrt(1 + c * np.sum(a * a, axis=-1, keepdims=True))) for a in (x, y))
    gaps = [1 - c * np.sum(a * a, axis=-1) for a in (x, y)]
    return 2 / np.sqrt(c) * np.arcsinh(np.sqrt(c * np.sum((x - y) ** 2, axis=-1) / (gaps[0] * gaps[1])))


@pytest.mark.parametrize("curvature", [1.0, 0.1])
@pytest.mark.parametrize("radius", [1, 4, 8, 12, 20])
@pytest.mark.parametrize("make", [in_ball, on_hyperboloid], ids=["ball", "hyperboloid"])
@every_backend
def test_accuracy_falls_as_the_exponential_of_the_radius(make, backend, radius, curvature):
    """Distances, and exp after log, within 2 ε exp(√c ρ) (in units of 1/√c), as docs/manifolds.md states."""
    if radius > 12 and backend.dtype == "float32":
        pytest.skip("further out than single precision carries")
    manifold = {in_ball: PoincareBall, on_hyperboloid: Lorentz}[make](3, curvature=curvature)
    x, y = (make(z, radius, curvature, backend.dtype) for z in pairs(radius, curvature))
    allowed = 2 * backend.epsilon * np.exp(radius) / curvature**0.5
    assert largest(backend(manifold, "distance", x, y) - exact_distance(manifold, x, y)) <= allowed
    u = backend(manifold, "log", x, y)
    assert largest(exact_distance(manifold, backend(manifold, "exp", x, u), y)) <= allowed
    assert largest(backend(manifold, "norm", x, u) - exact_distance(manifold, x, y)) <= 4 * allowed


@pytest.mark.parametrize("kind", HYPERBOLIC)
@every_backend
def test_no_step_is_too_long(kind, backend):
    """Out to the rim and back by steps of any length: finite, on the manifold, at finite distance."""
    rng = np.random.default_rng(0)
    for manifold, _ in BY_RETRACTION[kind]:
        x = backend(manifold, "random_point", rng.standard_normal((50, *manifold.ambient_shape)))
        for length in (1.0, 30.0, 1e3, 1e-3, 1e6, 1.0):
            u = backend(manifold, "random_tangent", x, length * rng.standard_normal(x.shape))
            if "addition" in kind and length > 30:  # a chart's coordinates, of which exp(30) is far enough
                continue
            y = backend(manifold, "retract", x, u)
            assert finite(y)
            assert largest(backend(manifold, "violation", y)) <= 4 * backend.epsilon
            distance = backend(manifold, "distance", x, y)
            assert finite(distance)
            assert finite(backend(manifold, "log", x, y))
            assert finite(backend(manifold, "transport", x, y, u))
            assert finite(backend(manifold, "gradient", y, rng.standard_normal(x.shape)))
            x = y


@pytest.mark.parametrize("curvature", [1.0, 0.1])
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
def test_the_two_models_are_one_space(backend, curvature):
    ball, lorentz = PoincareBall(3, curvature=curvature), Lorentz(3, curvature=curvature)
    z, w = pairs(2, curvature)
    x, y = in_ball(z, 2, curvature, "float64"), in_ball(w, 1, curvature, "float64")
    u, v = np.random.default_rng(1).standard_normal((2, *x.shape)) / 3
    a, b = backend(lorentz, "from_ball", x), backend(lorentz, "from_ball", y)
    assert gap(a, on_hyperboloid(z, 2, curvature, "float64")) <= 1e-13
    assert gap(backend(lorentz, "to_ball", a), x) <= 1e-14
    p, q = (backend(lorentz, "tangent_from_ball", x, t) for t in (u, v))
    assert gap(backend(lorentz, "tangent_to_ball", a, p), u) <= 1e-13
    assert gap(inner(lorentz, a, p, q), inner(ball, x, u, v)) <= 1e-11
    assert gap(backend(lorentz, "distance", a, b), backend(ball, "distance", x, y)) <= 1e-13
    end, carried = backend(ball, "exp", x, u), backend(ball, "transport", x, y, u)
    assert gap(backend(lorentz, "exp", a, p), backend(lorentz, "from_ball", end)) <= 1e-10
    assert gap(backend(lorentz, "transport", a, b, p), backend(lorentz, "tangent_from_ball", y, carried)) <= 1e-11


@pytest.mark.parametrize("cls", [PoincareBall, Lorentz])
@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "1", True, None])
def test_curvatures_that_are_not_positive_numbers(cls, bad):
    with pytest.raises(ValueError, match=r"curvature of .* must be a positive number"):
        cls(3, curvature=bad)


@pytest.mark.parametrize("manifold", [PoincareBall(2), PoincareBall(2, curvature=3.0), Lorentz(2)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_barycentre_is_found(manifold, dtype):
    """The Fréchet mean: where the mean of the logarithms vanishes."""
    rng = np.random.default_rng(3)
    data = manifold.random_point(2 * rng.standard_normal((30, *manifold.ambient_shape))).astype(dtype)

    def loss(x, batch):
        return jnp.mean(manifold.distance(x, batch) ** 2) / 2

    problem = rx.Problem(loss, manifold, data=data)
    result = rx.minimize(problem, rx.rsrm(0.3), steps=2000, batch_size=5, dtype=dtype, seed=0)
    assert norm(manifold, result.x, np.mean(manifold.log(result.x, data), axis=0)) <= 0.05 / manifold.curvature**0.5
    with jax_precision(dtype):
        ambient = jax.grad(loss)(jnp.asarray(result.x), jnp.asarray(data))
        gradient = manifold.gradient(result.x, np.asarray(ambient))
    mean = -np.mean(manifold.log(result.x, data), axis=0)
    assert gap(gradient, mean) <= 1e3 * Backend("numpy", dtype).epsilon / manifold.curvature**0.5
