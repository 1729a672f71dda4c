"""Leading batch axes: a batch gives what a loop over its members gives, and its members do not disturb each other."""

import array_api_strict
import jax
import numpy as np
import pytest
from array_backends import DOUBLE, Backend
from geometry_cases import BY_BOTH, BY_MANIFOLD, BY_RETRACTION, Case, finite, gap, largest

from retrax.manifolds import Euclidean, Grassmann, Stiefel


def member(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def example(kinds, kind, batch):
    manifold, _ = kinds[kind][0]
    case = Case(manifold, batch, seed=1, points="random", tangents="random", norm=1.0, condition=10.0)
    x, y = case.point(0), case.point(1)
    return manifold, {
        "retract": (x, case.tangent(x)),
        "transport": (x, y, case.tangent(x)),
        "project": (x, case.ambient()),
        "gradient": (x, case.ambient()),
        "inner": (x, case.tangent(x, 0), case.tangent(x, 1)),
        "norm": (x, case.tangent(x)),
        "violation": (x,),
        "random_point": (case.ambient(),),
        "random_tangent": (x, case.ambient()),
        "exp": (x, case.tangent(x)),
        "log": (x, y),
        "distance": (x, y),
    }


def assert_batch_is_loop(backend, manifold, operation, args):
    together = backend(manifold, operation, *args)
    for index in np.ndindex(2, 3):
        alone = backend(manifold, operation, *(member(arg, index) for arg in args))
        assert gap(member(together, index), alone) <= 100 * backend.epsilon * (1 + largest(alone))


@pytest.mark.parametrize("kind", BY_BOTH)
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
def test_retract_and_transport_of_a_batch(kind, backend):
    manifold, arguments = example(BY_BOTH, kind, (2, 3))
    for operation in ("retract", "transport"):
        assert_batch_is_loop(backend, manifold, operation, arguments[operation])


@pytest.mark.parametrize("kind", BY_MANIFOLD)
@pytest.mark.parametrize("backend", DOUBLE, ids=str)
def test_other_operations_on_a_batch(kind, backend):
    manifold, arguments = example(BY_MANIFOLD, kind, (2, 3))
    for operation in set(arguments) - {"retract", "transport"}:
        if hasattr(manifold, operation):
            assert_batch_is_loop(backend, manifold, operation, arguments[operation])


# Where a library's own linear algebra raises at NaN there is no batch left to look at.
RAISING = ("qr", "SPD", "-exp", "svd", "LogEuclidean", "BuresWasserstein", "Product")


@pytest.mark.parametrize(
    ("kind", "namespace"),
    [(kind, "jax") for kind in BY_RETRACTION]
    + [(kind, "numpy") for kind in BY_RETRACTION if not any(name in kind for name in RAISING)],
)
def test_a_diverged_member_leaves_the_others_alone(kind, namespace):
    """NaN in one member of a batch (a run that diverged) stays there."""
    backend = Backend(namespace, "float64")
    manifold, arguments = example(BY_RETRACTION, kind, (3,))
    x, u = arguments["retract"]
    bad = jax.tree.map(np.copy, u)
    for leaf in jax.tree.leaves(bad):
        leaf[0] = np.nan
    together = backend(manifold, "retract", x, bad)
    assert not finite(member(together, 0))
    good = backend(manifold, "retract", x, u)
    for index in (1, 2):
        assert gap(member(together, index), member(good, index)) <= 1e-13


@pytest.mark.parametrize("kind", BY_BOTH)
def test_device_is_kept(kind):
    """array-api-strict refuses to mix devices, so that an array made on the default device would show."""
    device = array_api_strict.Device("device1")
    manifold, arguments = example(BY_BOTH, kind, ())
    for operation, args in arguments.items():
        if not hasattr(manifold, operation):
            continue
        moved = jax.tree.map(lambda leaf: array_api_strict.asarray(np.asarray(leaf), device=device), args)
        for leaf in jax.tree.leaves(getattr(manifold, operation)(*moved)):
            assert leaf.device == device


@pytest.mark.parametrize(("cls", "missing"), [(Stiefel, ("exp", "log", "distance")), (Euclidean, ()), (Grassmann, ())])
def test_what_a_manifold_lacks_is_absent(cls, missing):
    assert [name for name in ("exp", "log", "distance") if not hasattr(cls, name)] == list(missing)
