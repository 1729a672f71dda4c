"""Projection and gradient: P is linear, idempotent and self-adjoint; ⟨grad f, u⟩ = Df[u]."""

import jax
import numpy as np
import pytest
from array_backends import BACKENDS
from geometry_cases import (
    BY_MANIFOLD,
    NOT_ZERO,
    ambient_inner,
    cases,
    combine,
    condition,
    euclidean_inner,
    factors,
    gap,
    inner,
    largest,
    norm,
    projection_condition,
    tangent_defect,
    violation,
)
from hypothesis import given
from hypothesis import strategies as st

every_manifold = pytest.mark.parametrize("kind", BY_MANIFOLD)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@every_manifold
@every_backend
@given(data=st.data())
def test_projection_is_idempotent_selfadjoint_and_linear(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind])))
    x, z, w = case.point(), case.ambient(0), case.ambient(1)
    pz, pw = backend(case.manifold, "project", x, z), backend(case.manifold, "project", x, w)
    size = (1 + largest(z)) * (1 + largest(w)) * projection_condition(case.manifold, x) ** 2  # projected twice
    tolerance = backend.tolerance / 10 * size
    assert gap(backend(case.manifold, "project", x, pz), pz) <= tolerance
    assert gap(ambient_inner(case.manifold, pz, w), ambient_inner(case.manifold, z, pw)) <= tolerance
    combined = backend(case.manifold, "project", x, combine(2.5, z, -0.7, w))
    assert gap(combined, combine(2.5, pz, -0.7, pw)) <= tolerance


@every_manifold
@every_backend
@given(data=st.data())
def test_projection_lands_in_the_tangent_space_and_fixes_it(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind])))
    x = case.point()
    u = case.tangent(x)
    tolerance = backend.tolerance * (1 + largest(u)) * projection_condition(case.manifold, x)
    assert gap(backend(case.manifold, "project", x, u), u) <= tolerance
    z = case.ambient()
    projected = backend(case.manifold, "project", x, z)
    if largest(projected) > 1e-3 * largest(z):  # elsewhere the tangent space is a single point
        assert tangent_defect(case.manifold, x, projected) <= 100 * backend.tolerance * projection_condition(
            case.manifold, x
        )


@every_manifold
@every_backend
@given(data=st.data())
def test_gradient_represents_the_derivative(kind, backend, data):
    """f(x) = Σ sin(a ∘ x), whose derivative along u is taken by central differences."""
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind]), max_condition=10.0, tangents=NOT_ZERO))
    x, a = case.point(), case.ambient()
    u = case.tangent(x, length=1.0)

    def f(step):
        moved = combine(1.0, x, step, u)
        values = jax.tree.map(lambda p, q: np.sin(p * q), a, moved)
        ones = jax.tree.map(np.ones_like, values)
        return euclidean_inner(case.manifold, values, ones)

    reach = max(1.0, largest(u))  # far out on the hyperboloid unit vectors have large entries
    h = 1e-4 / reach
    derivative = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
    gradient = backend(case.manifold, "gradient", x, jax.tree.map(lambda p, q: p * np.cos(p * q), a, x))
    measured = inner(case.manifold, x, gradient, u)
    tolerance = (1e-10 if backend.dtype == "float64" else 1e-4) * reach
    assert gap(measured, derivative) <= tolerance * (1 + largest(a) ** 2)
    assert gap(backend(case.manifold, "inner", x, gradient, u), derivative) <= tolerance * (1 + largest(a) ** 2)
    tolerance = backend.tolerance * (1 + largest(gradient)) * projection_condition(case.manifold, x)
    assert gap(backend(case.manifold, "project", x, gradient), gradient) <= tolerance


@every_manifold
@every_backend
@given(data=st.data())
def test_inner_product_norm_and_violation_are_the_textbook_s(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind]), max_condition=100.0))
    x = case.point()
    u, v = case.tangent(x, 0), case.tangent(x, 1, length=1.0)
    tolerance = backend.tolerance * condition(case.manifold, x) * (1 + case.norm) ** 2
    assert gap(backend(case.manifold, "inner", x, u, v), inner(case.manifold, x, u, v)) <= tolerance
    assert gap(backend(case.manifold, "norm", x, u), norm(case.manifold, x, u)) <= tolerance
    assert largest(backend(case.manifold, "violation", x)) <= 1e2 * backend.epsilon
    assert backend(case.manifold, "violation", x).shape == case.batch
    off = combine(1.1, x, 0.0, x)
    if any(violation(m, part) > 0 for m, part in factors(case.manifold, off)):
        assert largest(backend(case.manifold, "violation", off)) == pytest.approx(
            violation(case.manifold, off), abs=1e-4, rel=1e-4
        )


@every_manifold
@every_backend
@given(data=st.data())
def test_random_points_and_tangents_are_what_they_say(kind, backend, data):
    case = data.draw(cases(backend.few(BY_MANIFOLD[kind])))
    x = backend(case.manifold, "random_point", case.ambient(0))
    assert violation(case.manifold, x) <= backend.tolerance
    u = backend(case.manifold, "random_tangent", x, case.ambient(1))
    tolerance = backend.tolerance * (1 + largest(u)) * projection_condition(case.manifold, x)
    assert gap(backend(case.manifold, "project", x, u), u) <= tolerance
