"""The operations against independent computations: LAPACK, SciPy's matrix functions, an ODE, pyRiemann, geoopt."""

import array_api_compat
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.stats
import torch
from array_backends import DOUBLE
from geometry_cases import gap, haar, largest, project, spd_matrix, symmetric
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import (
    SPD,
    FixedRank,
    GeneralizedStiefel,
    Grassmann,
    Lorentz,
    Oblique,
    PoincareBall,
    Positive,
    Power,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
)

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


@pytest.mark.parametrize(("metric", "name"), [("log-euclidean", "logeuclid"), ("bures-wasserstein", "wasserstein")])
@every_backend
def test_the_other_metrics_are_pyriemann_s(metric, name, backend):
    """Distances, and the middle of a geodesic: log-Euclidean's is exp of the mean logarithm, of optimal transport's
    the mean of the maps."""
    base = pytest.importorskip("pyriemann.geometry.distance")
    rng = np.random.default_rng(11)
    x, y = spd_matrix(rng, (7,), 5, 50.0), spd_matrix(rng, (7,), 5, 8.0)
    manifold = SPD(5, metric=metric)
    expected = np.array([getattr(base, f"distance_{name}")(a, b) for a, b in zip(x, y, strict=True)])
    assert gap(backend(manifold, "distance", x, y), expected) <= 1e-10
    middle = backend(manifold, "exp", x, backend(manifold, "log", x, y) / 2)
    for a, b, found in zip(x, y, middle, strict=True):
        if metric == "log-euclidean":
            expected = scipy.linalg.expm((scipy.linalg.logm(a) + scipy.linalg.logm(b)) / 2)
        else:
            root = scipy.linalg.sqrtm(a)
            inverse = np.linalg.inv(root)
            average = (np.eye(5) + inverse @ scipy.linalg.sqrtm(root @ b @ root) @ inverse) / 2
            expected = average @ a @ average
        assert gap(found, expected) <= 1e-10


@pytest.mark.parametrize("metric", ["log-euclidean", "bures-wasserstein"])
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
def test_the_metrics_measure_short_distances(metric, backend):
    """⟨u, u⟩ is the squared distance to x + hu over h², up to O(h): the metric from the distance alone."""
    rng = np.random.default_rng(5)
    x, z, h = spd_matrix(rng, (), 4, 5.0), rng.standard_normal((4, 4)), 1e-5
    u = symmetric(z)
    distance = [backend(SPD(4, metric=metric), "distance", x, x + s * h * u) / h for s in (1, -1)]
    assert gap(backend(SPD(4, metric=metric), "inner", x, u, u), np.mean(np.square(distance))) <= 1e-4


@every_backend
def test_the_simplex_is_the_sphere_of_square_roots(backend):
    """Hellinger's angle, and the great circle's velocity in terms of x."""
    rng = np.random.default_rng(8)
    x, y = rng.dirichlet(np.full(5, 4.0), size=(2, 6))
    manifold = Simplex(5)
    angle = np.arccos(np.sum(np.sqrt(x * y), axis=-1))
    assert gap(backend(manifold, "distance", x, y), 2 * angle) <= 1e-12
    cosine = np.cos(angle)[:, None]
    expected = 2 * angle[:, None] / np.sin(angle)[:, None] * (np.sqrt(x * y) - cosine * x)
    assert gap(backend(manifold, "log", x, y), expected) <= 1e-12
    z = rng.standard_normal((6, 5)) / 10
    u = z - np.mean(z, axis=-1, keepdims=True)
    multiplied = x * np.exp(u / x)
    expected = multiplied / np.sum(multiplied, axis=-1, keepdims=True)
    assert gap(backend(manifold, "retract", x, u), expected) <= 1e-14


