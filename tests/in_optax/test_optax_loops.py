"""`retrax.optax` in loops as users write them: plain, compiled, beside optax's own, with Flax and Equinox."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import sampling

optax = pytest.importorskip("optax")
retrax_optax = pytest.importorskip("retrax.optax")

SEED, STEPS, BATCH, FIRST = 3, 8, 4, 20
DATA = np.random.default_rng(0).standard_normal((60, 6)) * np.linspace(2.0, 0.4, 6)
MANIFOLDS = {"frame": rx.Stiefel(6, 2, transport="rotation"), "weight": rx.Euclidean(2), "unit": rx.Sphere(6)}


def loss(x, batch):
    return jnp.mean((batch @ x["frame"] - x["weight"]) ** 2) + jnp.mean((batch @ x["unit"]) ** 2)


def start():
    generator = np.random.default_rng(1)
    frame = rx.Stiefel(6, 2).random_point(generator.standard_normal((6, 2)))
    unit = rx.Sphere(6).random_point(generator.standard_normal(6))
    return {"frame": frame, "weight": generator.standard_normal(2), "unit": unit}


def batch_at(step, restart_every=None):
    """The batch of `rx.minimize(seed=SEED)`, and whether it is a large one."""
    large = step == 1 or (restart_every is not None and (step - 1) % restart_every == 0)
    if large:
        return DATA[sampling.large_batch_indices(SEED, step, FIRST, len(DATA))], True
    drawn = sum(1 for k in range(1, step) if not batch_is_large(k, restart_every)) * BATCH
    return DATA[sampling.batch_indices(SEED, drawn, BATCH, len(DATA))], False


def batch_is_large(step, restart_every):
    return step == 1 or (restart_every is not None and (step - 1) % restart_every == 0)


CASES = {
    "rsgd": (0.05,),
    "radam": (0.05,),
    "mars": (0.05,),
    "rsrm": (0.05, 0.3),
    "rdog": (0.1,),
}


def plain_loop(optimizer, params, restart_every=None):
    """An optax loop without compilation."""
    state = optimizer.init(params)
    for step in range(1, STEPS + 1):
        batch, large = batch_at(step, restart_every)
        gradient_fn = lambda p, batch=batch: jax.grad(loss)(p, batch)  # noqa: E731
        updates, state = optimizer.update(
            gradient_fn(params), state, params, gradient_fn=gradient_fn, restart=large and step > 1
        )
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("name", CASES)
def test_a_plain_optax_loop_takes_the_steps_of_minimize(name):
    problem = rx.Problem(loss, rx.Product(MANIFOLDS), DATA)
    budget = {"steps": STEPS, "batch_size": BATCH, "first_batch_size": FIRST, "seed": SEED, "x0": start()}
    expected = rx.minimize(problem, getattr(rx, name)(*CASES[name]), driver="eager", dtype="float64", **budget).x
    with jax.enable_x64(True):
        found = plain_loop(getattr(retrax_optax, name)(*CASES[name], manifolds=MANIFOLDS), _as_jax(start()))
    assert max(np.abs(start()[key] - np.asarray(found[key])).max() for key in found) > 0.01
    for key in found:
        np.testing.assert_allclose(np.asarray(found[key]), expected[key], rtol=0, atol=1e-12)


def _as_jax(tree):
    return jax.tree.map(jnp.asarray, tree)


def test_restarts_are_those_of_minimize():
    problem = rx.Problem(loss, rx.Product(MANIFOLDS), DATA)
    method = rx.rsvrg(0.02, restart_every=4)
    expected = rx.minimize(
        problem,
        method,
        steps=STEPS,
        batch_size=BATCH,
        first_batch_size=FIRST,
        seed=SEED,
        x0=start(),
        driver="eager",
        dtype="float64",
    ).x
    with jax.enable_x64(True):
        found = plain_loop(retrax_optax.transform(method, MANIFOLDS), _as_jax(start()), restart_every=4)
    for key in found:
        np.testing.assert_allclose(np.asarray(found[key]), expected[key], rtol=0, atol=1e-12)


def test_a_compiled_loop_beside_adam_for_the_other_leaves():
    labels = {"frame": "manifold", "weight": "rest", "unit": "manifold"}
    optimizer = optax.chain(
        optax.clip_by_global_norm(10.0),
        optax.partition({"manifold": retrax_optax.rsgd(0.05, manifolds=MANIFOLDS), "rest": optax.adam(0.1)}, labels),
    )
    adam = optax.adam(0.1)
    params = _as_jax({key: value.astype(np.float32) for key, value in start().items()})
    state, adam_state = optimizer.init(params), adam.init(params["weight"])

    @jax.jit
    def step(params, state, adam_state, batch):
        gradients = jax.grad(loss)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        expected, adam_state = adam.update(gradients["weight"], adam_state, params["weight"])
        return optax.apply_updates(params, updates), state, adam_state, params["weight"] + expected

    losses = []
    for _ in range(200):
        params, state, adam_state, weight = step(params, state, adam_state, DATA.astype(np.float32))
        losses.append(float(loss(params, DATA)))
        np.testing.assert_allclose(params["weight"], weight, rtol=1e-5, atol=1e-6)
    assert losses[-1] < 0.7 * losses[0]
    assert float(MANIFOLDS["frame"].violation(params["frame"])) < 1e-6
    assert float(MANIFOLDS["unit"].violation(params["unit"])) < 1e-6


def test_rsrm_without_a_number_finds_its_step_size_in_a_compiled_loop():
    manifold = rx.Grassmann(6, 2)
    optimizer = retrax_optax.rsrm(manifolds=manifold)
    params = jnp.asarray(start()["frame"], jnp.float32)
    pca = lambda x, batch: -jnp.mean(jnp.sum((batch @ x) ** 2, axis=-1))  # noqa: E731

    @jax.jit
    def step(params, state, batch):
        gradient_fn = lambda p: jax.grad(pca)(p, batch)  # noqa: E731
        updates, state = optimizer.update(gradient_fn(params), state, params, gradient_fn=gradient_fn)
        return optax.apply_updates(params, updates), state

    state, generator = optimizer.init(params), np.random.default_rng(5)
    for _ in range(300):
        params, state = step(params, state, DATA[generator.integers(len(DATA), size=10)].astype(np.float32))
    optimum = -np.sum(np.linalg.eigvalsh(DATA.T @ DATA / len(DATA))[-2:])
    assert float(pca(params, DATA)) < 0.95 * optimum
    assert float(manifold.violation(params)) < 1e-6


def test_a_second_gradient_may_be_given_instead_of_a_function():
    optimizer = retrax_optax.rsrm(0.05, 0.3, manifolds=MANIFOLDS)
    results = []
    for given in (False, True):
        params = _as_jax(start())
        state = optimizer.init(params)
        for step in range(1, 4):
            batch = batch_at(step)[0]
            gradient_fn = lambda p, batch=batch: jax.grad(loss)(p, batch)  # noqa: E731
            second = {"gradient_fn": gradient_fn}
            if given:
                second = {"second_gradients": gradient_fn(optimizer.second_params(state, params))}
            updates, state = optimizer.update(gradient_fn(params), state, params, **second)
            params = optax.apply_updates(params, updates)
        results.append(params)
    for key in results[0]:
        np.testing.assert_allclose(results[0][key], results[1][key], rtol=0, atol=1e-6)


def test_leading_axes_are_many_points_and_unnamed_leaves_are_euclidean():
    generator = np.random.default_rng(0)
    frames = rx.Stiefel(5, 2).random_point(generator.standard_normal((3, 5, 2))).astype(np.float32)
    params = {"heads": jnp.asarray(frames), "bias": jnp.ones(2)}
    optimizer = retrax_optax.rsgd(0.1, manifolds=lambda path, leaf: rx.Stiefel(5, 2) if "heads" in path else None)
    gradients = {"heads": jnp.ones((3, 5, 2)), "bias": jnp.ones(2)}
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    moved = optax.apply_updates(params, updates)
    np.testing.assert_allclose(moved["bias"], 0.9, rtol=1e-6)
    for k in range(3):
        manifold = rx.Stiefel(5, 2)
        expected = manifold.retract(frames[k], -0.1 * manifold.project(frames[k], np.ones((5, 2), np.float32)))
        np.testing.assert_allclose(moved["heads"][k], expected, atol=1e-6)


def test_refusals_say_what_to_do():
    params = _as_jax(start())
    gradients = jax.tree.map(jnp.ones_like, params)
    optimizer = retrax_optax.rsrm(0.1, manifolds=MANIFOLDS)
    state = optimizer.init(params)
    with pytest.raises(TypeError, match=r"RSRM compares the gradients of one batch at two points.*gradient_fn"):
        optimizer.update(gradients, state, params)
    optimizer = retrax_optax.rsgd(0.1, manifolds=MANIFOLDS)
    state = optimizer.init(params)
    with pytest.raises(ValueError, match=r"call update\(gradients, state, params\)"):
        optimizer.update(gradients, state)
    with pytest.raises(ValueError, match=r"\['frame'\] has shape \(6, 2\), but a point on Stiefel\(5, 2"):
        retrax_optax.rsgd(0.1, manifolds={"frame": rx.Stiefel(5, 2)}).init(params)
    with pytest.raises(ValueError, match="is not on Stiefel"):
        optimizer.init({**params, "frame": 2 * params["frame"]})
    with pytest.raises(TypeError, match="is no manifold"):
        retrax_optax.rsgd(0.1, manifolds=lambda path, leaf: "stiefel").init(params)
    with pytest.raises(TypeError, match="method must be a retrax method"):
        retrax_optax.transform("rsrm")


# --- models --------------------------------------------------------------------------------------------------

IMAGES = np.random.default_rng(7).standard_normal((64, 12)).astype(np.float32)
LABELS = (IMAGES[:, 0] * IMAGES[:, 1] > 0).astype(np.int32)


def on_stiefel(name):
    return lambda path, leaf: rx.Stiefel(12, 4) if name in path and leaf.shape == (12, 4) else None


def cross_entropy(logits):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, LABELS))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_flax_nnx_model_trains_with_an_orthonormal_kernel():
    nnx = pytest.importorskip("flax.nnx")

    def orthonormal(key, shape, dtype):
        return rx.Stiefel(*shape).random_point(jax.random.normal(key, shape, dtype))

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(12, 4, kernel_init=orthonormal, rngs=rngs)
            self.last = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x):
            return self.last(jnp.tanh(self.first(x)))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, retrax_optax.mars(0.5, manifolds=on_stiefel("kernel")), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        value, gradients = nnx.value_and_grad(lambda model: cross_entropy(model(IMAGES)))(model)
        optimizer.update(model, gradients)
        return value

    losses = [float(step(model, optimizer)) for _ in range(60)]
    assert losses[-1] < losses[0]
    assert float(rx.Stiefel(12, 4).violation(model.first.kernel[...])) < 1e-6


def test_an_equinox_model_trains_with_an_orthonormal_weight():
    eqx = pytest.importorskip("equinox")

    class Model(eqx.Module):
        weight: jax.Array
        last: eqx.nn.Linear

        def __call__(self, x):
            return self.last(jnp.tanh(x @ self.weight))

    keys = jax.random.split(jax.random.key(0))
    model = Model(rx.Stiefel(12, 4).random_point(jax.random.normal(keys[0], (12, 4))), eqx.nn.Linear(4, 2, key=keys[1]))
    optimizer = retrax_optax.rsrm(0.3, 0.5, manifolds=on_stiefel("weight"))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    gradient_fn = eqx.filter_grad(lambda model: cross_entropy(jax.vmap(model)(IMAGES)))

    @eqx.filter_jit
    def step(model, state):
        params, rest = eqx.partition(model, eqx.is_array)
        updates, state = optimizer.update(
            gradient_fn(model), state, params, gradient_fn=lambda p: gradient_fn(eqx.combine(p, rest))
        )
        return eqx.apply_updates(model, updates), state

    before = float(cross_entropy(jax.vmap(model)(IMAGES)))
    for _ in range(60):
        model, state = step(model, state)
    assert float(cross_entropy(jax.vmap(model)(IMAGES))) < before
    assert float(rx.Stiefel(12, 4).violation(model.weight)) < 1e-6
