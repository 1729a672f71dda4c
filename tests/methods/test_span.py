"""Steps in the span of what they start from, against the same programs on long matrices."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax._precision import precision
from retrax._programs import compiled
from retrax.drivers import grouping, span, wide_span
from retrax.drivers.devices import OneDevice
from retrax.drivers.jax import JaxDriver
from retrax.drivers.loops import LOOP_OPTIONS, advance_in_form
from retrax.estimators import Plain, RecursiveMomentum
from retrax.problems import pca
from retrax.scalings import RASA, Coordinatewise, Identity
from retrax.sources import Samples
from retrax.step_sizes import DistanceOverGradients

D, R, B = 120, 4, 5
DATA = np.random.default_rng(0).standard_normal((60, D)) * np.linspace(2, 0.1, D)


def residual(x, batch):
    """A user's loss: the mean distance from the subspace, rounded off near 0."""
    rest = batch - (batch @ x) @ x.T
    return jnp.mean(jnp.sqrt(1 + jnp.sum(rest**2, axis=-1)))


def weighted(x, batch):
    return -jnp.mean((batch @ (x * jnp.arange(1.0, R + 1))) ** 2)


def sparse(x, batch):
    """Looks at entries of x, which no coefficients tell."""
    return pca.loss(x, batch) + 0.1 * jnp.sum(jnp.abs(x))


def cut(x, batch):
    return pca.loss(jnp.clip(x, -0.1, 0.1), batch)


def run(problem, method, stretches=(7,), in_span=None, dtype="float64"):
    """The point and the state after the steps of all stretches, and the form that they were taken in."""
    draws = method.estimator.draws(B)
    indices = np.random.default_rng(1).integers(0, len(DATA), (sum(stretches), draws)).astype(np.int32)
    with precision(dtype):
        driver = JaxDriver(problem, method, dtype)
        x, state = driver.start(problem.initial_point(0))
        x, state = driver.restart(x, state, Samples(None, np.arange(20, dtype=np.int32)), 1)
        step = 2
        for length in stretches:
            payload = Samples(None, indices[step - 2 : step - 2 + length])
            (objective, _, fed), arguments = driver._loop_arguments(driver.method, x, state, payload, step, length)
            form, _ = driver.forms[-1]
            taken = form
            if in_span is False:
                taken = dataclasses.replace(form, in_span=False, one_kernel=False, small_kernel=False)
            statics = objective, taken, fed
            x, state = compiled(advance_in_form, statics, *arguments, options=LOOP_OPTIONS)(*arguments)
            step += length
        return jax.tree.map(np.asarray, (x, state)), form


MANIFOLDS = {
    "Grassmann": rx.Grassmann(D, R),
    "Grassmann, QR": rx.Grassmann(D, R, retraction="qr"),
    "Grassmann, geodesics": rx.Grassmann(D, R, retraction="exp", transport="parallel"),
    "Stiefel": rx.Stiefel(D, R),
    "Stiefel, isometric": rx.Stiefel(D, R, retraction="polar", transport="rotation"),
}
METHODS = {
    "rsrm": rx.rsrm(0.05),
    "untuned": rx.rsrm(),
    "rsgd": rx.rsgd(0.05),
    "csgd_m": rx.csgd_m(0.05, 0.9),
    "automatic rho": rx.rsrm(0.05, rho="auto"),
}


WIDE = {
    "rsgd": rx.rsgd(0.05),
    "crmsprop": rx.crmsprop(0.01),
    "crmsprop, unbiased": rx.Method(Plain(), Coordinatewise(0.9, 1e-8, unbiased=True), rx.schedules.power(0.01, -0.5)),
    "ramsgrad": rx.ramsgrad(0.05),
    "rasa, rows": rx.rasa(0.01, sides="L"),
    "rasa, columns": rx.rasa(0.01, sides="R"),
    "rasa": rx.rasa(0.01),
    "rdog": rx.rdog(),
    "rdowg": rx.rdowg(),
    "nrdog": rx.nrdog(),
    "rsvrg": rx.rsvrg(0.05),
    "rspider": rx.rspider(0.05),
    "rsrm, scaled": rx.Method(
        RecursiveMomentum(rx.schedules.constant(0.3)), RASA(0.9, 1e-8), rx.schedules.constant(0.01)
    ),
}