@every_backend
def test_positive_numbers_are_spd_matrices_of_size_one(backend):
    rng = np.random.default_rng(9)
    x, y = np.exp(rng.standard_normal((2, 4)))
    u = rng.standard_normal(4)
    assert gap(backend(Positive(4), "exp", x, u), x * np.exp(u / x)) <= 1e-14
    assert gap(backend(Positive(4), "distance", x, y), np.linalg.norm(np.log(x / y))) <= 1e-14
    spd = [
        backend(SPD(1, retraction="second-order"), "retract", a.reshape(1, 1), b.reshape(1, 1))[0, 0]
        for a, b in zip(x, u, strict=True)
    ]
    assert gap(backend(Positive(4, retraction="second-order"), "retract", x, u), np.array(spd)) <= 1e-14
    assert gap(backend(Positive(4), "transport", x, y, u), u * y / x) <= 1e-14


@every_backend
def test_random_subspaces_are_haar(backend):
    """Q with a positive diagonal: the mean is zero, and no column has a preferred sign."""
    gaussian = np.random.default_rng(2).standard_normal((4000, 3, 2))
    x = backend(Stiefel(3, 2), "random_point", gaussian)
    q, upper = np.linalg.qr(gaussian)
    signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    assert gap(x, q * signs[:, None, :]) <= 1e-12
    assert np.max(np.abs(np.mean(x, axis=0))) <= 5 / np.sqrt(3 * 4000)


@every_backend
def test_oblique_and_power_are_spheres_one_by_one(backend):
    rng = np.random.default_rng(4)
    x, y = (haar(rng, (4,), 3, 1)[..., 0] for _ in range(2))
    u = x[:, [1, 2, 0]] - np.sum(x * x[:, [1, 2, 0]], axis=-1, keepdims=True) * x
    for choices in ({}, {"retraction": "exp", "transport": "parallel"}):
        sphere, power, oblique = Sphere(3, **choices), Power(Sphere(3, **choices), 4), Oblique(3, 4, **choices)
        for operation, args in {"retract": (x, u), "transport": (x, y, u), "log": (x, y), "exp": (x, u)}.items():
            alone = np.stack([backend(sphere, operation, *(a[i] for a in args)) for i in range(4)])
            assert gap(backend(power, operation, *args), alone) <= 1e-15
            assert gap(backend(oblique, operation, *(a.T for a in args)), alone.T) <= 1e-15
        angles = np.arccos(np.sum(x * y, axis=-1))
        assert gap(backend(power, "distance", x, y), np.linalg.norm(angles)) <= 1e-12
        assert gap(backend(oblique, "distance", x.T, y.T), np.linalg.norm(angles)) <= 1e-12
        assert gap(backend(power, "inner", x, u, y), np.sum(u * y)) <= 1e-14


@pytest.mark.parametrize("curvature", [0.3, 1.0, 2.5])
@every_backend
def test_hyperbolic_spaces_are_geoopt_s(curvature, backend):
    geoopt = pytest.importorskip("geoopt")
    rng = np.random.default_rng(6)
    c = torch.tensor(curvature, dtype=torch.float64)
    ball, theirs = PoincareBall(4, curvature=curvature), geoopt.PoincareBall(c=c.clone())  # which changes its argument
    z = rng.standard_normal((2, 9, 4))
    x, y = np.tanh(rng.random((2, 9, 1))) * z / np.linalg.norm(z, axis=-1, keepdims=True) / curvature**0.5
    u = 0.3 * rng.standard_normal((9, 4))
    tx, ty, tu = (torch.tensor(a) for a in (x, y, u))
    assert gap(backend(ball, "exp", x, u), theirs.expmap(tx, tu).numpy()) <= 1e-12
    assert gap(backend(ball, "log", x, y), theirs.logmap(tx, ty).numpy()) <= 1e-12
    assert gap(backend(ball, "distance", x, y), theirs.dist(tx, ty).numpy()) <= 1e-12
    assert gap(backend(ball, "transport", x, y, u), theirs.transp(tx, ty, tu).numpy()) <= 1e-12
    assert gap(backend(ball, "gradient", x, u), theirs.egrad2rgrad(tx, tu).numpy()) <= 1e-12

    lorentz, theirs = Lorentz(4, curvature=curvature), geoopt.Lorentz(k=1 / c)
    z = rng.standard_normal((2, 9, 4))
    x, y = (np.concatenate([np.sqrt(1 / curvature + np.sum(p**2, axis=-1, keepdims=True)), p], axis=-1) for p in z)
    u = project(lorentz, x, rng.standard_normal((9, 5)))
    tx, ty, tu = (torch.tensor(a) for a in (x, y, u))
    assert gap(backend(lorentz, "exp", x, u / 3), theirs.expmap(tx, tu / 3).numpy()) <= 1e-10
    assert gap(backend(lorentz, "log", x, y), theirs.logmap(tx, ty).numpy()) <= 1e-10
    assert gap(backend(lorentz, "distance", x, y), theirs.dist(tx, ty).numpy()) <= 1e-10
    assert gap(backend(lorentz, "transport", x, y, u), theirs.transp(tx, ty, tu).numpy()) <= 1e-10
    assert gap(backend(lorentz, "gradient", x, u), theirs.egrad2rgrad(tx, tu.clone()).numpy()) <= 1e-10


