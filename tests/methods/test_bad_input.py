"""Bad input: an error that says what was given and what to do, before anything is compiled or run."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx

FACTORIES = [
    rx.rsgd,
    rx.csgd_m,
    rx.crmsprop,
    rx.ramsgrad,
    rx.radam,
    rx.rasa,
    rx.rsrm,
    rx.rsvrg,
    rx.rsrg,
    rx.rspider,
]
DATA = np.random.default_rng(0).standard_normal((20, 4))
MANIFOLD = rx.Grassmann(4, 2)
RAN = []


def loss(x, batch):
    """Writes down whether it is ever called with numbers, or to be compiled."""
    if not isinstance(x, jax.core.Tracer):
        RAN.append("run")
    return -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))


def refused(error, match, *, problem=None, method=None, at_once=True, **options):
    """`minimize` raises, and nothing has been run or (`at_once`: not so much as a copy to the device) compiled."""
    options = {"steps": 3, "batch_size": 2, **options}
    compiled = []

    def listen(event, duration, **details):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    RAN.clear()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with pytest.raises(error, match=match):
            rx.minimize(problem or rx.Problem(loss, MANIFOLD, DATA), method or rx.rsrm(0.1), **options)
        assert RAN == []
        assert compiled == [] or not at_once
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


# --- step sizes and other numbers of methods ------------------------------------------------------------------


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("value", [-0.1, 0, 0.0, float("nan"), float("inf"), np.float32(-1), np.array(-0.5)])
def test_a_step_size_must_be_a_positive_number(factory, value):
    with pytest.raises(ValueError, match=r"step size must be a positive finite number, not .*; try 0\.1"):
        factory(value)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("value", [True, "0.1", None, [0.1]])
def test_a_step_size_must_be_a_number_or_a_schedule(factory, value):
    if factory is rx.rsrm and value is None:
        return  # RSRM finds its own
    with pytest.raises(TypeError, match="expected a number, a schedule or a function of t"):
        factory(value)


@pytest.mark.parametrize(
    "value", [rx.schedules.constant(-1.0), rx.schedules.power(float("nan"), -0.5), lambda t: -0.1 / t]
)
def test_a_schedule_of_step_sizes_must_not_start_negative_or_nan(value):
    with pytest.raises(ValueError, match="must be finite and not negative, but at t = 1"):
        rx.rsgd(value)


def test_a_schedule_must_give_one_number():
    with pytest.raises(TypeError, match="one number at every step"):
        rx.rsgd(lambda t: np.ones(3))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), np.float64(2)])
def test_rho_and_momentum_must_lie_between_0_and_1(value):
    with pytest.raises(ValueError, match="rho must lie between 0 and 1"):
        rx.rsrm(0.1, rho=value)
    for factory in (rx.csgd_m, rx.ramsgrad, rx.radam):
        with pytest.raises(ValueError, match="momentum must lie between 0 and 1"):
            factory(0.1, momentum=value)


@pytest.mark.parametrize("factory", [rx.crmsprop, rx.ramsgrad, rx.radam, rx.rasa])
def test_adaptation_needs_a_beta_below_1_and_a_positive_epsilon(factory):
    for beta in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="beta must lie in"):
            factory(0.1, beta=beta)
    for epsilon in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="epsilon must be positive"):
            factory(0.1, epsilon=epsilon)
    with pytest.raises(TypeError, match="beta must be a number, not str"):
        factory(0.1, beta="0.9")


@pytest.mark.parametrize("sides", ["X", "", "RL", None, "lr"])
def test_rasa_has_three_kinds_of_sides(sides):
    with pytest.raises(ValueError, match="sides must be 'L', 'R' or 'LR'"):
        rx.rasa(0.1, sides=sides)


@pytest.mark.parametrize("every", [0, -3, 2.5, "often", True, None])
@pytest.mark.parametrize("factory", [rx.rsvrg, rx.rsrg, rx.rspider])
def test_restarts_come_after_a_positive_number_of_steps(factory, every):
    with pytest.raises(ValueError, match="restart_every, unless it is 'epoch', must be an integer of at least 1"):
        factory(0.1, restart_every=every)


def test_a_method_must_be_called_first():
    refused(TypeError, r"call it with a step size, as in retrax\.rsrm\(0\.1\)", method=rx.rsrm)


def test_a_method_must_be_a_method():
    refused(TypeError, "method must be a retrax method", method="rsrm")


# --- sizes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "ten"])
def test_steps(steps):
    refused(ValueError, "steps must be an integer of at least 1", steps=steps)


def test_a_run_to_the_end_needs_an_end():
    refused(ValueError, "steps is missing: how many steps to take", steps=None)


@pytest.mark.parametrize("size", [0, -2, 1.5])
def test_batch_sizes(size):
    refused(ValueError, "batch_size must be an integer of at least 1", batch_size=size)
    refused(ValueError, "first_batch_size must be an integer of at least 1", first_batch_size=size)


def test_batch_sizes_of_a_wrong_kind():
    refused(TypeError, "batch_size must be a number or a function of t, not str", batch_size="5")
    refused(ValueError, r"batch_size\([12]\) must be an integer", batch_size=lambda t: 0, at_once=False)


def test_a_first_batch_larger_than_the_data():
    refused(ValueError, "21 is drawn without replacement, but there are only 20 samples", first_batch_size=21)


def test_mini_batches_are_drawn_with_replacement_so_they_may_be_larger_than_the_data():
    problem = rx.Problem(loss, MANIFOLD, DATA)
    result = rx.minimize(problem, rx.rsrm(0.1), steps=2, batch_size=50, driver="eager")
    assert result.sfo == 20 + 2 * 50


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_seeds(seed):
    refused(ValueError, "seed must be an integer of at least 0", seed=seed)


def test_stop_rules():
    refused(ValueError, "tolerance must be a number", tolerance="small")
    refused(ValueError, "tolerance must be a number", tolerance=float("nan"))
    refused(ValueError, "loss_bound must be a number", loss_bound=float("nan"))
    refused(ValueError, "patience must be an integer of at least 1", patience=0)


@pytest.mark.parametrize("record", [0, -5, 2.5, "all", True])
def test_records(record):
    refused(ValueError, "must be an integer of at least 1", record=record)


# --- drivers and dtypes ---------------------------------------------------------------------------------------


def test_an_unknown_driver():
    refused(ValueError, "driver must be 'jax' or 'eager', not 'numpy'", driver="numpy")


@pytest.mark.parametrize("dtype", ["float16", "int32", "bfloat16x"])
def test_an_unknown_dtype(dtype):
    refused((ValueError, TypeError), dtype, dtype=dtype)


def test_float16_names_what_is_allowed():
    refused(ValueError, "dtype must be 'float32' or 'float64', not 'float16'", dtype="float16")


# --- data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_data_that_are_not_finite_name_the_sample(bad):
    data = DATA.copy()
    data[13, 2] = bad
    data[17, 0] = np.nan
    refused(ValueError, "NaN or infinite values, first in sample 13", problem=rx.Problem(loss, MANIFOLD, data))


def test_huge_finite_data_are_not_mistaken_for_infinite_ones():
    """Their sum overflows; they do not."""
    problem = rx.Problem(lambda x, batch: jnp.sum(x) + 0 * jnp.sum(batch), rx.Euclidean(2), np.full((4, 1), 1e308))
    with np.errstate(over="ignore"):
        assert problem.source.size == 4


def test_arrays_of_unequal_lengths():
    problem = rx.Problem(lambda x, batch: jnp.sum(batch[0] @ x), MANIFOLD, (DATA, np.zeros(19)))
    refused(ValueError, r"different numbers of samples: \[19, 20\]", problem=problem)


@pytest.mark.parametrize(
    ("data", "match"), [(np.zeros((0, 4)), "no samples"), ((), "no arrays"), (np.float64(3.0), "leading axis")]
)
def test_empty_data(data, match):
    with pytest.raises((ValueError, TypeError), match=match):
        rx.minimize(rx.Problem(loss, MANIFOLD, data), rx.rsgd(0.1), steps=1)


def test_no_data():
    with pytest.raises(TypeError, match="data is missing"):
        rx.Problem(loss, MANIFOLD)


# --- points ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 4), (4,), (5, 2), (4, 3)])
def test_a_start_of_a_wrong_shape(shape):
    refused(ValueError, r"x0 has shape .*, but a point on Grassmann\(4, 2.* has shape \(4, 2\)", x0=np.ones(shape))


def test_a_stack_of_starts():
    refused(ValueError, r"x0 has shape \(3, 4, 2\)", x0=np.tile(np.eye(4)[:, :2], (3, 1, 1)))


def test_a_start_off_the_manifold():
    refused(ValueError, r"x0 is not on Grassmann\(4, 2.*violation", x0=np.eye(4)[:, :2] * 1.1)
    positive = rx.Problem(lambda x, batch: jnp.trace(x) + 0 * jnp.sum(batch), rx.SPD(2), DATA)
    refused(ValueError, "symmetric with positive eigenvalues", problem=positive, x0=np.diag([1.0, -1.0]))
    refused(ValueError, "symmetric with positive eigenvalues", problem=positive, x0=np.array([[1.0, 0.2], [0.0, 1.0]]))


def test_a_start_with_nan():
    start = np.eye(4)[:, :2].copy()
    start[3, 1] = np.nan
    refused(ValueError, "x0 contains NaN", x0=start)


def test_a_start_of_another_structure():
    product = rx.Problem(
        lambda x, batch: jnp.sum(x["a"]) + jnp.sum(x["b"]) + 0 * jnp.sum(batch),
        rx.Product({"a": rx.Sphere(3), "b": rx.Euclidean(2)}),
        DATA,
    )
    refused(ValueError, "x0 does not have the structure of", problem=product, x0={"a": np.array([1.0, 0, 0])})
    wrong = {"a": np.array([1.0, 1.0, 0.0]), "b": np.zeros(2)}
    refused(ValueError, r"x0\['a'\] is not on Sphere", problem=product, x0=wrong)


# --- functions ------------------------------------------------------------------------------------------------


def test_a_loss_that_returns_a_vector():
    problem = rx.Problem(lambda x, batch: jnp.sum((batch @ x) ** 2, axis=-1), MANIFOLD, DATA)
    refused(
        ValueError, r"loss must return one number, the mean over the batch; it returned shape \(2,\)", problem=problem
    )


def test_a_loss_that_returns_a_pair():
    problem = rx.Problem(lambda x, batch: (jnp.sum(x), 0.0), MANIFOLD, DATA)
    refused(ValueError, "loss must return one number", problem=problem)


def test_a_gradient_of_a_wrong_shape():
    transposed = rx.Problem(loss, MANIFOLD, DATA, riemannian_gradient=lambda x, batch: x.mT)
    refused(ValueError, r"the gradient has shape \(2, 4\), but a point has \(4, 2\)", problem=transposed)


def test_a_gradient_of_a_wrong_structure():
    problem = rx.Problem(loss, MANIFOLD, DATA, riemannian_gradient=lambda x, batch: (x, x))
    refused(ValueError, "the gradient has shape", problem=problem)


def test_what_is_no_problem():
    with pytest.raises(TypeError, match=r"problem must be a retrax\.Problem, not function"):
        rx.minimize(loss, rx.rsgd(0.1), steps=1)
    with pytest.raises(TypeError, match="manifold must be a retrax manifold such as"):
        rx.Problem(loss, "Grassmann", DATA)
    with pytest.raises(TypeError, match="loss must be a function"):
        rx.Problem(3, MANIFOLD, DATA)


# --- functions that cannot be compiled, and what is no function ------------------------------------------------


def _plain_loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def _on_rows(loss=_plain_loss, data=None, method=None, **arguments):
    rows = np.random.default_rng(0).standard_normal((30, 4)) if data is None else data
    return rx.minimize(rx.Problem(loss, rx.Grassmann(4, 2), rows), method or rx.rsgd(0.1), steps=2, **arguments)


def _refusal(kind, function, *arguments, **options):
    """The message of a refusal, which must be one line."""
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "function", [lambda t: 0.1 if t < 100 else 0.01, lambda t: 1 / math.sqrt(t), lambda t: np.minimum(0.1, 1 / t)]
)
def test_a_function_of_t_that_cannot_be_compiled(function):
    for method in (rx.rsgd(function), rx.rsrm(0.1, function)):
        message = _refusal(TypeError, _on_rows, method=method)
        assert "cannot branch on t" in message
        assert "schedules.piecewise(0.1, {100: 0.01})" in message
    assert _on_rows(method=rx.rsgd(function), driver="eager").steps == 2
    advised = rx.schedules.piecewise(0.1, {100: 0.01})
    assert [advised(t) for t in (1, 99, 100, 101)] == [0.1, 0.1, 0.01, 0.01]
    assert _on_rows(method=rx.rsgd(advised)).steps == 2


def test_a_loss_in_numpy():
    message = _refusal(TypeError, _on_rows, lambda U, batch: -np.mean(np.linalg.norm(batch @ U)))
    assert (
        message
        == "loss calls NumPy, whose functions cannot be compiled; write it with jax.numpy, which has the same names"
    )


def test_a_loss_with_an_if():
    message = _refusal(TypeError, _on_rows, lambda U, batch: jnp.sum(U) if U[0, 0] > 0 else -jnp.sum(U))
    assert "jax.numpy.where or jax.lax.cond" in message


@pytest.mark.parametrize("data", [iter, lambda rows: rx.Stream(list(rows))])
def test_a_stream_of_single_samples(data):
    rows = np.random.default_rng(0).standard_normal((300, 4))
    message = _refusal(TypeError, _on_rows, data=data(rows))
    assert "loss fails on a batch of the stream" in message
    assert "use retrax.Stream(iterable, samples=True)" in message
    assert _on_rows(data=rx.Stream(iter(rows), samples=True), record=rx.Record(samples=10)).steps == 2


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda method: _on_rows(loss=method), "loss must be a function of a point and a batch, not Method"),
        (lambda method: _on_rows(batch_size=method), "batch_size must be a number or a function of t, not Method"),
        (
            lambda method: _on_rows(on_record=method),
            "on_record must be a function of a step and its metrics, not Method",
        ),
        (lambda method: rx.rsgd(method), "expected a number, a schedule or a function of t, not Method"),
        (lambda method: rx.rsrm(0.1, method), "expected a number, a schedule or a function of t, not Method"),
    ],
)
def test_a_method_where_a_function_is_expected(call, expected):
    message = _refusal(TypeError, call, rx.rsrm(0.1))
    assert expected in message
    assert len(message) < 200


def test_a_loss_without_a_hash_is_refused():
    @dataclasses.dataclass
    class Loss:
        scale: float = 1.0

        def __call__(self, x, batch):
            return self.scale * jnp.mean(batch @ x)

    @dataclasses.dataclass(frozen=True)
    class Weighted:
        weights: np.ndarray

        def __call__(self, x, batch):
            return jnp.mean(batch @ (self.weights * x))

    for loss in (Loss(), Weighted(np.ones(3))):
        with pytest.raises(TypeError, match="frozen dataclass of numbers"):
            rx.Problem(loss, rx.Sphere(3), np.ones((4, 3)))


def test_a_run_that_must_not_compile_is_refused():
    with jax.disable_jit():
        refused(ValueError, "driver='eager'")