def assert_same(found, expected, tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.max(np.abs(b))))


@pytest.mark.parametrize(
    ("loss", "manifold"), [*((residual, manifold) for manifold in MANIFOLDS), (weighted, "Stiefel")]
)
def test_a_users_loss_takes_the_same_steps(loss, manifold):
    problem = rx.Problem(loss, MANIFOLDS[manifold], DATA)
    found, form = run(problem, METHODS["rsrm"])
    assert form.in_span
    assert_same(found, run(problem, METHODS["rsrm"], in_span=False)[0], 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_every_estimator_takes_the_same_steps(method):
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    found, form = run(problem, METHODS[method], (40,))
    assert form.in_span
    assert_same(found, run(problem, METHODS[method], (40,), in_span=False)[0], 1e-9)


@pytest.mark.parametrize(
    ("method", "manifold"),
    [
        *((method, "Grassmann") for method in WIDE),
        *(
            (method, manifold)
            for method in ("rasa", "rsvrg")
            for manifold in ("Grassmann, QR", "Grassmann, geodesics", "Stiefel, isometric")
        ),
    ],
)
def test_methods_that_start_from_more_take_the_same_steps(method, manifold):
    """In one kernel, since d is small; the state, with all that methods remember, is the same too."""
    problem = rx.Problem(residual, MANIFOLDS[manifold], DATA)
    found, form = run(problem, WIDE[method], (12,))
    assert form.wide
    assert_same(found, run(problem, WIDE[method], (12,), in_span=False)[0], 1e-9)


@pytest.mark.parametrize(
    ("method", "loss"), [*((method, residual) for method in WIDE), ("rsgd", sparse), ("rasa", sparse)]
)
def test_long_matrices_with_their_small_parts_in_kernels(loss, method):
    """The same beyond the sizes of one kernel, also for a loss that looks at entries."""
    data = np.tile(DATA, 2)[:, : 2 * D - 30]
    problem = rx.Problem(loss, rx.Stiefel(2 * D - 30, R), data)
    found, form = run(problem, WIDE[method], (12,))
    assert form.wide
    assert form.small_kernel
    assert_same(found, run(problem, WIDE[method], (12,), in_span=False)[0], 1e-9)


def test_a_distance_is_as_exact_as_of_the_matrices_themselves():
    """Inner products of nearly equal points would tell their distance to √ε only, 3e-4 in single precision."""
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    method = rx.Method(Plain(), Identity(), DistanceOverGradients(1e-9))
    state = run(problem, method, (1,), dtype="float32")[0][1]
    assert state.step_size.farthest < 1e-6


def test_single_precision():
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    found, form = run(problem, METHODS["rsrm"], (200,), dtype="float32")
    assert form.in_span
    assert found[0].dtype == np.float32
    assert problem.manifold.violation(found[0]) < 1e-6
    assert_same(found, run(problem, METHODS["rsrm"], (200,), in_span=False, dtype="float32")[0], 1e-3)


@pytest.mark.parametrize("method", ["crmsprop", "ramsgrad", "rdog", "rsvrg"])
def test_the_wide_span_in_single_precision(method):
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    found, form = run(problem, WIDE[method], (100,), dtype="float32")
    assert form.wide
    assert problem.manifold.violation(found[0]) < 1e-6
    assert_same(found, run(problem, WIDE[method], (100,), in_span=False, dtype="float32")[0], 3e-3)


@pytest.mark.parametrize("method", ["rsgd", "crmsprop", "rsvrg"])
def test_a_wide_run_is_the_same_to_the_bit_however_it_is_cut(method):
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    whole, parts = run(problem, WIDE[method], (12,))[0], run(problem, WIDE[method], (5, 1, 6))[0]
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wide_steps_of_no_sensible_length_stay_on_the_manifold():
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    (x, _), form = run(problem, rx.rsgd(1e12))
    assert form.wide
    assert problem.manifold.violation(x) < 1e-6


@pytest.mark.parametrize("loss", [sparse, cut])
def test_a_loss_that_looks_at_entries_is_left_alone(loss):
    assert not run(rx.Problem(loss, MANIFOLDS["Stiefel"], DATA), METHODS["rsrm"])[1].in_span


@pytest.mark.parametrize("rank", [R, 20])
def test_a_loss_that_looks_at_entries_of_long_points(rank):
    """Too long for one kernel; with 20 columns too wide for kernels of what is small."""
    data = np.tile(DATA, 2)[:, :200]
    problem, settings = rx.Problem(sparse, rx.Stiefel(200, rank), data), {"steps": 12, "record": 12, "progress": False}
    found = rx.minimize(problem, METHODS["rsrm"], **settings)
    expected = rx.minimize(problem, METHODS["rsrm"], driver="eager", **settings)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-11)


