"""Transports: linear, into the tangent space at y, the identity from x to x, isometric exactly when they say so."""

import numpy as np
import pytest
from array_backends import BACKENDS
from geometry_cases import (
    BY_BOTH,
    BY_TRANSPORT,
    Case,
    assume_one_shortest_path,
    cases,
    combine,
    condition,
    finite,
    gap,
    haar,
    inner,
    largest,
    norm,
    project,
    scale,
)
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import Grassmann, Sphere, Stiefel

every_transport = pytest.mark.parametrize("kind", BY_TRANSPORT)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def assert_transport_laws(backend, manifold, x, y, u, v):
    def transport(w):
        return backend(manifold, "transport", x, y, w)

    tolerance = backend.tolerance * condition(manifold, x, y)
    tu, tv = transport(u), transport(v)
    assert finite(tu)
    assert finite(tv)
    size = 1 + largest(u) + largest(v) + largest(tu) + largest(tv)
    assert gap(transport(combine(2.5, u, -0.7, v)), combine(2.5, tu, -0.7, tv)) <= 3 * tolerance * size
    assert gap(project(manifold, y, tu), tu) <= tolerance * size
    lengths = (1 + norm(manifold, x, u)) * (1 + norm(manifold, x, v))
    defect = np.abs(inner(manifold, y, tu, tv) - inner(manifold, x, u, v)) / lengths
    if manifold.isometric:
        assert np.max(defect) <= tolerance
        back = backend(manifold, "transport", y, x, tu)
        assert gap(back, u) <= 3 * tolerance * size
    else:
        ratio = norm(manifold, y, tu) / np.maximum(norm(manifold, x, u), 1e-300)
        assert np.max(ratio) <= 1 + tolerance


@every_transport
@every_backend
@given(data=st.data())
def test_transport_between_far_points(kind, backend, data):
    case = data.draw(cases(backend.few(BY_TRANSPORT[kind]), max_condition=30.0))
    x, y = case.point(0), case.point(1, points="random")
    assume_one_shortest_path(case.manifold, x, y)
    u, v = case.tangent(x, 0), case.tangent(x, 1, length=1.0, tangents="random")
    assert_transport_laws(backend, case.manifold, x, y, u, v)


@pytest.mark.parametrize("kind", BY_BOTH)
@every_backend
@given(data=st.data())
def test_transport_along_a_step(kind, backend, data):
    case = data.draw(cases(backend.few(BY_BOTH[kind]), max_norm=1.5, max_condition=30.0))
    x = case.point()
    u, v = case.tangent(x, 0), case.tangent(x, 1, length=1.0, tangents="random")
    y = backend(case.manifold, "retract", x, u)
    assume_one_shortest_path(case.manifold, x, y)
    assert_transport_laws(backend, case.manifold, x, y, u, v)


@every_transport
@every_backend
@given(data=st.data())
def test_transport_to_the_same_point_is_the_identity(kind, backend, data):
    case = data.draw(cases(backend.few(BY_TRANSPORT[kind]), max_condition=100.0))
    x = case.point()
    u = case.tangent(x)
    tolerance = backend.tolerance * condition(case.manifold, x) * (1 + largest(u))
    assert gap(backend(case.manifold, "transport", x, x, u), u) <= tolerance


@every_transport
@every_backend
@given(data=st.data())
def test_zero_is_transported_to_zero(kind, backend, data):
    case = data.draw(cases(backend.few(BY_TRANSPORT[kind]), max_condition=100.0))
    x, y = case.point(0), case.point(1, points="random")
    assume_one_shortest_path(case.manifold, x, y)
    assert largest(backend(case.manifold, "transport", x, y, scale(0.0, x))) == 0


@every_transport
def test_isometric_says_the_truth(kind):
    """On an instance with room, a transport that does not claim to be isometric is visibly not so."""
    manifold, batch = BY_TRANSPORT[kind][0]
    case = Case(manifold, batch, seed=3, points="random", tangents="random", norm=1.0, condition=5.0)
    x, y = case.point(0), case.point(1)
    u = case.tangent(x)
    ratio = norm(manifold, y, manifold.transport(x, y, u)) / norm(manifold, x, u)
    if manifold.isometric:
        assert np.max(np.abs(ratio - 1)) <= 1e-12
    else:
        assert np.min(ratio) < 0.99


@pytest.mark.parametrize(
    "manifold",
    [
        cls(100, 10, retraction=retraction, transport=transport)
        for cls, transport in ((Stiefel, "rotation"), (Grassmann, "parallel"))
        for retraction in cls.retractions
    ],
    ids=str,
)
@every_backend
def test_inner_products_are_preserved_at_the_paper_s_size(manifold, backend):
    """Over steps of every length up to 10, and between independent points."""
    rng = np.random.default_rng(0)
    lengths = np.geomspace(1e-6, 10, 15)
    x = haar(rng, (16,), 100, 10)
    u = project(manifold, x, rng.standard_normal(x.shape))
    v = project(manifold, x, rng.standard_normal(x.shape))
    u, v = (w / norm(manifold, x, w)[:, None, None] for w in (u, v))
    steps = project(manifold, x[:15], rng.standard_normal((15, 100, 10)))
    steps *= (lengths / norm(manifold, x[:15], steps))[:, None, None]
    y = np.concatenate([backend(manifold, "retract", x[:15], steps), haar(rng, (1,), 100, 10)])
    tu, tv = backend(manifold, "transport", x, y, u), backend(manifold, "transport", x, y, v)
    defect = np.abs(inner(manifold, y, tu, tv) - inner(manifold, x, u, v))
    assert np.max(defect) <= backend.tolerance
    assert np.max(np.abs(norm(manifold, y, tu) - 1)) <= backend.tolerance


@pytest.mark.parametrize(
    ("manifold", "x", "y"),
    [
        (Grassmann(4, 2, transport="parallel"), np.eye(4)[:, :2], np.eye(4)[:, 2:]),
        (Stiefel(4, 2, transport="rotation"), np.eye(4)[:, :2], np.eye(4)[:, 1:3]),
        (Sphere(3, transport="parallel"), np.eye(3)[0], -np.eye(3)[0]),
    ],
    ids=["Grassmann", "Stiefel", "Sphere"],
)
@every_backend
def test_points_without_a_shortest_path_are_refused(manifold, x, y, backend):
    u = project(manifold, x, np.ones_like(x))
    if backend.namespace == "jax":  # compiled code cannot raise: NaN, never a wrong number
        assert not finite(backend(manifold, "transport", x, y, u))
    else:
        with pytest.raises(ValueError, match="no unique shortest path"):
            backend(manifold, "transport", x, y, u)


@pytest.mark.parametrize("angle", [1e-1, 1e-3, 1e-5])
def test_sphere_transport_close_to_the_opposite_point(angle):
    manifold = Sphere(3, transport="parallel")
    x = np.array([1.0, 0.0, 0.0])
    y = np.array([-np.cos(angle), np.sin(angle), 0.0])
    u, v = np.array([0.0, 0.6, 0.8]), np.array([0.0, -0.3, 2.0])
    tu, tv = manifold.transport(x, y, u), manifold.transport(x, y, v)
    assert abs(tu @ tv - u @ v) <= 1e-14
    assert abs(tu @ y) <= 1e-15 / angle
