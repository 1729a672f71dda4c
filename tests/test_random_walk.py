"""Long random walks: points stay on the manifold, and three array libraries walk the same way.

10⁵ steps here; `RETRAX_WALK=1000000` takes the million that the documentation speaks of.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from retrax.manifolds import SPD, Euclidean, Grassmann, Product, Sphere, Stiefel

STEPS = int(os.environ.get("RETRAX_WALK", "100_000"))
BANK = 4096  # Gaussian directions, drawn once and used in turn: drawing in each step would cost more than the step

LONG_WALKS = [
    *(Stiefel(100, 10, retraction=name) for name in Stiefel.retractions),
    *(Grassmann(100, 10, retraction=name) for name in Grassmann.retractions),
    *(SPD(10, retraction=name) for name in SPD.retractions),
]


@pytest.mark.slow
@pytest.mark.parametrize("manifold", LONG_WALKS, ids=str)
def test_long_walks_end_on_the_manifold(manifold):
    """With no re-projection by the caller: violation ≤ 1e-10 in float64, in one compiled loop.

    On SPD, which is not bounded, steps are short, so that the walk itself stays within floating-point range.
    """
    length = 1e-3 if isinstance(manifold, SPD) else 0.5
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((BANK, *manifold.ambient_shape))
    directions *= length / np.linalg.norm(directions, axis=(-2, -1), keepdims=True)

    def step(i, carry):
        x, directions = carry
        # Back and forth through the bank's signs: else the sum of its directions would be a drift.
        sign = jnp.where(i // BANK % 2 == 0, 1.0, -1.0)
        return manifold.retract(x, manifold.random_tangent(x, sign * directions[i % BANK])), directions

    with jax.enable_x64(True):
        start = jnp.asarray(manifold.random_point(rng.standard_normal(manifold.ambient_shape)))
        walk = jax.jit(lambda x, directions: jax.lax.fori_loop(0, STEPS, step, (x, directions))[0])
        end = np.asarray(walk(start, jnp.asarray(directions)))
    assert end.dtype == np.float64
    assert np.linalg.norm(end - np.asarray(start)) > length / 2  # it did walk
    if isinstance(manifold, SPD):
        assert np.array_equal(end, end.T)
        assert np.linalg.eigvalsh(end)[0] > 0
    else:
        assert np.max(np.abs(end.T @ end - np.eye(10))) <= 1e-10
    assert float(manifold.violation(end)) <= 1e-10


SHORT_WALKS = [
    cls(*sizes, retraction=retraction, transport=transport)
    for cls, sizes in ((Sphere, (8,)), (Stiefel, (12, 4)), (Grassmann, (12, 4)), (SPD, (5,)))
    for retraction in cls(*sizes).retractions
    for transport in cls(*sizes).transports
] + [
    Product({"U": Stiefel(6, 2, transport="rotation"), "C": SPD(3), "b": (Euclidean(4), Sphere(3))}),
]

LIBRARIES = {"numpy": np.asarray, "jax": jnp.asarray, "torch": torch.asarray}


def walk(manifold, gaussians, convert):
    """100 steps of norm about 0.1, with a tangent vector carried along: the last point and the vector there."""
    moved = [jax.tree.map(convert, gaussian) for gaussian in gaussians]
    operations = manifold.random_tangent, manifold.retract, manifold.transport
    if convert is jnp.asarray:
        operations = tuple(jax.jit(operation) for operation in operations)
    random_tangent, retract, transport = operations
    x = manifold.random_point(moved[0])
    carried = random_tangent(x, moved[1])
    for gaussian in moved[2:]:
        y = retract(x, jax.tree.map(lambda a: 0.02 * a, random_tangent(x, gaussian)))
        x, carried = y, transport(x, y, carried)
    return jax.tree.map(np.asarray, (x, carried))


@pytest.mark.parametrize("manifold", SHORT_WALKS, ids=str)
def test_the_same_walk_on_numpy_jax_and_torch(manifold):
    rng = np.random.default_rng(1)
    gaussians = [jax.tree.map(rng.standard_normal, manifold.ambient_shape, is_leaf=_is_shape) for _ in range(102)]
    with jax.enable_x64(True):
        ends = {name: walk(manifold, gaussians, convert) for name, convert in LIBRARIES.items()}
    for name in ("jax", "torch"):
        for ours, theirs in zip(jax.tree.leaves(ends["numpy"]), jax.tree.leaves(ends[name]), strict=True):
            assert theirs.dtype == np.float64
            assert np.max(np.abs(ours - theirs)) <= 1e-10
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(ends))


def _is_shape(node):
    return isinstance(node, tuple) and all(isinstance(size, int) for size in node)