def repeated_losses():
    """What is one column, or one sample, beside several is repeated by the operation itself."""
    return {
        "point beside samples": (rx.Euclidean(D, 1), lambda x, b: jnp.mean(jnp.sum((b - x.T) ** 2, -1))),
        "the other way round": (rx.Stiefel(D, 1), lambda x, b: jnp.mean(jnp.sum((x.T - b) ** 2, -1))),
        "sample beside samples": (rx.Stiefel(D, 3), lambda x, b: -jnp.mean(((b[:1] - b) @ x) ** 2)),
        "column beside columns": (
            rx.Stiefel(D, 3),
            lambda x, b: pca.loss(x, b) + jnp.sum((b @ (x[:, :1] - x)) ** 2),
        ),
        "product of columns": (rx.Stiefel(D, 3), lambda x, b: pca.loss(x, b) + jnp.sum(x[:, :1] * x)),
        "difference of columns": (rx.Stiefel(D, 3), lambda x, b: pca.loss(x, b) + jnp.sum((x[:, :1] - x) ** 2)),
        "column selected": (
            rx.Stiefel(D, 3),
            lambda x, b: pca.loss(jnp.where(jnp.sum(b) > 0, x[:, 1:2], x), b),
        ),
        "column divided": (rx.Stiefel(D, 3), lambda x, b: pca.loss(x[:, :1] / jnp.arange(1.0, 4.0) + x, b)),
    }


@pytest.mark.parametrize("method", ["rsrm", "rsgd", "rasa", "rsvrg"])
@pytest.mark.parametrize("name", repeated_losses())
def test_what_an_operation_repeats(name, method):
    manifold, loss = repeated_losses()[name]
    problem = rx.Problem(loss, manifold, DATA)
    method = {"rsrm": rx.rsrm(0.05), "rsgd": rx.rsgd(0.05), "rasa": rx.rasa(1e-3), "rsvrg": rx.rsvrg(0.05)}[method]
    settings = {"steps": 7, "batch_size": 4, "first_batch_size": 20, "record": 7, "progress": False}
    found = rx.minimize(problem, method, **settings)
    expected = rx.minimize(problem, method, driver="eager", **settings)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-11)


def test_what_a_loss_tells_python_is_told_at_every_point():
    told = []

    def loss(x, batch):
        jax.debug.callback(told.append, jnp.sum(x))
        return pca.loss(x, batch)

    counts = []
    for driver in ("jax", "eager"):
        told.clear()
        rx.minimize(rx.Problem(loss, MANIFOLDS["Stiefel"], DATA), rx.rsgd(0.1), steps=5, driver=driver, progress=False)
        jax.effects_barrier()
        counts.append(len(told))
    assert counts[0] == counts[1] > 5


