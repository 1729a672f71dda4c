"""The compiled and the eager driver: the same numbers, the same bits for the same seed, and no second compilation."""

import dataclasses
import subprocess
import sys

import jax
import jax.monitoring
import numpy as np
import pytest

import retrax as rx
from retrax._precision import precision
from retrax._programs import compiled
from retrax.datasets import synthetic
from retrax.drivers.jax import JaxDriver
from retrax.drivers.loops import LOOP_OPTIONS, advance_in_form
from retrax.sources import Samples

from .small_problems import MANIFOLDS, METHODS, case, product_of_matrices, product_problem

COMPILED = []


def _listen(event, duration, **details):
    if event.endswith("backend_compile_duration"):
        COMPILED.append(event)


jax.monitoring.register_event_duration_secs_listener(_listen)


class Compilations:
    """How many programs were compiled inside a `with` block."""

    def __enter__(self):
        self.before = len(COMPILED)
        return self

    def __exit__(self, *error):
        self.count = len(COMPILED) - self.before


# --- agreement ------------------------------------------------------------------------------------------------

AGREEMENT = [
    # A product has every manifold as a factor (for RASA: every one whose points are matrices); each estimator and
    # scaling once, since a product takes seconds to compile.
    *((method, "product") for method in ("csgd_m", "crmsprop", "ramsgrad", "rsrm", "rsvrg", "rspider", "rdog")),
    ("rasa-LR", "product of matrices"),
    *((method, "grassmann polar projection") for method in METHODS if method != "rsrm"),
    *(("rsrm", manifold) for manifold in MANIFOLDS),
]


def find_problem(name):
    if name == "product":
        return product_problem(), None
    if name == "product of matrices":
        return product_of_matrices(), None
    here = case(name)
    return here.problem, here.x0


@pytest.mark.parametrize(("method", "manifold"), [pytest.param(*both, id=" on ".join(both)) for both in AGREEMENT])
def test_the_drivers_agree_at_every_step(method, manifold):
    problem, x0 = find_problem(manifold)
    compiled, eager = (
        rx.minimize(
            problem,
            METHODS[method],
            steps=5,
            batch_size=2,
            first_batch_size=3,
            x0=x0,
            seed=6,
            record=rx.Record(every=1, estimator_error=True),
            driver=driver,
        )
        for driver in ("jax", "eager")
    )
    for column in ("step", "sfo", "loss", "gradient_norm", "direction_norm", "estimator_error"):
        difference = compiled.history[column] - eager.history[column]
        assert np.abs(difference).max() < 1e-10, column
    for a, b in ((compiled.x, eager.x), (compiled.output, eager.output)):
        assert jax.tree.structure(a) == jax.tree.structure(b)
        for leaf, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_allclose(leaf, other, rtol=0, atol=1e-10)
    assert compiled.history["violation"].max() < 1e-13
    assert abs(compiled.history["loss"][-1] - compiled.history["loss"][0]) > 1e-3  # the run went somewhere


def test_points_of_a_product_keep_their_structure():
    result = rx.minimize(product_problem(), rx.rsrm(0.05), steps=3, batch_size=2, driver="eager")
    assert set(result.x) == {"frame", "weight", "subspace", "nested"}
    assert [leaf.shape for leaf in result.x["nested"]] == [(4,), (2, 2)]
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(result.x))


# --- bits -----------------------------------------------------------------------------------------------------


def bits(result):
    """Everything about a run but the clock."""
    columns = {name: result.history[name].tobytes() for name in result.history if name != "seconds"}
    return result.x.tobytes(), result.output.tobytes(), columns


@pytest.mark.parametrize("method", ["rsrm", "rsvrg", "ramsgrad"])
def test_the_same_seed_gives_the_same_bits(method):
    here = case("grassmann exp parallel")
    options = {"steps": 300, "batch_size": 2, "first_batch_size": 4, "record": 50, "seed": 12}
    first, second = (rx.minimize(here.problem, METHODS[method], **options) for _ in range(2))
    assert bits(first) == bits(second)
    other = rx.minimize(here.problem, METHODS[method], **options | {"seed": 13})
    assert other.x.tobytes() != first.x.tobytes()


