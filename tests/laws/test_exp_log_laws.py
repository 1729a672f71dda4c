"""exp and log are inverse to each other; the distance is symmetric and the length of log."""

import numpy as np
import pytest
from array_backends import BACKENDS
from geometry_cases import (
    BY_MANIFOLD,
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
from hypothesis import assume, given
from hypothesis import strategies as st

from retrax.manifolds import Grassmann, Sphere

KINDS = [kind for kind in BY_MANIFOLD if kind in ("Euclidean", "Sphere", "Grassmann", "SPD")]
every_manifold = pytest.mark.parametrize("kind", KINDS)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)

# Inside the injectivity radius: π on the sphere, π/2 (for the largest angle) on Grassmann.
RADIUS = {"Euclidean": 10.0, "Sphere": 3.0, "Grassmann": 1.4, "SPD": 4.0}


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
    if isinstance(case.manifold, Sphere):
        assume(np.min(1 + np.sum(x * y, axis=-1)) > 1e-2)
    if isinstance(case.manifold, Grassmann):
        assume(np.min(np.linalg.svd(transpose(x) @ y, compute_uv=False)) > 3e-2)
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