def test_a_run_is_the_same_to_the_bit_however_it_is_cut():
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    whole, parts = run(problem, METHODS["untuned"], (12,))[0], run(problem, METHODS["untuned"], (5, 1, 6))[0]
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_of_no_sensible_length_stay_on_the_manifold():
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    (x, _), form = run(problem, rx.rsrm(1e12))
    assert form.in_span
    assert problem.manifold.violation(x) < 1e-6


def test_a_sweep_is_its_runs():
    problem = rx.Problem(residual, MANIFOLDS["Grassmann"], DATA)
    rates = [0.01, 0.05]
    swept = rx.sweep(problem, rx.rsrm, rates, 1, steps=30, batch_size=B, record=10)["RSRM"]
    for i, rate in enumerate(rates):
        single = rx.minimize(problem, rx.rsrm(rate), steps=30, batch_size=B, record=10, progress=False)
        np.testing.assert_allclose(np.ravel(swept.curves["loss"][i]), single.history["loss"], rtol=1e-12)


def programs():
    square = lambda a: a @ a.T  # noqa: E731
    return {
        "combination": lambda x, y, b: 2 * x - y / 3,
        "columns": lambda x, y, b: x * jnp.arange(1.0, 4) + y,
        "projection": lambda x, y, b: y - x @ (x.T @ y),
        "samples": lambda x, y, b: b.T @ jnp.tanh(b @ x),
        "side by side": lambda x, y, b: (jnp.concatenate([x, y], axis=1) @ jnp.ones((6, 3)))[:, :2] @ jnp.ones((2, 3)),
        "turned": lambda x, y, b: (x.T + y.T).T,
        "either": lambda x, y, b: jnp.where(jnp.sum(x * y) > 0, x, -y),
        "inner product": lambda x, y, b: jnp.sum(x * y),
        "column lengths": lambda x, y, b: jnp.sum(x**2, axis=0),
        "Gram matrix": lambda x, y, b: square(b) @ (b @ y),
    }


