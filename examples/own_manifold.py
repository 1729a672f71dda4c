"""
A manifold of your own
======================

Contrasts are unit vectors whose entries sum to zero: the sphere cut by a plane. Retrax does not have them, and thirty
lines change that. The question then is in which pattern of pixels, brightness aside, handwritten digits differ most.
"""

# %%
# What it depends on is a field; retractions and transports are tables; the rest are formulas on arrays with leading
# batch axes.
from typing import Any, ClassVar

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import retrax as rx
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction, transport_by_projection


def _centred(z: Any) -> Any:
    return z - z.mean(axis=-1, keepdims=True)


def _dot(u: Any, v: Any) -> Any:
    return (u * v).sum(axis=-1, keepdims=True)


def _normalise(manifold: Any, x: Any, u: Any) -> Any:
    return _centred(x + u) / _dot(_centred(x + u), _centred(x + u)) ** 0.5


class Contrasts(ArrayManifold):
    """`Contrasts(d)`: vectors with ‖x‖ = 1 and Σ xᵢ = 0."""

    retractions: ClassVar[dict[str, Retraction]] = {"normalise": _normalise}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False)
    }

    d: int

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.d,)

    def project(self, x: Any, z: Any) -> Any:
        """z without its mean, and without its part along x."""
        return _centred(z) - _dot(x, _centred(z)) * x

    def random_point(self, gaussian: Any) -> Any:
        """Uniform."""
        return _normalise(self, 0 * gaussian, gaussian)

    def violation(self, x: Any) -> Any:
        """|‖x‖² - 1| + |Σ xᵢ|."""
        return abs(_dot(x, x)[..., 0] - 1) + abs(x.sum(axis=-1))


# %%
# Is it right? The checks measure slopes: a retraction that is off shows a slope of 1 instead of 2.
print(rx.check_retraction(Contrasts(64)))
print(rx.check_transport(Contrasts(64)))

# %%
# It works with every method, and in ``retrax.torch`` and ``retrax.optax`` too.
X = load_digits().data
X = X - X.mean(axis=0)


def loss(x: jnp.ndarray, batch: jnp.ndarray) -> jnp.ndarray:
    """Minus the variance of a contrast."""
    return -jnp.mean((batch @ x) ** 2)


# %%
# The comparison: the same without the constraint, on the sphere; and the exact answer, the leading eigenvector of the
# covariance between two projections.
centring = np.eye(64) - 1 / 64
exact = np.linalg.eigh(centring @ np.cov(X.T) @ centring)[1][:, -1]
found = {}
for name, manifold in {"contrasts": Contrasts(64), "sphere": rx.Sphere(64)}.items():
    result = rx.minimize(rx.Problem(loss, manifold, data=X), rx.rsrm(), steps=5000, seed=0)
    found[name] = np.asarray(result.x)
    variance, cosine = -result.history["loss"][-1], abs(found[name] @ exact)
    print(f"{name:10s} variance {variance:.2f}, sum {found[name].sum():+.0e}, |cosine| with the exact one {cosine:.5f}")
print(f"exact      variance {np.mean((X @ exact) ** 2):.2f}")

# %%
figure, axes = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
for axis, (name, x) in zip(axes, {**found, "exact contrast": exact}.items(), strict=True):
    axis.imshow((x * np.sign(x @ exact)).reshape(8, 8), cmap="RdBu", vmin=-0.4, vmax=0.4)
    axis.set_title(name)
    axis.axis("off")
plt.show()
