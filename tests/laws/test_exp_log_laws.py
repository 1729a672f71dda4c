"""exp and log are inverse to each other; the distance is symmetric and the length of log."""

import pytest
from array_backends import BACKENDS
from geometry_cases import (
    BY_MANIFOLD,
    assume_one_shortest_path,
    cases,
    condition,
    finite,
    gap,
    largest,
    norm,
    scale,
    tangent_defect,
    transpose,
    violation,
)
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import Grassmann

# Inside the injectivity radius: π on the sphere, π/2 (for the largest angle) on Grassmann, √2 π for one plane of SO(n),
# and before the geodesics of Bures-Wasserstein and of the simplex meet the boundary.
RADIUS = {
    "Euclidean": 10.0,
    "Sphere": 3.0,
    "Oblique": 3.0,
    "Grassmann": 1.4,
    "SpecialOrthogonal": 3.0,
    "SPD": 4.0,
    "LogEuclidean": 3.0,
    "BuresWasserstein": 0.3,
    "Symmetric": 10.0,
    "Positive": 4.0,
    "Simplex": 0.2,
    "PoincareBall": 3.0,
    "Lorentz": 3.0,
    "Power-isometric": 3.0,
}
every_manifold = pytest.mark.parametrize("kind", RADIUS)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def same_point(manifold, a, b):
    """The largest difference; between subspaces, that of their projectors."""
    if isinstance(manifold, Grassmann):
        return gap(a @ transpose(a), b @ transpose(b))
    return gap(a, b)


def tolerance_at(backend, manifold, *points):
    return 10 * backend.tolerance * condition(manifold, *points)


@every_manifold
@every_backend
@given(data=st.data())
def test_log_undoes_exp(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind]), max_norm=RADIUS[kind], max_condition=10.0))
    x = case.point()
    u = case.tangent(x)
    y = backend(case.manifold, "exp", x, u)
    tolerance = tolerance_at(backend, case.manifold, x, y) * (1 + largest(u))
    assert violation(case.manifold, y) <= backend.tolerance
    assert gap(backend(case.manifold, "log", x, y), u) <= tolerance
    assert gap(backend(case.manifold, "distance", x, y), norm(case.manifold, x, u)) <= tolerance


@every_manifold
@every_backend
@given(data=st.data())
def test_exp_undoes_log_and_distance_is_symmetric(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind]), max_condition=10.0))
    x, y = case.point(0), case.point(1, points="random")
    assume_one_shortest_path(case.manifold, x, y, least=3e-2)
    u = backend(case.manifold, "log", x, y)
    tolerance = 10 * tolerance_at(backend, case.manifold, x, y)
    assert same_point(case.manifold, backend(case.manifold, "exp", x, u), y) <= tolerance
    distance = backend(case.manifold, "distance", x, y)
    assert gap(distance, backend(case.manifold, "distance", y, x)) <= tolerance
    assert gap(distance, norm(case.manifold, x, u)) <= tolerance
    if largest(u) > 1e-3:
        assert tangent_defect(case.manifold, x, u) <= tolerance


@every_manifold
@every_backend
@given(data=st.data())
def test_nothing_moves_without_distance(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind]), max_condition=1e3))
    x = case.point()
    tolerance = 20 * backend.epsilon * max(1.0, largest(x))
    assert gap(backend(case.manifold, "exp", x, scale(0.0, x)), x) <= tolerance
    log = backend(case.manifold, "log", x, x)
    assert finite(log)
    assert largest(log) <= tolerance * condition(case.manifold, x)
    assert largest(backend(case.manifold, "distance", x, x)) <= tolerance * condition(case.manifold, x)
