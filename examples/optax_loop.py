"""
In an optax loop
================

A classifier of breast tumours that looks at three directions only: a frame with orthonormal columns, then logistic
regression. The frame is a leaf of the parameters with a manifold, everything else is ordinary optax.
"""

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import load_breast_cancer

import retrax as rx
import retrax.optax

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
order = np.random.default_rng(0).permutation(len(X))
X, y = jnp.asarray(X[order], jnp.float32), jnp.asarray(y[order], jnp.float32)
train, test = slice(0, 400), slice(400, None)
frame = rx.Stiefel(30, 3)
start = {
    "frame": frame.random_point(jax.random.normal(jax.random.key(0), (30, 3))),
    "weights": jnp.zeros(3),
    "bias": jnp.zeros(()),
}


def loss(params: dict, X: jax.Array, y: jax.Array) -> jax.Array:
    """Cross-entropy."""
    logits = X @ params["frame"] @ params["weights"] + params["bias"]
    return optax.sigmoid_binary_cross_entropy(logits, y).mean()


# %%
# One loop for all. ``gradient_fn`` is for methods that evaluate a batch at two points; optax's own take no notice of
# it.


def fit(optimizer: optax.GradientTransformation, steps: int) -> tuple[dict, list[float]]:
    """The parameters after so many steps, and the test loss on the way."""
    optimizer = optax.with_extra_args_support(optimizer)

    @jax.jit
    def step(params: dict, state: tuple, rows: jax.Array) -> tuple[dict, tuple]:
        gradient = lambda p: jax.grad(loss)(p, X[rows], y[rows])  # noqa: E731
        updates, state = optimizer.update(gradient(params), state, params, gradient_fn=gradient)
        return optax.apply_updates(params, updates), state

    generator = np.random.default_rng(0)
    params, state, losses = start, optimizer.init(start), []
    for number in range(steps):
        params, state = step(params, state, generator.integers(400, size=16))
        if number % 20 == 0:
            losses.append(float(loss(params, X[test], y[test])))
    return params, losses


contestants = {
    "rsgd, orthonormal": (rx.optax.rsgd(0.5, manifolds={"frame": frame}), 1),
    "rsrm() without a step size": (rx.optax.rsrm(manifolds={"frame": frame}), 2),
    "optax.adam, free": (optax.adam(1e-2), 1),
}
curves = {}
for name, (optimizer, points) in contestants.items():
    params, curves[name] = fit(optimizer, 800 // points)
    accuracy = jnp.mean((X[test] @ params["frame"] @ params["weights"] + params["bias"] > 0) == (y[test] > 0.5))
    off = float(frame.violation(params["frame"]))
    print(f"{name:28s} test loss {curves[name][-1]:.4f}, accuracy {accuracy:.3f}, off the manifold {off:.0e}")

# %%
# On 569 tumours the three are alike. The frame of the first two is orthonormal at every step, so its three numbers
# can be drawn and compared; Adam's leaves the manifold at once.
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, (_, points) in contestants.items():
    axes.plot(np.arange(len(curves[name])) * 20 * 16 * points, curves[name], label=name)
axes.set(xlabel="gradients of samples", ylabel="test loss", yscale="log")
axes.legend()
plt.show()
