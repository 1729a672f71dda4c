"""The operations against independent computations: LAPACK's QR and SVD, matrix exponentials, an ODE, pyRiemann."""

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
from array_backends import DOUBLE
from geometry_cases import gap, haar, project, spd_matrix, symmetric
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import SPD, Grassmann, Sphere, Stiefel

every_backend = pytest.mark.parametrize("backend", DOUBLE, ids=str)
sizes = st.sampled_from([(6, 3), (5, 1), (4, 4), (5, 4)])
seeds = st.integers(0, 2**32 - 1)
lengths = st.floats(0, 5)


def start(cls, size, seed, length):
    """A point x and a tangent u of the given length."""
    rng = np.random.default_rng(seed)
    x = haar(rng, (), *size)
    u = project(cls(*size), x, rng.standard_normal(size))
    u = project(cls(*size), x, u)
    return rng, x, u * length / max(np.linalg.norm(u), 1e-3)


def direct_rotation(x, y):
    """The rotation of R^d along the shortest path of subspaces: exp of h xᵀ - x hᵀ, h the logarithm by an SVD.

    Edelman, Arias & Smith (1998), with the principal vectors of xᵀy.
    """
    left, cosines, right = np.linalg.svd(x.T @ y)
    px, py = x @ left, y @ right.T
    sideways = py - px * cosines
    sines = np.linalg.norm(sideways, axis=0)
    angles = np.arctan2(sines, cosines)
    h = (sideways / np.where(sines > 1e-12, sines, 1.0) * angles) @ left.T
    return scipy.linalg.expm(h @ x.T - x @ h.T), h


@pytest.mark.parametrize("cls", [Stiefel, Grassmann])
@every_backend
@given(size=sizes, seed=seeds, length=lengths)
def test_qr_is_lapack_s_with_positive_diagonal(cls, backend, size, seed, length):
    _, x, u = start(cls, size, seed, length)
    q, upper = np.linalg.qr(x + u)
    expected = q * np.where(np.diag(upper) < 0, -1.0, 1.0)
    assert gap(backend(cls(*size, retraction="qr"), "retract", x, u), expected) <= 1e-12


@pytest.mark.parametrize("cls", [Stiefel, Grassmann])
@every_backend
@given(size=sizes, seed=seeds, length=lengths)
def test_polar_is_the_svd_s(cls, backend, size, seed, length):
    _, x, u = start(cls, size, seed, length)
    left, _, right = np.linalg.svd(x + u, full_matrices=False)
    assert gap(backend(cls(*size, retraction="polar"), "retract", x, u), left @ right) <= 1e-12


@every_backend
@given(size=sizes, seed=seeds, length=lengths)
def test_cayley_is_the_dense_transform(backend, size, seed, length):
    _, x, u = start(Stiefel, size, seed, length)
    eye = np.eye(size[0])
    p = (eye - x @ x.T / 2) @ u
    w = p @ x.T - x @ p.T
    expected = np.linalg.solve(eye - w / 2, (eye + w / 2) @ x)
    assert gap(backend(Stiefel(*size, retraction="cayley"), "retract", x, u), expected) <= 1e-12


@every_backend
@given(size=sizes, seed=seeds, length=lengths)
def test_grassmann_exponential_is_a_matrix_exponential(backend, size, seed, length):
    _, x, u = start(Grassmann, size, seed, length)
    expected = scipy.linalg.expm(u @ x.T - x @ u.T) @ x
    assert gap(backend(Grassmann(*size, retraction="exp"), "retract", x, u), expected) <= 1e-12


@every_backend
@given(size=sizes, seed=seeds, length=st.floats(0, 1.4))
def test_grassmann_parallel_transport_is_edelman_arias_smith(backend, size, seed, length):
    """Theorem 2.4: ((-x V sin Σ + U cos Σ) Uᵀ + I - U Uᵀ) v along the geodesic with velocity U Σ Vᵀ."""
    rng, x, h = start(Grassmann, size, seed, length)
    v = project(Grassmann(*size), x, rng.standard_normal(size))
    left, sigma, right = np.linalg.svd(h, full_matrices=False)
    # The columns of U that belong to Σ = 0 drop out of the formula only if they are orthogonal to x.
    left = left * (sigma > 1e-12)
    y = x @ right.T @ np.diag(np.cos(sigma)) @ right + left @ np.diag(np.sin(sigma)) @ right
    carried = (-x @ right.T * np.sin(sigma) + left * np.cos(sigma)) @ (left.T @ v) + v - left @ (left.T @ v)
    manifold = Grassmann(*size, transport="parallel")
    assert gap(backend(manifold, "transport", x, y, v), carried) <= 1e-11


@every_backend
@given(size=sizes, seed=seeds)
def test_isometric_transports_are_the_direct_rotation_between_far_points(backend, size, seed):
    rng, x, _ = start(Stiefel, size, seed, 0.0)
    y = haar(rng, (), *size)
    left, cosines, right = np.linalg.svd(x.T @ y)
    if cosines[-1] < 1e-2:
        return
    rotation, h = direct_rotation(x, y)
    z = rng.standard_normal(size)

    horizontal = project(Grassmann(*size), x, z)
    carried = backend(Grassmann(*size, transport="parallel"), "transport", x, y, horizontal)
    assert gap(carried, rotation @ horizontal @ (left @ right)) <= 1e-10
    assert gap(backend(Grassmann(*size), "log", x, y), h) <= 1e-10

    u = project(Stiefel(*size), x, z)
    omega = x.T @ u
    carried = backend(Stiefel(*size, transport="rotation"), "transport", x, y, u)
    assert gap(carried, y @ omega + rotation @ (u - x @ omega)) <= 1e-10