@every_backend
@given(seed=seeds, size=st.sampled_from([1, 2, 3, 6]), length=st.floats(0, 4))
def test_rotations_are_scipy_s_matrix_functions(backend, seed, size, length):
    rng = np.random.default_rng(seed)
    x = haar(rng, (), size, size)
    x[:, 0] *= np.sign(np.linalg.det(x))
    omega = rng.standard_normal((size, size))
    omega = (omega - omega.T) * length / max(np.linalg.norm(omega - omega.T), 1e-3)
    y, manifold, eye = x @ scipy.linalg.expm(omega), SpecialOrthogonal(size), np.eye(size)
    assert gap(backend(manifold, "exp", x, x @ omega), y) <= 1e-12
    cayley = x @ np.linalg.inv(eye - omega / 2) @ (eye + omega / 2)
    assert gap(backend(SpecialOrthogonal(size, retraction="cayley"), "retract", x, x @ omega), cayley) <= 1e-12
    if np.linalg.norm(omega, 2) < 2.5:  # the logarithm is unique below π
        assert gap(backend(manifold, "log", x, y), x @ omega) <= 1e-11
        assert gap(backend(manifold, "distance", x, y), np.linalg.norm(omega)) <= 1e-11
    v = rng.standard_normal((size, size))
    assert gap(backend(manifold, "transport", x, y, x @ (v - v.T)), y @ (v - v.T)) <= 1e-12


@every_backend
def test_random_rotations_are_haar(backend):
    """Mean zero, no reflections, and the angle θ of a rotation of space has the density (1 - cos θ)/π."""
    x = backend(SpecialOrthogonal(3), "random_point", np.random.default_rng(2).standard_normal((4000, 3, 3)))
    assert np.max(np.abs(np.linalg.det(x) - 1)) <= 1e-12
    assert np.max(np.abs(np.mean(x, axis=0))) <= 5 / np.sqrt(3 * 4000)
    angles = np.arccos(np.clip((np.trace(x, axis1=-2, axis2=-1) - 1) / 2, -1, 1))
    distribution = scipy.stats.ecdf(angles).cdf.evaluate(np.linspace(0, np.pi, 20))
    grid = np.linspace(0, np.pi, 20)
    assert np.max(np.abs(distribution - (grid - np.sin(grid)) / np.pi)) <= 1.95 / np.sqrt(4000)  # 99.9 % (Kolmogorov)


