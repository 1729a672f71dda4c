"""Grassmann: a point is a subspace, so no operation may depend on the basis x or xQ that stands for it."""

import numpy as np
import pytest
from array_backends import BACKENDS
from geometry_cases import BY_BOTH, cases, gap, haar, largest, transpose
from hypothesis import assume, given
from hypothesis import strategies as st

KINDS = [kind for kind in BY_BOTH if kind.startswith("Grassmann")]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def turned(case):
    """x, y, u and two random orthogonal r×r matrices, reflections among them."""
    x, y = case.point(0), case.point(1, points="random")
    r = x.shape[-1]
    q, p = (haar(np.random.default_rng([case.seed, i]), case.batch, r, r) for i in (0, 1))
    assume(np.min(np.linalg.svd(transpose(x) @ y, compute_uv=False)) > 3e-2)
    return x, y, case.tangent(x), q, p


@every_kind
@every_backend
@given(data=st.data())
def test_step_does_not_depend_on_the_basis(kind, backend, data):
    case = data.draw(cases(backend.few(BY_BOTH[kind])))
    x, _, u, q, _ = turned(case)
    z = case.ambient()
    once = backend(case.manifold, "retract", x, u)
    turned_first = backend(case.manifold, "retract", x @ q, u @ q)
    tolerance = 5 * backend.tolerance
    assert gap(once @ transpose(once), turned_first @ transpose(turned_first)) <= tolerance
    if case.manifold.retraction_name != "qr":  # these even carry the basis along
        assert gap(once @ q, turned_first) <= tolerance * (1 + case.norm)
    size = 1 + largest(z)
    projected = backend(case.manifold, "project", x, z)
    assert gap(backend(case.manifold, "project", x @ q, z @ q), projected @ q) <= tolerance * size
    inner = backend(case.manifold, "inner", x, u, projected)
    turned_inner = backend(case.manifold, "inner", x @ q, u @ q, projected @ q)
    assert gap(inner, turned_inner) <= tolerance * size * (1 + case.norm)


@every_kind
@every_backend
@given(data=st.data())
def test_transport_does_not_depend_on_the_basis(kind, backend, data):
    case = data.draw(cases(backend.few(BY_BOTH[kind])))
    x, y, u, q, p = turned(case)
    tolerance = 10 * backend.tolerance * (1 + largest(u))
    carried = backend(case.manifold, "transport", x, y, u)
    assert gap(backend(case.manifold, "transport", x @ q, y @ q, u @ q), carried @ q) <= tolerance
    if case.manifold.isometric:  # and each point may have its own basis
        # The polar factor of xᵀy is as sensitive as its smallest singular value is small.
        smallest = np.min(np.linalg.svd(transpose(x) @ y, compute_uv=False))
        independent = backend(case.manifold, "transport", x @ q, y @ p, u @ q)
        assert gap(independent, carried @ p) <= tolerance / smallest


@every_backend
@given(data=st.data())
def test_log_and_distance_do_not_depend_on_the_basis(backend, data):
    case = data.draw(cases(backend.few(BY_BOTH[KINDS[0]])))
    x, y, _, q, p = turned(case)
    tolerance = 1e3 * backend.tolerance
    log = backend(case.manifold, "log", x, y)
    assert gap(backend(case.manifold, "log", x @ q, y @ p), log @ q) <= tolerance
    distance = backend(case.manifold, "distance", x, y)
    assert gap(backend(case.manifold, "distance", x @ q, y @ p), distance) <= tolerance
    cosines = np.clip(np.linalg.svd(transpose(x) @ y, compute_uv=False), 0, 1)
    # arccos loses half of the digits near angle 0: compare at that precision.
    assert gap(distance, np.sqrt(np.sum(np.arccos(cosines) ** 2, axis=-1))) <= 1e-2 * backend.epsilon**0.5 * 1e3
