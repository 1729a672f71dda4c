"""Retractions: R_x(0) = x, R_x(εu) = x + εu + O(ε²), and the result is on the manifold."""

import numpy as np
import pytest
from array_backends import BACKENDS, DOUBLE, Backend
from geometry_cases import (
    BY_RETRACTION,
    NOT_ZERO,
    Case,
    ambient_inner,
    assume_representable,
    bend,
    cases,
    combine,
    condition,
    finite,
    gap,
    largest,
    norm,
    project,
    scale,
    size,
    violation,
)
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import Stiefel

every_retraction = pytest.mark.parametrize("kind", BY_RETRACTION)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def slope(steps, errors, floor):
    """The slope of log(error) against log(step) where the error stands above rounding; inf if it never does."""
    steps, errors = np.asarray(steps), np.asarray(errors)
    seen = errors > floor
    if np.sum(seen) < 3:
        return np.inf
    return np.polyfit(np.log(steps[seen]), np.log(errors[seen]), 1)[0]


@every_retraction
@every_backend
@given(data=st.data())
def test_zero_tangent_moves_nothing(kind, backend, data):
    case = data.draw(cases(backend.few(BY_RETRACTION[kind])))
    x = case.point()
    y = backend(case.manifold, "retract", x, scale(0.0, x))
    assert finite(y)
    assert gap(y, x) <= 20 * backend.epsilon * max(1.0, largest(x))


@every_retraction
@every_backend
@given(data=st.data())
def test_result_is_on_the_manifold(kind, backend, data):
    case = data.draw(cases(backend.few(BY_RETRACTION[kind]), max_norm=10.0))
    x = case.point()
    u = case.tangent(x)
    assume_representable(case.manifold, x, u, backend.epsilon)
    assert violation(case.manifold, backend(case.manifold, "retract", x, u)) <= backend.tolerance


@pytest.mark.parametrize("name", ["Stiefel", "Grassmann"])
@pytest.mark.parametrize("length", [1.0, 10.0])
@every_backend
def test_result_is_on_the_manifold_of_the_paper_s_size(name, length, backend):
    kinds = {kind: instances[0][0] for kind, instances in BY_RETRACTION.items() if kind.startswith(name)}
    for manifold in kinds.values():
        large = type(manifold)(100, 10, retraction=manifold.retraction_name)
        rng = np.random.default_rng(0)
        x = np.linalg.qr(rng.standard_normal((20, 100, 10)))[0]
        u = project(large, x, rng.standard_normal((20, 100, 10)))
        u[10:] = project(large, x[10:], u[10:, :, :1] * rng.standard_normal((10, 1, 10)))  # and of low rank
        u *= (length / norm(large, x, u))[:, None, None]
        assert violation(large, backend(large, "retract", x, u)) <= backend.tolerance


@every_retraction
@every_backend
@given(data=st.data())
def test_first_order_agreement(kind, backend, data):
    case = data.draw(cases(backend.few(BY_RETRACTION[kind]), max_condition=10.0, tangents=NOT_ZERO))
    single = backend.dtype == "float32"
    steps = 0.5 ** (np.arange(2, 6) if single else np.arange(4, 10))
    x = case.point()
    u = case.tangent(x, length=1.0)
    errors = []
    for step in steps:
        y = backend(case.manifold, "retract", x, scale(step, u))
        remainder = combine(1.0, combine(1.0, y, -1.0, x), -step, u)
        errors.append(np.max(size(case.manifold, x, remainder)))
    floor = 100 * backend.epsilon * condition(case.manifold, x)
    assert np.all(np.asarray(errors) <= 1.5 * steps**2 * bend(case.manifold, x) + floor)
    assert slope(steps, errors, floor) >= (1.7 if single else 1.9)


# Of second order: the acceleration R''(0) has no tangential part. On Stiefel with the metric of the ambient space
# that is so for polar, but neither for qr nor for cayley (which follows the canonical metric's geodesics).
SECOND_ORDER = {
    "Sphere-normalise": True,
    "Sphere-exp": True,
    "Stiefel-qr": False,
    "Stiefel-polar": True,
    "Stiefel-cayley": False,
    "Grassmann-polar": True,
    "Grassmann-qr": True,
    "Grassmann-exp": True,
    "Oblique-normalise": True,
    "SpecialOrthogonal-exp": True,
    "SpecialOrthogonal-cayley": True,
    "SpecialOrthogonal-polar": True,
    "SpecialOrthogonal-qr": False,
    "PoincareBall-exp": True,
    "PoincareBall-moebius": True,
    "Lorentz-exp": True,
    "Lorentz-moebius": True,
    "Lorentz-addition": False,
    "SPD-exp": True,
    "SPD-second-order": True,
    "LogEuclidean-exp": True,
    "BuresWasserstein-exp": True,
    "Positive-exp": True,
    "Positive-second-order": True,
    "Simplex-exp": True,
    "Simplex-multiplicative": False,
}


@pytest.mark.parametrize("kind", SECOND_ORDER)
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
@given(data=st.data())
def test_second_order_agreement(kind, backend, data):
    # On the orthogonal group (r = d), on a sphere (r = 1) and for horizontal steps all are of second order.
    instances = BY_RETRACTION[kind] if SECOND_ORDER[kind] else BY_RETRACTION[kind][:1]
    case = data.draw(cases(backend.few(instances), max_condition=10.0, tangents=["random"], points=["random"]))
    steps = 0.5 ** np.arange(3, 8)
    x = case.point()
    u = case.tangent(x, length=1.0)
    errors = []
    for step in steps:
        y = backend(case.manifold, "retract", x, scale(step, u))
        if isinstance(case.manifold, Stiefel):
            remainder = project(case.manifold, x, y - x - step * u)
            errors.append(np.max(np.sqrt(ambient_inner(case.manifold, remainder, remainder))))
        else:
            end = backend(case.manifold, "exp", x, scale(step, u))
            errors.append(np.max(backend(case.manifold, "distance", end, y)))
    measured = slope(steps, errors, 1e-10)
    assert (measured >= 2.8) if SECOND_ORDER[kind] else (1.8 <= measured <= 2.3)


@every_retraction
def test_rounding_does_not_build_up(kind):
    """A violation of rounding size is corrected by the next step instead of being carried along.

    The steps are short: the Bures-Wasserstein geometry is not complete, and long random walks reach singular matrices.
    """
    backend = Backend("numpy", "float64")
    for manifold, batch in BY_RETRACTION[kind]:
        case = Case(manifold, batch, seed=7, points="random", tangents="random", norm=0.1, condition=10.0)
        x = case.point()
        for index in range(50):
            x = backend(manifold, "retract", x, case.tangent(x, index))
        assert violation(manifold, x) <= 1e-14