@pytest.mark.parametrize("sizes", [(6, 5, 2), (3, 4, 2), (2, 3, 1), (3, 3, 3)])
@every_backend
def test_fixed_rank_is_the_dense_matrices_geometry(backend, sizes):
    """Projections, the truncated SVD and the Riemannian gradient of dense m×n matrices (Vandereycken 2013)."""
    manifold, rng = FixedRank(*sizes), np.random.default_rng(12)
    m, n, k = sizes

    def dense(point):
        left, middle, right = np.split(point, [m, m + k])
        return left @ middle @ right.T, left @ left.T, right @ right.T, (left, middle, right)

    x = backend(manifold, "from_factors", rng.standard_normal((m, k)), rng.standard_normal((n, k)))
    matrix, p, q, (left, middle, right) = dense(x)
    u = backend(manifold, "random_tangent", x, rng.standard_normal(x.shape))
    tangent = backend(manifold, "tangent_matrix", x, u)
    assert gap(backend(manifold, "matrix", x), matrix) <= 1e-13
    assert gap(p @ tangent + tangent @ q - p @ tangent @ q, tangent) <= 1e-12
    assert gap(backend(manifold, "inner", x, u, u), np.sum(tangent**2)) <= 1e-12 * np.sum(tangent**2)

    for step in (1e-3, 0.1, 1.0):
        y = backend(manifold, "retract", x, step * u)
        a, sigma, b = np.linalg.svd(matrix + step * tangent)
        assert gap(dense(y)[0], (a[:, :k] * sigma[:k]) @ b[:k]) <= 1e-12 * sigma[0]
        _, to_p, to_q, _ = dense(y)
        carried = backend(manifold, "tangent_matrix", y, backend(manifold, "transport", x, y, u))
        assert gap(carried, to_p @ tangent + tangent @ to_q - to_p @ tangent @ to_q) <= 1e-11 * (1 + largest(tangent))

    g = rng.standard_normal((m, n))  # the gradient of a function of the dense matrix, by the chain rule
    ambient = np.concatenate([g @ right @ middle.T, left.T @ g @ right, g.T @ left @ middle])
    gradient = backend(manifold, "tangent_matrix", x, backend(manifold, "gradient", x, ambient))
    assert gap(gradient, p @ g + g @ q - p @ g @ q) <= 1e-11


