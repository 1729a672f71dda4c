"""Sparse rows: a step touches the rows that its batch names, and methods remember row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.problems.base import BatchOracle
from retrax.rows import RowByRow

CONSTANT = rx.schedules.constant


def spring(x, batch):
    """½ mean ‖x_u - x_v - a‖²."""
    u, v = x[batch["ends"][:, 0]], x[batch["ends"][:, 1]]
    return jnp.mean(jnp.sum((u - v - batch["rest"]) ** 2, axis=-1)) / 2


def springs(rows, count, d=2, seed=0):
    generator = np.random.default_rng(seed)
    ends = np.array([generator.choice(rows, 2, replace=False) for _ in range(count)], dtype=np.int32)
    return {"ends": ends, "rest": generator.normal(size=(count, d))}


def by_hand(x, data, order, step_size, gain):
    """Lazy RSRM in plain NumPy, one spring at a time: each row has its own last point, direction and clock."""
    x = x.copy()
    last, direction, clock = x.copy(), np.zeros_like(x), np.zeros(len(x), dtype=int)
    for sample in order:
        (u, v), rest = data["ends"][sample], data["rest"][sample]
        here, before = x[u] - x[v] - rest, last[u] - last[v] - rest
        for row, sign in ((u, 1), (v, -1)):
            clock[row] += 1
            kept = direction[row] - sign * before if clock[row] > 1 else 0
            weight = 1 - gain(clock[row]) if clock[row] > 1 else 0
            direction[row] = sign * here + weight * kept
        for row in (u, v):
            last[row] = x[row]
            x[row] = x[row] - step_size * direction[row]
    return x, direction, clock


def steps_of(problem, method, x, order, dtype="float64"):
    """The compiled steps on given samples, one by one."""
    lazy = RowByRow(method)
    with jax.enable_x64(True):
        x, data = jnp.asarray(x, dtype=dtype), jax.tree.map(jnp.asarray, problem.data)
        state = lazy.init(problem.manifold, x)

        @jax.jit
        def step(x, state, sample):
            batch = jax.tree.map(lambda a: a[sample][None], data)
            return lazy.step(problem.manifold, BatchOracle(problem.objective, batch), x, state, 1.0)

        for sample in order:
            x, state = step(x, state, sample)
        return np.asarray(x), jax.tree.map(np.asarray, state)


@pytest.mark.parametrize(("step_size", "power"), [(0.2, -2 / 3), (0.0, -1.0)])
def test_lazy_rsrm_by_hand(step_size, power):
    """With steps of length zero and ρ = 1/k the direction of a row is the mean of the k gradients that it has seen."""
    rows, data = 7, springs(7, 40)
    problem = rx.Problem(spring, rx.Power(rx.Euclidean(2), rows), data, sparse=["ends"])
    start = np.random.default_rng(1).normal(size=(rows, 2))
    method = rx.rsrm(CONSTANT(step_size), rho=rx.schedules.power(1.0, power))
    order = np.random.default_rng(2).integers(0, 40, 60)
    x, state = steps_of(problem, method, start, order)
    expected = by_hand(start, data, order, step_size, lambda k: k**power)
    np.testing.assert_allclose(x, expected[0], atol=1e-13)
    np.testing.assert_allclose(state.last.vector, expected[1], atol=1e-13)
    np.testing.assert_array_equal(state.touched, expected[2])
    if step_size == 0:
        for row in range(rows):
            seen = [
                (1 if data["ends"][s, 0] == row else -1) * (start[u] - start[v] - data["rest"][s])
                for s in order
                for u, v in [data["ends"][s]]
                if row in (u, v)
            ]
            np.testing.assert_allclose(state.last.vector[row], np.mean(seen, axis=0), atol=1e-13)


def test_if_every_batch_names_every_row_it_is_the_method_itself():
    generator = np.random.default_rng(0)
    data = {"rows": np.array([generator.permutation(4) for _ in range(30)]), "pull": generator.normal(size=(30, 4, 3))}

    def loss(x, batch):
        return -jnp.mean(jnp.sum(x[batch["rows"]] * batch["pull"], axis=(1, 2))) + jnp.mean((x[0] @ x[1]) ** 2)

    arguments = {"steps": 40, "batch_size": 2, "first_batch_size": 2, "dtype": "float64", "progress": False}
    manifold = rx.Power(rx.Sphere(3, transport="parallel"), 4)
    for method in (rx.rsrm(0.1, rho=0.3),):
        sparse = rx.minimize(rx.Problem(loss, manifold, data, sparse=["rows"]), method, **arguments)
        dense = rx.minimize(rx.Problem(loss, manifold, data), method, **arguments)
        np.testing.assert_allclose(sparse.x, dense.x, atol=1e-12)
        assert sparse.sfo == dense.sfo
        assert sparse.history["step_size"][-1] == pytest.approx(dense.history["step_size"][-1])


def test_rows_that_are_not_named_stay_as_they_are():
    data = springs(50, 20, seed=3)
    data["ends"] %= 25
    data["ends"][:, 1] = (data["ends"][:, 0] + 1) % 25
    problem = rx.Problem(spring, rx.Power(rx.Euclidean(2), 50), data, sparse=["ends"])
    result = rx.minimize(problem, rx.rsgd(0.3), steps=60, dtype="float64", progress=False, record=60)
    start = problem.initial_point(0)
    named = np.unique(data["ends"])
    np.testing.assert_array_equal(np.delete(result.x, named, axis=0), np.delete(start, named, axis=0))
    assert np.abs(result.x - start)[named].max() > 0
    assert result.history["loss"][-1] < result.history["loss"][0]


def test_neither_arithmetic_nor_memory_grows_with_the_rows():
    """Of compiled loops, as XLA counts them; the table itself is an argument, and updated in place."""

    def loop(rows):
        problem = rx.Problem(spring, rx.Power(rx.Euclidean(2), rows), springs(20, 8), sparse=["ends"])
        lazy = RowByRow(rx.rsrm(0.1))
        x = jnp.zeros((rows, 2), dtype="float32")
        data = jax.tree.map(lambda a: jnp.asarray(a, dtype="float32" if a.dtype.kind == "f" else None), problem.data)

        def body(i, carry):
            oracle = BatchOracle(problem.objective, jax.tree.map(lambda a: a[i % 8][None], data))
            return lazy.step(problem.manifold, oracle, *carry, 1.0)

        run = jax.jit(lambda carry: jax.lax.fori_loop(0, 10, body, carry), donate_argnums=0)
        compiled = run.lower((x, lazy.init(problem.manifold, x))).compile()
        return compiled.cost_analysis()["flops"], compiled.memory_analysis().temp_size_in_bytes

    assert loop(100_000) == loop(1_000)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: rx.minimize(p, rx.rsvrg(0.1), steps=2), "restarts from a gradient of all rows"),
        (lambda p: rx.minimize(p, rx.rsrm(), steps=2), "not possible row by row"),
        (lambda p: rx.minimize(p, rx.rsgd(0.1), steps=2, driver="eager"), "driver='jax'"),
        (lambda p: rx.Problem(spring, rx.Euclidean(2), p.data, sparse=["ends"]), "table of rows"),
        (
            lambda p: rx.minimize(rx.Problem(spring, p.manifold, p.data, sparse=["rest"]), rx.rsgd(0.1), steps=2),
            "'rest'",
        ),
    ],
)
def test_what_sparse_rows_refuse(call, words):
    problem = rx.Problem(spring, rx.Power(rx.Euclidean(2), 7), springs(7, 40), sparse=["ends"])
    with pytest.raises(ValueError, match=words):
        call(problem)
