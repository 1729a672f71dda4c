"""Products aᵀ b of tall matrices: the same numbers, with the transpose of the one with fewer columns."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax._precision import precision
from retrax.drivers import factors
from retrax.drivers.jax import JaxDriver
from retrax.drivers.loops import LOOP_OPTIONS
from retrax.sources import Samples

WIDE = np.random.default_rng(0).standard_normal((200, 50))
SLIM = np.random.default_rng(1).standard_normal((200, 3))


@jax.jit
def within(a, b):
    return a.T @ (2 * b)


@jax.custom_jvp
def with_rule(a):
    return jnp.sin(a)


with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), tangents[0] * jnp.cos(primals[0])))

FUNCTIONS = {
    "transposed": lambda a, b: a.T @ b,
    "the other way round": lambda a, b: b.T @ a,
    "contracted": lambda a, b: jnp.einsum("ij,ik->jk", a, b),
    "of a product": lambda a, b: a.T @ (a @ (a.T @ b)),
    "within another function": within,
    "with a rule for derivatives": lambda a, b: with_rule(a).T @ b,
    "gradient": lambda a, b: jax.grad(lambda x: jnp.sum((a @ x) ** 2))(a.T @ b),
    "in a loop": lambda a, b: jax.lax.fori_loop(0, 2, lambda _, c: a.T @ (a @ c) / 200, a.T @ b),
    "in a branch": lambda a, b: jax.lax.cond(b[0, 0] > 0, lambda: a.T @ b, lambda: jnp.zeros((50, 3))),
    "alike": lambda a, b: a.T @ a,
    "rows": lambda a, b: a[:, :3] @ b.T,
    "a vector": lambda a, b: a.T @ b[:, 0],
    "stacks": lambda a, b: jnp.stack([a, a]).mT @ b,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values(name, dtype):
    a, b = WIDE.astype(dtype), SLIM.astype(dtype)
    with precision(dtype):
        expected = jax.jit(FUNCTIONS[name])(a, b)
        found = jax.jit(factors.arranged(FUNCTIONS[name]))(a, b)
    assert found.dtype == expected.dtype
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=scale * (1e-13 if dtype == "float64" else 1e-5))


def test_values_for_several_at_once():
    a, b = np.stack([WIDE, 2 * WIDE]), np.stack([SLIM, SLIM])
    with precision("float64"):
        found = jax.jit(jax.vmap(factors.arranged(FUNCTIONS["transposed"])))(a, b)
    np.testing.assert_allclose(found, a.mT @ b, rtol=1e-12)


def transposes(function, *arguments):
    """The shapes of the matrices that the compiled program makes by transposing."""
    with precision("float64"):
        text = jax.jit(function, compiler_options=LOOP_OPTIONS).lower(*arguments).compile().as_text()
    return {tuple(map(int, one)) for one in re.findall(r"transpose\S* = f64\[(\d+),(\d+)\]", text)}


@pytest.mark.parametrize("name", ["transposed", "the other way round", "contracted", "of a product", "gradient"])
def test_the_larger_matrix_is_never_transposed(name):
    assert (50, 200) not in transposes(factors.arranged(FUNCTIONS[name]), WIDE, SLIM)


def test_the_compiler_alone_transposes_it():
    """Else all this would be for nothing."""
    assert (50, 200) in transposes(FUNCTIONS["transposed"], WIDE, SLIM)


STACK = np.random.default_rng(3).standard_normal((4, 50, 40))


def diagonals(x, batch):
    """Joint diagonalization, whose gradient needs Σ Aᵢᵀ Bᵢ for matrices Aᵢ that need not be symmetric."""
    return jnp.sum(jnp.sum(x[:, :40] * (batch @ x[:40]), axis=-2) ** 2)


def pair_of_gradients(batch, x):
    return jax.grad(diagonals)(x, batch), jax.grad(diagonals)(2 * x, batch)


@pytest.mark.parametrize("other", [WIDE[:50, :40], WIDE[:50, :30]], ids=["as wide", "narrower"])
def test_sums_over_stacks(other):
    def function(a, b):
        return jnp.einsum("nij,nik->jk", a, a[:, :, :1] * b)

    with precision("float64"):
        found = jax.jit(factors.arranged(function))(STACK, other)
    np.testing.assert_allclose(found, sum(a.T @ (a[:, :1] * other) for a in STACK), atol=1e-11)


def test_the_batch_is_transposed_once_for_both_points():
    """And not what was made of it at each of them."""
    x = WIDE[:50, :40]
    with precision("float64"):
        found = jax.jit(factors.arranged(pair_of_gradients))(STACK, x)
        expected = jax.jit(pair_of_gradients)(STACK, x)
        text = jax.jit(factors.arranged(pair_of_gradients)).lower(STACK, x).as_text()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-9)
    assert len(re.findall(r"transpose %\S+, .*tensor<200x40xf64>", text)) == 1


def test_what_a_user_prints_is_printed(capfd):
    def loud(a, b):
        jax.debug.print("seen {}", b[0, 0])
        return a.T @ b

    with precision("float64"):
        jax.block_until_ready(jax.jit(factors.arranged(loud))(WIDE, SLIM))
        jax.effects_barrier()
    assert "seen" in capfd.readouterr().out


def residual(x, batch):
    return jnp.mean(jnp.log1p(jnp.sum((batch - (batch @ x) @ x.T) ** 2, axis=-1)))


DATA = np.random.default_rng(2).standard_normal((400, 60)) * np.linspace(2, 0.1, 60)
PROBLEMS = {
    "ready-made": rx.problems.PCA(DATA, 4),
    "own loss": rx.Problem(residual, rx.Stiefel(60, 4), DATA),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("method", [rx.rsrm(0.05), rx.rsrm(), rx.rsgd(0.05), rx.crmsprop(1e-3)], ids=lambda m: m.name)
def test_runs_with_large_batches_agree_with_the_eager_driver(problem, method):
    """The eager driver knows nothing of all this."""
    settings = {"steps": 12, "batch_size": 150, "first_batch_size": 200, "seed": 3, "progress": False, "record": 12}
    found = rx.minimize(problem, method, **settings)
    expected = rx.minimize(problem, method, driver="eager", **settings)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("batch", "expected"), [(150, True), (5, False)])
def test_which_runs_are_arranged(batch, expected):
    """Those with batches that are long to transpose, and neither in a span nor in one kernel."""
    with precision("float64"):
        driver = JaxDriver(PROBLEMS["ready-made"], rx.rsrm(0.05), "float64")
        x, state = driver.start(PROBLEMS["ready-made"].initial_point(0))
        indices = np.zeros((3, batch), np.int32)
        driver._loop_arguments(driver.method, x, state, Samples(None, indices), 2, 3)
        ((form, _),) = driver.forms
        assert form.short_transposes is expected


def test_a_sweep_agrees_with_single_runs():
    settings = {"steps": 10, "batch_size": 150, "first_batch_size": 200, "record": 10}
    swept = rx.sweep(PROBLEMS["own loss"], rx.rsrm, [0.02, 0.05], 1, **settings)["RSRM"]
    single = rx.minimize(PROBLEMS["own loss"], rx.rsrm(0.05), seed=0, progress=False, **settings)
    assert swept.curves["loss"][1, 0, -1] == pytest.approx(single.history["loss"][-1], rel=1e-12)