@every_backend
def test_sphere_parallel_transport_solves_its_differential_equation(backend):
    """v' = -⟨v, γ'⟩ γ along the great circle γ, integrated numerically."""
    rng = np.random.default_rng(5)
    for angle in (0.3, 1.5, 3.0):
        x = haar(rng, (), 4, 1)[:, 0]
        u = project(Sphere(4), x, rng.standard_normal(4))
        u *= angle / np.linalg.norm(u)
        v = project(Sphere(4), x, rng.standard_normal(4))

        def circle(t, x=x, u=u, angle=angle):
            return np.cos(angle * t) * x + np.sin(angle * t) * u / angle

        def velocity(t, x=x, u=u, angle=angle):
            return -angle * np.sin(angle * t) * x + np.cos(angle * t) * u

        solution = scipy.integrate.solve_ivp(
            lambda t, w, c=circle, d=velocity: -(w @ d(t)) * c(t), (0, 1), v, rtol=1e-12, atol=1e-13
        )
        y = backend(Sphere(4, retraction="exp"), "retract", x, u)
        assert gap(y, circle(1.0)) <= 1e-14
        carried = backend(Sphere(4, transport="parallel"), "transport", x, y, v)
        assert gap(carried, solution.y[:, -1]) <= 1e-9


@every_backend
@given(seed=seeds, size=st.sampled_from([2, 5]))
def test_one_column_is_the_sphere(backend, seed, size):
    """For r = 1, Stiefel's rotation and Grassmann's parallel transport are the sphere's, and so are the retractions."""
    rng, x, u = start(Stiefel, (size, 1), seed, 1.0)
    v = project(Stiefel(size, 1), x, rng.standard_normal((size, 1)))
    y = backend(Sphere(size), "retract", x[:, 0], u[:, 0])
    carried = backend(Sphere(size, transport="parallel"), "transport", x[:, 0], y, v[:, 0])
    for manifold in (Stiefel(size, 1, transport="rotation"), Grassmann(size, 1, transport="parallel")):
        assert gap(backend(manifold, "retract", x, u)[:, 0], y) <= 1e-13
        assert gap(backend(manifold, "transport", x, y[:, None], v)[:, 0], carried) <= 1e-12


@every_backend
@given(seed=seeds, size=st.sampled_from([1, 2, 5]))
def test_spd_is_scipy_s_matrix_functions(backend, seed, size):
    rng = np.random.default_rng(seed)
    x, y = spd_matrix(rng, (), size, 20.0), spd_matrix(rng, (), size, 5.0)
    root = scipy.linalg.sqrtm(x)
    inverse = np.linalg.inv(root)
    u = root @ symmetric(rng.standard_normal((size, size))) @ root
    manifold = SPD(size)
    expected = root @ scipy.linalg.expm(inverse @ u @ inverse) @ root
    scale = 1 + np.max(np.abs(expected))
    assert gap(backend(manifold, "exp", x, u), expected) <= 1e-11 * scale
    assert gap(backend(manifold, "retract", x, u), expected) <= 1e-11 * scale
    logarithm = scipy.linalg.logm(inverse @ y @ inverse)
    assert gap(backend(manifold, "log", x, y), root @ logarithm @ root) <= 1e-11
    assert gap(backend(manifold, "distance", x, y), np.linalg.norm(logarithm)) <= 1e-11
    e = scipy.linalg.sqrtm(y @ np.linalg.inv(x))
    assert gap(backend(manifold, "transport", x, y, u), e @ u @ e.T) <= 1e-10 * scale
    second = x + u + u @ np.linalg.solve(x, u) / 2
    assert gap(backend(SPD(size, retraction="second-order"), "retract", x, u), second) <= 1e-11 * scale


@every_backend
def test_spd_is_pyriemann_s(backend):
    base = pytest.importorskip("pyriemann.utils.geodesic")
    distance = pytest.importorskip("pyriemann.utils.distance")
    rng = np.random.default_rng(11)
    x, y = spd_matrix(rng, (7,), 5, 50.0), spd_matrix(rng, (7,), 5, 8.0)
    manifold = SPD(5)
    expected = np.array([distance.distance_riemann(a, b) for a, b in zip(x, y, strict=True)])
    assert gap(backend(manifold, "distance", x, y), expected) <= 1e-10
    middle = backend(manifold, "exp", x, backend(manifold, "log", x, y) / 2)
    expected = np.array([base.geodesic_riemann(a, b, 0.5) for a, b in zip(x, y, strict=True)])
    assert gap(middle, expected) <= 1e-10


@every_backend
def test_random_subspaces_are_haar(backend):
    """Q with a positive diagonal: the mean is zero, and no column has a preferred sign."""
    gaussian = np.random.default_rng(2).standard_normal((4000, 3, 2))
    x = backend(Stiefel(3, 2), "random_point", gaussian)
    q, upper = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    assert gap(x, q * signs[:, None, :]) <= 1e-12
    assert np.max(np.abs(np.mean(x, axis=0))) <= 5 / np.sqrt(3 * 4000)
