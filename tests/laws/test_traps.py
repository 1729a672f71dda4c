"""Traps seen in other implementations that concern geometry, one test each (the other five are tested elsewhere)."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_backends import BACKENDS, jax_precision
from geometry_cases import BY_RETRACTION, Case, gap, haar, inner, norm, project, scale, spd_matrix, symmetric

from retrax.manifolds import SPD, Euclidean, Grassmann, Product, Sphere, Stiefel

every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


@pytest.mark.parametrize("cls", [Euclidean, Sphere, Stiefel, Grassmann, SPD, Product])
def test_trap_1_transport_has_one_calling_convention(cls):
    assert list(inspect.signature(cls.transport).parameters) == ["self", "x", "y", "u"]


@pytest.mark.parametrize(
    "manifold", [Sphere(5, transport="parallel"), Grassmann(6, 2, transport="parallel"), SPD(4)], ids=str
)
@every_backend
def test_trap_1_transport_takes_the_end_point_not_the_direction(manifold, backend):
    """A geodesic's own velocity keeps its length on the way and points on: T(x, y, Log_x y) = -Log_y x.

    With the direction passed for the end point every transported norm was multiplied by e.
    """
    case = Case(manifold, (), seed=5, points="random", tangents="random", norm=1.0, condition=4.0)
    x = case.point()
    u = case.tangent(x)
    y = backend(manifold, "exp", x, u)
    carried = backend(manifold, "transport", x, y, u)
    assert gap(norm(manifold, y, carried), np.asarray(1.0)) <= 100 * backend.tolerance
    assert gap(carried, -backend(manifold, "log", y, x)) <= 100 * backend.tolerance


@pytest.mark.parametrize("cls", [Grassmann, Stiefel])
@every_backend
def test_trap_3_qr_does_not_flip_columns(cls, backend):
    """Without R's positive diagonal a tiny step reverses columns, and projected momentum with them (cosine -1)."""
    manifold = cls(6, 3, retraction="qr", transport="projection")
    rng = np.random.default_rng(0)
    flips = 0
    for _ in range(10):
        x = haar(rng, (), 6, 3) * rng.choice([-1.0, 1.0], 3)
        u, momentum = (project(manifold, x, rng.standard_normal((6, 3))) for _ in range(2))
        u *= 1e-2 / np.linalg.norm(u)
        y = backend(manifold, "retract", x, u)
        flips += np.sum(np.diag(x.T @ np.linalg.qr(x + u)[0]) < 0)
        assert np.all(np.diag(x.T @ y) > 0.99)
        after = backend(manifold, "transport", x, y, momentum)
        # In the basis of y, against the same momentum in a basis that did not jump.
        assert np.sum(after * momentum) / np.linalg.norm(after) / np.linalg.norm(momentum) > 0.99
    assert flips > 0  # plain LAPACK does flip here: the trap was set


@every_backend
def test_trap_4_stiefel_gradient_belongs_to_stiefel_s_own_metric(backend):
    """With the ambient metric the gradient is a projection; the canonical metric's is not, and is not used here."""
    manifold = Stiefel(6, 3)
    case = Case(manifold, (), seed=9, points="random", tangents="random", norm=1.0, condition=1.0)
    x, g = case.point(), case.ambient()
    u = case.tangent(x)
    derivative = np.sum(g * u)
    gradient = backend(manifold, "gradient", x, g)
    canonical = g - x @ g.T @ x

    def canonical_inner(a, b):
        return np.trace(a.T @ (np.eye(6) - x @ x.T / 2) @ b)

    tolerance = 10 * backend.tolerance
    assert gap(backend(manifold, "inner", x, gradient, u), derivative) <= tolerance
    assert gap(canonical_inner(canonical, u), derivative) <= tolerance
    # One used for the other is visibly wrong.
    assert abs(inner(manifold, x, canonical, u) - derivative) > 1e-2
    assert abs(canonical_inner(gradient, u) - derivative) > 1e-2


@every_backend
def test_trap_4_spd_gradient_is_not_a_projection(backend):
    x = spd_matrix(np.random.default_rng(1), (), 4, 10.0)
    g = np.random.default_rng(2).standard_normal((4, 4))
    gradient = backend(SPD(4), "gradient", x, g)
    assert gap(gradient, x @ symmetric(g) @ x) <= backend.tolerance * 10
    assert gap(gradient, backend(SPD(4), "project", x, g)) > 1e-2


def test_trap_6_the_identity_is_no_transport_on_spd():
    for name in ("identity", "projection"):
        with pytest.raises(ValueError, match="affine-invariant"):
            SPD(4, transport=name)
    rng = np.random.default_rng(3)
    manifold = SPD(4)
    x, y = spd_matrix(rng, (), 4, 10.0), 0.1 * spd_matrix(rng, (), 4, 10.0)
    u = symmetric(rng.standard_normal((4, 4)))
    assert norm(manifold, y, u) / norm(manifold, x, u) > 2
    assert norm(manifold, y, manifold.transport(x, y, u)) / norm(manifold, x, u) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", BY_RETRACTION)
@every_backend
def test_trap_9_a_zero_gradient_leaves_the_point_in_place(kind, backend):
    for manifold, batch in backend.few(BY_RETRACTION[kind]):
        case = Case(manifold, batch, seed=4, points="axes", tangents="zero", norm=0.0, condition=10.0)
        x = case.point()
        gradient = backend(manifold, "gradient", x, scale(0.0, x))
        y = backend(manifold, "retract", x, scale(-0.1, gradient))
        assert gap(y, x) <= 10 * backend.epsilon * (1 + 10)
        assert gap(backend(manifold, "transport", x, y, gradient), gradient) == 0


@every_backend
def test_trap_9_at_the_optimum_of_pca_with_repeated_eigenvalues(backend):
    """The gradient -2 (I - xxᵀ) A x is zero for an invariant subspace, whatever multiplicity A's eigenvalues have."""
    q = haar(np.random.default_rng(6), (), 6, 6)
    a = (q * np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0])) @ q.T
    x = q[:, :3]
    for retraction in Grassmann.retractions:
        manifold = Grassmann(6, 3, retraction=retraction, transport="parallel")
        gradient = backend(manifold, "gradient", x, -2 * a @ x)
        y = backend(manifold, "retract", x, -0.1 * gradient)
        assert gap(y, x) <= 50 * backend.epsilon
        assert gap(backend(manifold, "transport", x, y, gradient), 0 * x) <= 50 * backend.epsilon


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_trap_9_autodiff_at_the_centroid_of_equal_matrices(factor):
    """Through an eigendecomposition the derivative of the distance would be NaN at repeated eigenvalues."""
    with jax_precision("float64"):
        manifold = SPD(3)
        x = factor * jnp.eye(3)
        for target in (x, 2 * x):
            ambient = jax.grad(lambda c, target=target: manifold.distance(c, target) ** 2)(x)
            gradient = manifold.gradient(x, ambient)
            assert gap(gradient, -2 * manifold.log(x, target)) <= 1e-12
        assert gap(manifold.retract(x, -0.1 * manifold.log(x, x)), x) <= 1e-14