@pytest.mark.parametrize("method", ["rsrm", "rsvrg"])
def test_the_interval_of_records_does_not_change_the_trajectory(method):
    here = case("grassmann exp parallel")
    runs = {
        every: rx.minimize(here.problem, METHODS[method], steps=120, batch_size=2, record=every, seed=1)
        for every in (1, 7, 40, 120)
    }
    for every, run in runs.items():
        assert run.x.tobytes() == runs[1].x.tobytes(), every
        assert run.output.tobytes() == runs[1].output.tobytes(), every
        shared = run.history["step"]
        np.testing.assert_array_equal(run.history["loss"], runs[1].history["loss"][shared])


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    """The step count is no part of the trajectory (schedules are functions of t alone)."""
    here = case("grassmann polar projection")
    long = rx.minimize(here.problem, rx.rsrm(0.1), steps=30, batch_size=2, record=10, seed=1)
    short = rx.minimize(here.problem, rx.rsrm(0.1), steps=20, batch_size=2, record=10, seed=1)
    np.testing.assert_allclose(short.history["loss"], long.history["loss"][:3], rtol=0, atol=1e-13)


@pytest.mark.slow
def test_another_process_computes_the_same_bits():
    script = """
import hashlib, numpy as np, jax.numpy as jnp, retrax as rx
data = np.random.default_rng(0).standard_normal((30, 6))
problem = rx.Problem(lambda x, batch: -jnp.mean(jnp.sum((batch @ x) ** 2, -1)), rx.Grassmann(6, 2), data)
result = rx.minimize(problem, rx.rsrm(0.1), steps=500, batch_size=3, seed=5)
print(hashlib.sha256(result.x.tobytes() + result.output.tobytes()).hexdigest())
"""
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(2)]
    assert [run.stderr for run in runs] == ["", ""]
    assert runs[0].stdout == runs[1].stdout


# --- compilation ----------------------------------------------------------------------------------------------


def small_pca(seed=0):
    return np.random.default_rng(seed).standard_normal((50, 6))


def own_loss():
    """A loss that no other test has compiled."""

    def loss(x, batch):
        return -((batch @ x) ** 2).sum(-1).mean()

    return loss


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "factory",
    [
        lambda eta, other: rx.rsrm(eta, rho=other),
        lambda eta, other: rx.ramsgrad(eta, momentum=other, beta=other),
        lambda eta, other: rx.rsvrg(eta, restart_every=10),
    ],
    ids=["rsrm", "ramsgrad", "rsvrg"],
)
def test_a_second_call_compiles_nothing(factory, dtype):
    """Nor does one where only η₀, ρ₀, β, the seed, the start or the values of the data are others."""
    loss, manifold = own_loss(), rx.Grassmann(6, 2)
    problem = rx.Problem(loss, manifold, small_pca())
    options = {"steps": 40, "batch_size": 3, "record": 7, "dtype": dtype}
    with Compilations() as first:
        rx.minimize(problem, factory(0.1, 0.1), seed=0, **options)
    assert first.count > 0
    with Compilations() as later:
        rx.minimize(problem, factory(0.1, 0.1), seed=0, **options)
        rx.minimize(problem, factory(0.02, 0.1), seed=0, **options)
        rx.minimize(problem, factory(0.02, 0.7), seed=0, **options)
        rx.minimize(problem, factory(1, 0), seed=0, **options)  # whole numbers
        rx.minimize(problem, factory(np.float32(0.1), np.float64(0.3)), seed=99, **options)
        rx.minimize(problem, factory(0.1, 0.1), x0=problem.initial_point(3), **options)
        rx.minimize(rx.Problem(loss, manifold, small_pca(1)), factory(0.1, 0.1), **options)
        rx.minimize(rx.Problem(loss, rx.Grassmann(6, 2), small_pca(2)), factory(0.1, 0.1), **options)
    assert later.count == 0


def test_neither_the_record_interval_nor_the_step_count_in_a_buffer_recompiles():
    problem = rx.Problem(own_loss(), rx.Stiefel(6, 2), small_pca())
    rx.minimize(problem, rx.rsrm(0.1), steps=60, batch_size=3, record=7)
    with Compilations() as later:
        rx.minimize(problem, rx.rsrm(0.1), steps=64, batch_size=3, record=5)
        rx.minimize(problem, rx.rsrm(0.1), steps=33, batch_size=3, record=100)
    assert later.count == 0


