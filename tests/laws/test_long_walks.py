"""Long walks on all manifolds: rounding does not build up, and nothing becomes NaN on the way.

10⁵ steps here; `RETRAX_WALK=1000000` takes a million.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import textbook
from geometry_cases import BY_RETRACTION, Case, finite

STEPS = int(os.environ.get("RETRAX_WALK", "100_000"))
BANK = 4096  # Gaussian directions, drawn once and used in turn: drawing in each step would cost more than the step
UNBOUNDED = ("FixedRank", "LogEuclidean", "BuresWasserstein", "Positive", "Symmetric")
# Stiefel, Grassmann and SPD walk at their full size in test_random_walk.py; a flat space has no violation.
KINDS = [kind for kind in BY_RETRACTION if not kind.startswith(("Stiefel", "Grassmann", "SPD", "Euclidean", "Product"))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_long_walks_end_on_the_manifold(kind):
    """In hyperbolic space the walk drifts out to where the precision ends; elsewhere steps go back and forth."""
    manifold, _ = BY_RETRACTION[kind][0]
    case = Case(manifold, (), seed=0, points="random", tangents="random", norm=1.0, condition=3.0)
    # Where distances are not bounded steps are short, so that the walk itself stays within floating-point range.
    length = 1e-3 if kind.startswith(UNBOUNDED) else 0.1
    start = case.point()
    bank = length * np.random.default_rng(0).standard_normal((BANK, *start.shape)) / np.sqrt(start.size)

    def step(i, carry):
        x, bank = carry
        sign = jnp.where(i // BANK % 2 == 0, 1.0, -1.0)  # else the sum of the directions would be a drift
        return manifold.retract(x, manifold.random_tangent(x, sign * bank[i % BANK])), bank

    with jax.enable_x64(True):
        walk = jax.jit(lambda x, bank: jax.lax.fori_loop(0, STEPS, step, (x, bank))[0])
        end = np.asarray(walk(jnp.asarray(start), jnp.asarray(bank)))
    assert finite(end)
    assert np.max(np.abs(end - start)) > length / 10  # it did walk
    assert textbook.of(manifold).violation(manifold, end) <= 1e-12
    assert float(manifold.violation(end)) <= 1e-12
