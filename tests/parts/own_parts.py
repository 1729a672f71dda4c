"""A manifold, estimators, a scaling, a step size and a problem, as a user of Retrax would write them.

They work on NumPy, JAX and PyTorch, so they use only what arrays of all three understand.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

import retrax as rx
from retrax.manifolds.base import ArrayManifold, NamedTransport, Retraction, transport_by_projection
from retrax.typing import Anchored


def _dot(u: Any, v: Any) -> Any:
    return (u * v).sum(axis=-1, keepdims=True)


def _retract(self: "RoundSphere", x: Any, u: Any) -> Any:
    return self.radius * (x + u) / _dot(x + u, x + u) ** 0.5


class RoundSphere(ArrayManifold):
    """Vectors of length `radius`."""

    retractions: ClassVar[dict[str, Retraction]] = {"normalise": _retract}
    transports: ClassVar[dict[str, NamedTransport]] = {
        "projection": NamedTransport(transport_by_projection, isometric=False)
    }

    d: int
    radius: float = 1.0

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d,)."""
        return (self.d,)

    def project(self, x: Any, z: Any) -> Any:
        """z - ⟨x, z⟩ x / radius²."""
        return z - _dot(x, z) / self.radius**2 * x

    def random_point(self, gaussian: Any) -> Any:
        """Uniform."""
        return self.radius * gaussian / _dot(gaussian, gaussian) ** 0.5

    def violation(self, x: Any) -> Any:
        """|‖x‖² - radius²|."""
        return abs(_dot(x, x)[..., 0] - self.radius**2)


@rx.pytree
class Lookback(rx.estimators.EvaluatesAll):
    """d_t = grad f_S(x_t) + weight · T g_{t-1}, g_{t-1} being the gradient of the step before."""

    weight: float
    evaluations: ClassVar[int] = 1
    keeps_last: ClassVar[bool] = False

    def init(self, manifold: Any, x: Any) -> Anchored:
        """No gradient yet."""
        return Anchored(x, 0 * x)

    def reset(self, manifold: Any, oracle: Any, x: Any) -> tuple[rx.estimators.Estimate, Anchored]:
        """d = grad f_S(x)."""
        gradient = oracle(x)
        return rx.estimators.Estimate(gradient, gradient), Anchored(x, gradient)

    def update(self, manifold: Any, oracle: Any, x: Any, last: Any, memory: Anchored, t: Any) -> Any:
        """d_t."""
        gradient = oracle(x)
        direction = gradient + self.weight * manifold.transport(memory.point, x, memory.vector)
        return rx.estimators.Estimate(direction, gradient), Anchored(x, gradient)


@rx.pytree
class Corrected(rx.estimators.Memoryless):
    """d_t = grad f_S(x_t) + weight · T(d_{t-1} - grad f_S(x_{t-1})), which asks for gradients at two points."""

    weight: float
    evaluations: ClassVar[int] = 2

    def second_point(self, last: Any, memory: Any) -> Any:
        """x_{t-1}."""
        return last.point

    def update(self, manifold: Any, oracle: Any, x: Any, last: Any, memory: Any, t: Any) -> Any:
        """d_t."""
        here, there = oracle.pair(x, last.point)
        correction = manifold.transport(last.point, x, last.vector - there)
        return rx.estimators.Estimate(here + self.weight * correction, here, Anchored(last.point, there)), ()

    def info(self, memory: Any, t: Any) -> dict[str, Any]:
        """The weight, as a column of the history."""
        return {"weight": self.weight}


@rx.pytree
class Unread(rx.estimators.Memoryless):
    """The mini-batch gradient, and a number that goes only into something that nobody reads."""

    weight: float
    evaluations: ClassVar[int] = 1

    def update(self, manifold: Any, oracle: Any, x: Any, last: Any, memory: Any, t: Any) -> Any:
        """d_t = grad f_S(x_t)."""
        gradient = oracle(x)
        return rx.estimators.Estimate(gradient, gradient, Anchored(x, self.weight * gradient)), ()


@rx.pytree
class ByLargest:
    """d / m_t, where m_t = max(floor, ‖d_1‖, ..., ‖d_t‖)."""

    floor: float

    def init(self, manifold: Any, x: Any) -> Any:
        """The floor, in the dtype of x."""
        return self.floor + 0 * manifold.norm(x, 0 * x)

    def apply(self, manifold: Any, x: Any, estimate: rx.estimators.Estimate, memory: Any) -> tuple[Any, Any]:
        """(d / m, m)."""
        norm = manifold.norm(x, estimate.direction)
        largest = memory + (norm - memory) * (norm > memory)
        return estimate.direction / largest.reshape(*largest.shape, *(1,) * len(manifold.ambient_shape)), largest


class BoldMemory(NamedTuple):
    """What the bold driver remembers."""

    size: Any
    norm: Any


@rx.pytree
class Bold:
    """η grows by the factor `up` while the measured ‖grad f_S‖ falls, and shrinks by `down` when it rises."""

    initial: float
    up: float = 1.1
    down: float = 0.5

    def init(self, manifold: Any, x: Any) -> BoldMemory:
        """As before a first step, whose gradient is shorter than anything."""
        zero = 0 * manifold.norm(x, 0 * x)
        return BoldMemory(self.initial / self.up + zero, float("inf") + zero)

    def apply(self, manifold: Any, x: Any, direction: Any, estimate: Any, memory: BoldMemory, t: Any) -> Any:
        """(η_t, its memory)."""
        norm = manifold.norm(x, estimate.gradient)
        size = self.down * memory.size + (self.up - self.down) * memory.size * (norm < memory.norm)
        return size, BoldMemory(size, norm)


@dataclasses.dataclass(frozen=True)
class RobustDistance:
    """f_S(x) = mean of sqrt(delta² + ‖x - a‖²)."""

    delta: float

    def __call__(self, x: Any, batch: Any) -> Any:
        """f_S(x)."""
        return jnp.mean(jnp.sqrt(self.delta**2 + jnp.sum((x - batch) ** 2, axis=-1)))


class Middle(rx.Problem):
    """The point of a sphere that is close to most samples."""

    def __init__(self, samples: Any, manifold: Any, delta: float = 1.0) -> None:
        super().__init__(RobustDistance(delta), manifold, samples)