@pytest.mark.parametrize("batch_size", [3, lambda t: 2 + t // 5])
def test_compiling_stands_outside_the_clock(batch_size):
    problem = rx.Problem(own_loss(), rx.Stiefel(6, 2), small_pca())
    first = rx.minimize(problem, rx.rsrm(0.1), steps=20, batch_size=batch_size, record=20)
    assert first.compile_seconds > 0.05
    assert first.seconds < first.compile_seconds
    second = rx.minimize(problem, rx.rsrm(0.1), steps=20, batch_size=batch_size, record=20)
    assert second.compile_seconds < first.compile_seconds / 2
    assert (np.diff(second.history["seconds"]) > 0).all()


# --- precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["jax", "eager"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_keeps_to_its_dtype_and_leaves_the_global_switch_alone(driver, dtype):
    before = jax.config.jax_enable_x64
    for method in ("rsrm", "ramsgrad"):
        problem = rx.Problem(own_loss(), rx.Grassmann(6, 2), small_pca())
        result = rx.minimize(problem, METHODS[method], steps=4, batch_size=2, dtype=dtype, driver=driver)
        assert result.x.dtype == result.output.dtype == dtype
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.ones(3).dtype == (np.float64 if before else np.float32)


def test_the_default_dtype_is_that_of_the_start_and_else_of_the_data():
    data, loss = small_pca(), own_loss()
    start = rx.Problem(loss, rx.Grassmann(6, 2), data).initial_point(0)

    def dtype(data, x0=None):
        problem = rx.Problem(loss, rx.Grassmann(6, 2), data)
        return str(rx.minimize(problem, rx.rsgd(0.1), steps=1, x0=x0, driver="eager").x.dtype)

    assert dtype(data) == "float64"
    assert dtype(data.astype("float32")) == "float32"
    assert dtype(data, start.astype("float32")) == "float32"
    assert dtype(data.astype("float32"), start) == "float64"


def test_single_precision_stays_on_the_manifold():
    problem = rx.Problem(own_loss(), rx.Grassmann(6, 2), small_pca())
    result = rx.minimize(problem, rx.rsrm(0.1), steps=3000, batch_size=2, dtype="float32", record=300)
    assert result.history["violation"].max() < 1e-5
    assert result.history["loss"][-1] < result.history["loss"][0]


def test_runs_in_float64_inside_a_users_own_x64_scope_too():
    problem = rx.Problem(own_loss(), rx.Grassmann(6, 2), small_pca())
    with jax.enable_x64(True):
        inside = rx.minimize(problem, rx.rsgd(0.1), steps=3, batch_size=2, dtype="float32")
        assert jax.config.jax_enable_x64
    assert inside.x.dtype == np.float32


# --- one kernel -----------------------------------------------------------------------------------------------


def driver_of(problem, method, batch_size=3, dtype="float64"):
    """A driver with what it needs to take eight steps."""
    driver = JaxDriver(problem, method, dtype)
    x, state = driver.start(problem.initial_point(0))
    indices = np.arange(8 * batch_size).reshape(8, batch_size) % problem.source.size
    return driver, x, state, Samples(None, indices.astype(np.int32))


def verdict_on(problem, method, **options):
    """Whether the driver would compile the steps into one kernel, and why."""
    with precision(options.get("dtype", "float64")):
        driver, x, state, payload = driver_of(problem, method, **options)
        driver._loop_arguments(driver.method, x, state, payload, 2, 8)
        ((_, verdict),) = driver.forms
    return verdict


def eight_steps(problem, method, one_kernel):
    with precision("float64"):
        driver, x, state, payload = driver_of(problem, method)
        (objective, _, fed), arguments = driver._loop_arguments(driver.method, x, state, payload, 2, 8)
        ((form, _),) = driver.forms
        assert form.one_kernel
        statics = (objective, dataclasses.replace(form, one_kernel=one_kernel), fed)
        program = compiled(advance_in_form, statics, *arguments, options=LOOP_OPTIONS)
        return np.asarray(program(*arguments)[0])


READY_MADE = {
    "polar": rx.problems.PCA(small_pca(), 2),
    "parallel": rx.problems.PCA(small_pca(), 2, transport="parallel"),
    "qr": rx.problems.PCA(small_pca(), 2, retraction="qr"),
    "centroid": rx.problems.Centroid(synthetic.spd(20, 3)),
    "second-order": rx.problems.Centroid(synthetic.spd(20, 4), retraction="second-order"),
}


@pytest.mark.parametrize("problem", READY_MADE.values(), ids=READY_MADE)
def test_a_loop_in_one_kernel_takes_the_same_steps(problem):
    method = rx.rsrm(0.1)
    expected, found = (eight_steps(problem, method, one_kernel) for one_kernel in (False, True))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["polar", "centroid"])
@pytest.mark.parametrize(
    "method",
    [
        rx.rdog(0.1),
        rx.rdowg(0.1, -0.5),
        rx.nrdog(0.1),
        rx.storm_plus(),
        rx.Method(rx.estimators.SVRG(), rx.scalings.Identity(), rx.step_sizes.Secant()),
    ],
    ids=["rdog", "rdowg", "nrdog", "storm+", "svrg × secant"],
)
def test_a_loop_in_one_kernel_may_leave_the_step_number_unused(name, method):
    """These look at what was measured, not at t."""
    expected, found = (eight_steps(READY_MADE[name], method, one_kernel) for one_kernel in (False, True))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


ESTIMATORS = {
    "plain": rx.estimators.Plain(),
    "momentum": rx.estimators.Momentum(rx.schedules.constant(0.9)),
    "recursive": rx.estimators.RecursiveMomentum(rx.schedules.power(0.1, -2 / 3)),
    "svrg": rx.estimators.SVRG(),
    "storm+": rx.estimators.StormPlus(),
    "automatic": rx.estimators.AutomaticMomentum(),
}
SCALINGS = {
    "identity": rx.scalings.Identity(),
    "normalised": rx.scalings.Normalised(),
    "coordinatewise": rx.scalings.Coordinatewise(0.9, 1e-8),
    "amsgrad": rx.scalings.AMSGrad(0.9, 1e-8),
    "rasa": rx.scalings.RASA(0.9, 1e-8),
}


COMBINATIONS = [
    *(
        (problem, estimator, scaling, "float64")
        for problem in ("polar", "centroid")
        for estimator in ESTIMATORS
        for scaling in SCALINGS
    ),
    *((problem, estimator, "identity", "float32") for problem in ("polar", "centroid") for estimator in ESTIMATORS),
    *((problem, "automatic", scaling, "float32") for problem in ("polar", "centroid") for scaling in SCALINGS),
    *(
        (problem, estimator, "identity", "float64")
        for problem in ("parallel", "qr", "second-order")
        for estimator in ESTIMATORS
    ),
]


@pytest.mark.parametrize(("problem", "estimator", "scaling", "dtype"), sorted(set(COMBINATIONS)))
def test_every_combination_on_a_ready_made_problem_is_one_kernel(problem, estimator, scaling, dtype):
    """With the step size that asks for most; a schedule's operations are among those of the others."""
    part = ESTIMATORS[estimator]
    if isinstance(part, rx.estimators.StormPlus):
        step_size = rx.step_sizes.CubeRoot()
    elif part.evaluations == 2:
        step_size = rx.step_sizes.Secant()
    else:
        step_size = rx.step_sizes.DistanceOverGradients(curvature=-0.5)
    found = verdict_on(READY_MADE[problem], rx.Method(part, SCALINGS[scaling], step_size), dtype=dtype)
    assert found.fits, found.reason


def test_what_the_compiler_may_not_be_prepared_for_is_not_compiled_into_one_kernel():
    problem = rx.problems.PCA(small_pca(), 2)
    calls_lapack = rx.problems.PCA(small_pca(), 2, retraction="exp")
    single = rx.problems.PCA(small_pca()[:1], 2)
    for refused, options, reason in (
        (calls_lapack, {}, "the program calls"),
        (problem, {"batch_size": 200}, "an axis of 200"),
        (single, {}, "a single sample"),
    ):
        fits, why = verdict_on(refused, rx.rsrm(0.1), **options)
        assert not fits
        assert reason in why
    assert verdict_on(problem, rx.rsrm(lambda t: 0.1 / t)).fits  # a user's schedule of ordinary operations


@pytest.mark.parametrize(
    ("d", "rank", "batch_size", "fits"),
    [
        (60, 16, 40, True),
        (60, 17, 32, True),
        (60, 17, 33, False),  # 33×60 times 60×34, for both points, is in no tiles: 70 µs instead of 10
        (40, 17, 40, True),  # but sums of 40 terms are unrolled
        (120, 16, 1, True),
        (120, 17, 1, False),  # in a span, whose factorisations of 17×17 are slow in a kernel
    ],
)
def test_products_that_are_slow_in_a_kernel_stay_outside(d, rank, batch_size, fits):
    data = np.random.default_rng(0).standard_normal((50, d))
    assert verdict_on(rx.problems.PCA(data, rank), rx.rsrm(0.1), batch_size=batch_size).fits is fits
