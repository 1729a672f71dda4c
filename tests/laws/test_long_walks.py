"""Long walks on all manifolds: rounding does not build up, and nothing becomes NaN on the way.

10⁵ steps here; `RETRAX_WALK=1000000` takes a million, and `-s` shows the violations at the end: those of
docs/manifolds.md.
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
UNBOUNDED = ("FixedRank", "SPD", "LogEuclidean", "BuresWasserstein", "Positive", "Symmetric")
# A flat space has no violation, and a product those of its factors.
KINDS = [kind for kind in BY_RETRACTION if not kind.startswith(("Euclidean", "Product"))]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-14), ("float32", 1e-6)], ids=["double", "single"])
@pytest.mark.parametrize("kind", KINDS)
def test_long_walks_end_on_the_manifold(kind, dtype, bound):
    """In hyperbolic space the walk drifts out to where the precision ends; elsewhere steps go back and forth."""
    manifold, _ = BY_RETRACTION[kind][0]
    case = Case(manifold, (), seed=0, points="random", tangents="random", norm=1.0, condition=3.0)
    # Where distances are not bounded steps are short, so that the walk itself stays within floating-point range.
    length = 1e-3 if kind.startswith(UNBOUNDED) else 0.1
    start = case.point().astype(dtype)
    bank = length * np.random.default_rng(0).standard_normal((BANK, *start.shape)) / np.sqrt(start.size)

    def step(i, carry):
        x, bank = carry
        sign = jnp.where(i // BANK % 2 == 0, 1, -1).astype(dtype)  # else the sum of the directions would be a drift
        return manifold.retract(x, manifold.random_tangent(x, sign * bank[i % BANK])), bank

    with jax.enable_x64(dtype == "float64"):
        walk = jax.jit(lambda x, bank: jax.lax.fori_loop(0, STEPS, step, (x, bank))[0])
        end = np.asarray(walk(jnp.asarray(start), jnp.asarray(bank, dtype)))
    assert end.dtype == dtype
    assert finite(end)
    assert np.max(np.abs(end - start)) > length / 10  # it did walk
    end = end.astype(np.float64)
    by_hand, ours = float(textbook.of(manifold).violation(manifold, end)), float(np.max(manifold.violation(end)))
    print(f"{kind}, {dtype}: {max(by_hand, ours):.1e} after {STEPS} steps")
    assert max(by_hand, ours) <= bound