@pytest.mark.parametrize(("retraction", "order"), [("svd", 3), ("factors", 2)])
def test_the_order_of_fixed_rank_s_retractions(retraction, order):
    """The tangent part of R(tu) - x - tu, as dense matrices, falls as t³ for the truncated SVD."""
    manifold, rng = FixedRank(6, 5, 2, retraction=retraction), np.random.default_rng(1)
    x = manifold.random_point(rng.standard_normal(manifold.ambient_shape))
    u = manifold.random_tangent(x, rng.standard_normal(x.shape))
    left, _, right = manifold.factors(x)
    p, q = left @ left.T, right @ right.T
    errors = []
    for t in (1e-2, 1e-3):
        off = manifold.matrix(manifold.retract(x, t * u)) - manifold.matrix(x) - t * manifold.tangent_matrix(x, u)
        errors.append(np.linalg.norm(p @ off + off @ q - p @ off @ q))
    assert np.log10(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


@every_backend
def test_generalized_stiefel_is_stiefel_after_whitening(backend):
    """With w = B^(1/2), wx is on Stiefel: qr and polar are those of wx; and [x, B] with B = I is Stiefel itself."""
    rng = np.random.default_rng(14)
    b, manifold = spd_matrix(rng, (), 5, 10.0), GeneralizedStiefel(5, 2)
    w = scipy.linalg.sqrtm(b)
    p = backend(manifold, "point", rng.standard_normal((5, 2)), b)
    x, u = p[:, :2], np.zeros((5, 7))
    assert gap((w @ x).T @ (w @ x), np.eye(2)) <= 1e-13
    v = project(Stiefel(5, 2), w @ x, rng.standard_normal((5, 2)))
    u[:, :2] = np.linalg.solve(w, v)
    assert gap(backend(manifold, "project", p, u), u) <= 1e-13
    for retraction in ("qr", "polar"):
        y = backend(GeneralizedStiefel(5, 2, retraction=retraction), "retract", p, u)
        assert gap(y[:, 2:], b) == 0
        q, upper = np.linalg.qr(w @ x + v)
        left, _, right = np.linalg.svd(w @ x + v, full_matrices=False)
        expected = q * np.sign(np.diag(upper)) if retraction == "qr" else left @ right
        assert gap(w @ y[:, :2], expected) <= 1e-12
    plain = np.concatenate([haar(rng, (), 5, 2), np.eye(5)], axis=-1)
    z = rng.standard_normal((5, 7))
    expected = project(Stiefel(5, 2), plain[:, :2], z[:, :2])
    assert gap(backend(manifold, "project", plain, z)[:, :2], expected) <= 1e-13


@every_backend
def test_a_product_with_vectors_is_the_matrix(backend):
    """The manifold with z ↦ Bz has every operation of the one with B in its points."""
    rng = np.random.default_rng(15)
    a = rng.standard_normal((20, 5))

    def product(z):
        data = array_api_compat.array_namespace(z).asarray(a, dtype=z.dtype)
        return data.mT @ (data @ z) / 20

    b, z = a.T @ a / 20, rng.standard_normal((2, 5, 2))
    beside = lambda frame: np.concatenate([frame, np.broadcast_to(b, (2, 5, 5))], axis=-1)  # noqa: E731
    for retraction in ("qr", "polar"):
        whole, alone = (GeneralizedStiefel(5, 2, p, retraction=retraction) for p in (None, product))
        x = backend(alone, "point", z)
        assert gap(beside(x), backend(whole, "point", z, np.broadcast_to(b, (2, 5, 5)))) <= 1e-13
        assert np.max(backend(alone, "violation", x)) <= 1e-13
        u = backend(alone, "project", x, z)
        assert gap(u, backend(whole, "project", beside(x), beside(z))[..., :2]) <= 1e-13
        assert gap(beside(backend(alone, "retract", x, u)), backend(whole, "retract", beside(x), beside(u))) <= 1e-12
    alone.check_point(alone.random_point(z))


@pytest.mark.parametrize(
    ("ours", "name", "arguments"),
    [
        (Sphere(5, retraction="exp"), "Sphere", (5,)),
        (Oblique(4, 3, retraction="exp"), "Oblique", (4, 3)),
        (Stiefel(6, 3, retraction="qr"), "Stiefel", (6, 3)),
        (Grassmann(6, 3, retraction="exp"), "Grassmann", (6, 3)),
        (SPD(4), "SymmetricPositiveDefinite", (4,)),
        (Positive(3, 2), "Positive", (3, 2)),
        (PoincareBall(4), "PoincareBall", (4,)),
    ],
    ids=str,
)
def test_manifolds_are_pymanopt_s(ours, name, arguments):
    """Metric, gradient, and exponential and distance (on Stiefel qr) at ten random points of pymanopt's."""
    manifolds = pytest.importorskip("pymanopt.manifolds")
    theirs, rng = getattr(manifolds, name)(*arguments), np.random.default_rng(16)
    for _ in range(10):
        x, step = ours.random_point(rng.standard_normal((2, *ours.ambient_shape)))
        ambient = rng.standard_normal(x.shape)
        ambient = symmetric(ambient) if name.startswith("Symmetric") else ambient
        gradient = theirs.euclidean_to_riemannian_gradient(x, ambient)
        assert gap(ours.gradient(x, ambient), gradient) <= 1e-12 * max(1, largest(gradient))
        u = gradient / max(1, theirs.norm(x, gradient))
        assert float(ours.norm(x, u)) == pytest.approx(theirs.norm(x, u), rel=1e-12)
        moved = theirs.retraction(x, u) if name == "Stiefel" else theirs.exp(x, u)
        if name == "Grassmann":  # another basis of the same subspace
            assert gap(ours.retract(x, u) @ ours.retract(x, u).T, moved @ moved.T) <= 1e-12
        else:
            assert gap(ours.retract(x, u), moved) <= 1e-12 * max(1, largest(moved))
        if name != "Stiefel":
            assert float(ours.distance(x, step)) == pytest.approx(theirs.dist(x, step), rel=1e-7)
