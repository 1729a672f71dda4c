"""Logarithms of quotients by products (matrices beyond 16×16, compiled) against mpmath and SciPy."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.linalg

from retrax import _linalg, _logarithm
from retrax.manifolds import SPD

SIZE = 18
SPREADS = (1.0, 1.05, 1.4, 2.0, 3.0, 4.5, 6.0, 8.0, 30.0, 300.0)
"""Eigenvalues of the quotients lie between 1/spread and spread times a scale; the last two are beyond the series."""


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def quotients(dtype="float64", scale=1.7, condition=30.0):
    """A lower factor L, and for each spread y = L w Lᵀ, where w has the spread's eigenvalues."""
    rng = np.random.default_rng(5)
    turn = lambda: np.linalg.qr(rng.standard_normal((SIZE, SIZE)))[0]  # noqa: E731
    spectrum = lambda least: np.geomspace(least, 1 / least, SIZE)  # noqa: E731
    q = turn()
    lower = np.linalg.cholesky((q * spectrum(condition**-0.5)) @ q.T)
    found = []
    for spread in SPREADS:
        q = turn()
        y = lower @ ((q * (scale * spectrum(1 / spread))) @ q.T) @ lower.T
        found.append((y + y.T) / 2)
    return lower.astype(dtype), np.stack(found).astype(dtype)


def exact_log(lower, y):
    """In 40 digits, of the very numbers given."""
    with mpmath.workdps(40):
        inverse = mpmath.inverse(mpmath.matrix(lower.astype(float).tolist()))
        white = inverse * mpmath.matrix(y.astype(float).tolist()) * inverse.T
        values, vectors = mpmath.eigsy((white + white.T) / 2)
        logarithm = vectors * mpmath.diag([mpmath.log(value) for value in values]) * vectors.T
        return np.array(logarithm.tolist(), dtype=float)


@functools.cache
def exact(dtype):
    lower, ys = quotients(dtype)
    return [exact_log(lower, y) for y in ys]


def compiled_log(lower, ys):
    return np.asarray(jax.jit(_linalg.log_of_quotient)(lower, ys))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_as_exact_as_eigenvalues(dtype):
    """Thirty-two rounding units an entry; where it comes from eigenvalues, times the condition of W, spread²."""
    lower, ys = quotients(dtype)
    found = compiled_log(lower, ys)
    assert found.dtype == dtype
    for spread, got, expected in zip(SPREADS, found, exact(dtype), strict=True):
        condition = spread**2 if spread > 10 else 1
        assert np.max(np.abs(got - expected)) <= 32 * np.finfo(dtype).eps * condition, spread


def test_the_series_reaches_as_far_as_it_says():
    """And where it does not, it says so: what it gives there is replaced."""
    lower, ys = quotients()
    _, beyond = jax.jit(_logarithm._by_series)(lower, ys)
    assert np.asarray(beyond).tolist() == [spread > 10 for spread in SPREADS]


def test_agrees_with_scipy():
    lower, ys = quotients()
    inverse = np.linalg.inv(lower)
    for spread, got, y in zip(SPREADS[:-1], compiled_log(lower, ys), ys, strict=False):
        assert np.max(np.abs(got - scipy.linalg.logm(inverse @ y @ inverse.T).real)) <= 1e-13 * max(1, spread)


def test_badly_conditioned_points():
    """x and y with condition 1e8: W = L⁻¹ y L⁻ᵀ is known to 1e8 rounding units, no more."""
    lower, ys = quotients(condition=1e8)
    for spread, got, y in zip(SPREADS[:8], compiled_log(lower, ys), ys, strict=False):
        assert np.max(np.abs(got - exact_log(lower, y))) <= 1e-8, spread


def test_every_interval_is_covered_to_rounding():
    """p at 200 points of each interval, in the order in which the program adds."""
    for dtype in ("float64", "float32"):
        series = _logarithm._series(np.dtype(dtype))
        assert len(series.halves) >= 3
        for half, blocks in zip(series.halves.astype(float), series.blocks.astype(float), strict=True):
            t = np.linspace(-1, 1, 201)[1:]
            count = int(np.max(np.nonzero(np.any(blocks, axis=1)))) + 1
            total = np.polynomial.polynomial.polyval(t, blocks[0])
            for block in blocks[1:count]:
                total = total * t**4 + np.polynomial.polynomial.polyval(t, block)
            root = np.sqrt(half * (1 + t))
            assert np.max(np.abs(total * root / np.arctanh(root) - 1)) <= 16 * np.finfo(dtype).eps, half


def test_runs_side_by_side_share_no_branch():
    """Under vmap a branch would become both: eigenproblems of all matrices at every step."""
    lower, ys = quotients()
    lowers = np.stack([lower, 2 * lower])
    several = jax.jit(jax.vmap(_linalg.log_of_quotient, in_axes=(0, None)))
    found = np.asarray(several(lowers, ys))
    for got, one in zip(found, lowers, strict=True):
        assert np.max(np.abs(got - compiled_log(one, ys))) <= 1e-12
    assert "case" in several.lower(lowers, ys).as_text()


def test_derivatives_at_equal_points_and_elsewhere():
    """The squared distance from y, d/dx in the direction u: -2 ⟨Log_x y, u⟩; all eigenvalues equal at x = y."""
    manifold = SPD(SIZE)
    lower, ys = quotients()
    x = lower @ lower.T
    u = x @ np.diag(np.linspace(-1, 1, SIZE)) @ x
    u = (u + u.T) / 2
    squared = jax.jit(jax.grad(lambda x, y: manifold.distance(x, y) ** 2))
    for y, expected in ((x, 0.0), (ys[3], -2 * float(manifold.inner(x, manifold.log(x, ys[3]), u)))):
        slope = float(jnp.sum(squared(x, y) * u))
        assert np.isfinite(slope)
        assert abs(slope - expected) <= 1e-10 * (1 + abs(expected))


@pytest.mark.parametrize("size", [3, SIZE])
@pytest.mark.parametrize("argument", [0, 1, (0, 1)], ids=["by x", "by y", "by both"])
def test_derivatives_of_the_distance_are_those_of_finite_differences(size, argument):
    rng = np.random.default_rng(7)
    factors = rng.standard_normal((3, size, 2 * size))
    x, y, e = factors @ factors.swapaxes(1, 2) / size
    moves = [e if k in np.atleast_1d(argument) else np.zeros_like(e) for k in (0, 1)]
    distance = jax.jit(SPD(size).distance)
    gradients = jax.jit(jax.grad(lambda x, y: distance(x, y) ** 2, argument))(x, y)
    derivative = sum(float(np.sum(g * e)) for g in (gradients if isinstance(gradients, tuple) else [gradients]))
    at = lambda h: float(distance(x + h * moves[0], y + h * moves[1]) ** 2)  # noqa: E731
    h = 1e-4
    difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert derivative == pytest.approx(difference, rel=1e-8)
