"""SPD: repeated eigenvalues and condition numbers up to 1e8 give no NaN, and the metric's invariance holds."""

import numpy as np
import pytest
from array_backends import BACKENDS, DOUBLE
from geometry_cases import finite, gap, haar, norm, spd_matrix, symmetric, transpose
from hypothesis import given
from hypothesis import strategies as st

from retrax.manifolds import SPD

RETRACTIONS = list(SPD.retractions)
seeds = st.integers(0, 2**32 - 1)
exponents = st.floats(0, 8)
clusters = st.sampled_from([None, 1, 2])


def whitened_tangent(rng, x, length):
    lower = np.linalg.cholesky(x)
    u = symmetric(lower @ symmetric(rng.standard_normal(x.shape)) @ lower.T)
    return u * length / norm(SPD(x.shape[-1]), x, u)


@pytest.mark.parametrize("retraction", RETRACTIONS)
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
@given(seed=seeds, exponent=exponents, clusters=clusters, other=exponents, length=st.floats(0, 3))
def test_condition_numbers_to_1e8_give_no_nan(retraction, backend, seed, exponent, clusters, other, length):
    rng = np.random.default_rng(seed)
    manifold = SPD(4, retraction=retraction)
    x = spd_matrix(rng, (), 4, 10**exponent, clusters)
    y = spd_matrix(rng, (), 4, 10**other)
    u = whitened_tangent(rng, x, length)
    moved = backend(manifold, "retract", x, u)
    assert finite(moved)
    assert np.linalg.eigvalsh(moved)[0] > 0
    for result in (
        backend(manifold, "transport", x, y, u),
        backend(manifold, "transport", x, x, u),
        backend(manifold, "log", x, y),
        backend(manifold, "distance", x, y),
        backend(manifold, "norm", x, u),
        backend(manifold, "inner", x, u, u),
        backend(manifold, "gradient", x, u),
    ):
        assert finite(result)
    assert gap(backend(manifold, "norm", x, u), np.asarray(length)) <= 1e-15 * 10**exponent * (10 + 10 * length)


@pytest.mark.parametrize("retraction", RETRACTIONS)
@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@given(seed=seeds, exponent=exponents, length=st.floats(0, 3))
def test_diagonal_matrices_to_1e8_give_no_nan(retraction, backend, seed, exponent, length):
    """Scales apart by 1e8 in single precision too: on the diagonal that is exact."""
    rng = np.random.default_rng(seed)
    manifold = SPD(4, retraction=retraction)
    values = np.geomspace(1, 10**-exponent, 4)
    x, y = np.diag(values), np.diag(values[::-1])
    u = np.diag(values * rng.standard_normal(4))
    u *= length / max(norm(manifold, x, u), 1e-3)
    assert finite(backend(manifold, "retract", x, u))
    assert finite(backend(manifold, "transport", x, y, u))
    assert gap(backend(manifold, "norm", x, u), norm(manifold, x, u)) <= backend.tolerance * (1 + length)
    expected = np.sqrt(np.sum(np.log(np.diag(y) / np.diag(x)) ** 2))
    assert gap(backend(manifold, "distance", x, y), expected) <= 10 * backend.tolerance * (1 + expected)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("operation", ["retract", "transport", "log", "distance", "norm", "gradient"])
def test_multiples_of_the_identity(operation, backend):
    """All eigenvalues equal, at both points."""
    for factor in (1e-6, 1.0, 1e6):
        x = factor * np.eye(3)
        args = {"transport": (x, 2 * x, x), "log": (x, 2 * x), "distance": (x, 2 * x)}.get(operation, (x, x))
        assert finite(backend(SPD(3), operation, *args))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@given(seed=seeds, exponent=st.floats(0, 2))
def test_transport_keeps_the_affine_invariant_norm(backend, seed, exponent):
    rng = np.random.default_rng(seed)
    manifold = SPD(4)
    x, y = spd_matrix(rng, (), 4, 10**exponent), spd_matrix(rng, (), 4, 10**exponent)
    u = whitened_tangent(rng, x, 1.0)
    carried = backend(manifold, "transport", x, y, u)
    assert gap(norm(manifold, y, carried), np.asarray(1.0)) <= backend.tolerance * 10**exponent
    # The identity, taken for a transport, would not: this is what the law is there to notice.
    assert exponent < 0.5 or abs(norm(manifold, y, u) - 1) > 1e-3


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@given(seed=seeds)
def test_geometry_is_invariant_under_congruence(backend, seed):
    """x → a x aᵀ is an isometry for every invertible a."""
    rng = np.random.default_rng(seed)
    manifold = SPD(3)
    a = haar(rng, (), 3, 3) * np.geomspace(0.5, 2, 3) @ haar(rng, (), 3, 3)

    def move(z):
        return symmetric(a @ z @ transpose(a))

    x, y = spd_matrix(rng, (), 3, 5.0), spd_matrix(rng, (), 3, 5.0)
    u = whitened_tangent(rng, x, 1.0)
    tolerance = 1e3 * backend.tolerance
    for operation, args in (
        ("exp", (x, u)),
        ("log", (x, y)),
        ("transport", (x, y, u)),
    ):
        moved_after = move(backend(manifold, operation, *args))
        assert gap(backend(manifold, operation, *map(move, args)), moved_after) <= tolerance
    distance = backend(manifold, "distance", x, y)
    assert gap(backend(manifold, "distance", move(x), move(y)), distance) <= tolerance