@pytest.mark.parametrize("name", programs())
def test_programs(name):
    function = programs()[name]
    generator = np.random.default_rng(2)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(generator.standard_normal(shape)) for shape in ((30, 3), (30, 3), (5, 30))]
        long = [arrays[0], arrays[1], arrays[2].T]
        found = span.in_span(lambda basis, _: function(*basis), arrays, (), lambda i, j: long[i].T @ long[j])
        if isinstance(found, span.Tall):
            parts = found.matrices([3, 3, 5])
            found = sum(long[i] @ part for i, part in parts.items())
        np.testing.assert_allclose(found, function(*arrays), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", [jnp.abs, jnp.exp, lambda x: x[:5], lambda x: x + 1, lambda x: jnp.maximum(x, 0)])
def test_what_coefficients_do_not_tell_is_refused(function):
    x = jnp.ones((30, 3))
    with pytest.raises(span.OutOfSpanError):
        span.in_span(lambda basis, _: function(basis[0]), [x], (), lambda i, j: x.T @ x)


def beyond():
    """Programs that need the matrices themselves."""
    return {
        "entries": lambda x, y, b: jnp.tanh(x) * y + jnp.sqrt(y**2 + 1),
        "rows": lambda x, y, b: x * jnp.mean(y * y, axis=1, keepdims=True) ** -0.25,
        "columns": lambda x, y, b: x / jnp.sqrt(jnp.mean(y * y, axis=0, keepdims=True)),
        "a number": lambda x, y, b: x / jnp.sum(y * y, keepdims=True),
        "then combined": lambda x, y, b: jnp.abs(x) - y @ (y.T @ jnp.abs(x)) + b.T @ (b @ x),
        "part of the rows": lambda x, y, b: y * jnp.sum(x[:7]),
        "chosen": lambda x, y, b: jnp.where(x > 0, x, y),
        "turned": lambda x, y, b: (jnp.exp(x.T) @ jnp.ones((30, 2)) @ jnp.ones((2, 30))).T + y,
        "a constant": lambda x, y, b: jnp.ones((30, 3)),
    }


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", [*programs(), *beyond()])
def test_programs_beyond_a_span(name, grouped):
    function = (programs() | beyond())[name]
    generator = np.random.default_rng(2)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(generator.standard_normal(shape)) for shape in ((30, 3), (30, 3), (5, 30))]
        expected = function(*arrays)

        def step(x, y, b):
            def small_or_long(matrices, _):
                found = function(*matrices)
                return ([found], ()) if 30 in jnp.shape(found) else ([matrices[0]], found)

            return wide_span.step(small_or_long, [x.T, y.T, b], (), span.by_rows)

        run = grouping.in_small_kernels(step, 30) if grouped else step
        (rows,), small = jax.jit(run)(*arrays)
        np.testing.assert_allclose(rows.T if 30 in expected.shape else small, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("products", [span.by_rows, span.by_columns])
@pytest.mark.parametrize("asked", [[], [(1, 1), (1, 2), (2, 2)]], ids=["few", "all"])
def test_the_passes_of_a_step(monkeypatch, in_blocks, products, asked):
    """Inner products and combinations of m = y - size v, v and b, also of a very long axis that is taken in blocks."""
    length, r, count, size = 40 * 8 + 3, 3, 4, 0.7
    monkeypatch.setattr(span, "BLOCK", 8)
    passes = span.Passes(products, in_blocks, OneDevice().along)
    rng = np.random.default_rng(3)
    y, v, b = (rng.standard_normal((rows, length)) for rows in (r, r, count))
    factors = rng.standard_normal((r, r)), rng.standard_normal((r, 2 * r + count))
    m = y - size * v
    basis = m, v, b
    with jax.enable_x64(True):
        given = [jnp.asarray(one) for one in (y, v, b, size)]
        of_m, besides = passes.products(asked, *given)
        np.testing.assert_allclose(of_m, m @ np.concatenate(basis).T, rtol=0, atol=1e-12)
        assert sorted(besides) == asked
        for i, j in asked:
            np.testing.assert_allclose(besides[i, j], basis[i] @ basis[j].T, rtol=0, atol=1e-12)
        lengths, (first, second) = passes.combinations(tuple(map(jnp.asarray, factors)), *given)
        np.testing.assert_allclose(first, factors[0] @ m, rtol=0, atol=1e-12)
        np.testing.assert_allclose(second, factors[1] @ np.concatenate(basis), rtol=0, atol=1e-12)
        np.testing.assert_allclose(lengths[:, 0], np.sum(second**2, axis=1), rtol=1e-13)
        np.testing.assert_allclose(passes.squared_lengths(given[1])[:, 0], np.sum(v**2, axis=1), rtol=1e-13)


def test_steps_along_a_very_long_axis_hold_no_copy_of_all_they_start_from(monkeypatch):
    length = 2003
    pair = 2 * R * length * 8  # bytes
    problem = rx.Problem(residual, rx.Grassmann(length, R), np.random.default_rng(4).standard_normal((60, length)))
    monkeypatch.setattr(span, "BLOCK", 50)
    found, form = run(problem, METHODS["rsrm"])
    assert form.in_span
    assert_same(found, run(problem, METHODS["rsrm"], in_span=False)[0], 1e-11)
    with precision("float64"):
        driver = JaxDriver(problem, METHODS["rsrm"], "float64")
        x, state = driver.start(problem.initial_point(0))
        program, _ = driver._loop(driver.method, x, state, Samples(None, np.zeros((7, B), np.int32)), 2, 7)
    assert program.memory_analysis().temp_size_in_bytes < 2 * pair
