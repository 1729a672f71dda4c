"""The methods and geometries of the paper, written once more in plain NumPy: what the tests compare Retrax with.

Nothing here imports Retrax, and formulas are chosen to differ from its own where there is a choice: tall QR and SVD
instead of r×r factorisations, `scipy.linalg.expm` of d×d rotations instead of closed forms.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

Batches = list[tuple[bool, np.ndarray]]
"""For each step: whether it restarts from a large batch, and the samples it takes."""


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Plain functions of points and tangent vectors."""

    project: Callable[..., Any]
    retract: Callable[..., Any]
    transport: Callable[..., Any]
    gradient: Callable[..., Any]
    """(x, ambient gradient) -> Riemannian gradient."""
    inner: Callable[..., float] = lambda x, u, v: float(np.sum(u * v))
    distance: Callable[..., float] | None = None

    def norm(self, x, u):
        return np.sqrt(self.inner(x, u, u))

    def length_from(self, start, x):
        """The distance, or where there is none the length of the chord, made tangent at x."""
        if self.distance is not None:
            return self.distance(start, x)
        return self.norm(x, self.project(x, x - start))


# --- pieces ---------------------------------------------------------------------------------------------------


def _symmetric(a):
    return (a + a.T) / 2


def _qr(x, u):
    q, r = np.linalg.qr(x + u)
    return q * np.sign(np.diag(r))


def _polar(x, u):
    left, _, right = np.linalg.svd(x + u, full_matrices=False)
    return left @ right


def _cayley(x, u):
    eye = np.eye(len(x))
    p = u - x @ x.T @ u / 2
    w = p @ x.T - x @ p.T
    return np.linalg.solve(eye - w / 2, (eye + w / 2) @ x)


def _geodesic(x, u):
    """For horizontal u: the d×d rotation exp(u xᵀ - x uᵀ), applied to x."""
    return scipy.linalg.expm(u @ x.T - x @ u.T) @ x


def _rotation(x, y):
    """The d×d rotation along the shortest path from span(x) to span(y), and the r×r basis change at its end."""
    left, _, right = np.linalg.svd(x.T @ y)
    basis = left @ right
    m = (y - x @ (x.T @ y)) @ np.linalg.inv(x.T @ y)
    a, tangents, b = np.linalg.svd(m, full_matrices=False)
    velocity = a @ np.diag(np.arctan(tangents)) @ b
    return scipy.linalg.expm(velocity @ x.T - x @ velocity.T), basis


def _rotate_stiefel(x, y, u):
    rotation, _ = _rotation(x, y)
    omega = x.T @ u
    return y @ omega + rotation @ (u - x @ omega)


def _rotate_grassmann(x, y, u):
    rotation, basis = _rotation(x, y)
    return rotation @ u @ basis


def _project_stiefel(x, z):
    return z - x @ _symmetric(x.T @ z)


def _project_grassmann(x, z):
    return (np.eye(len(x)) - x @ x.T) @ z


def _project_sphere(x, z):
    return z - x * np.dot(x, z)


def _normalise(x, u):
    return (x + u) / np.linalg.norm(x + u)


def _great_circle(x, u):
    outer = np.outer(u, x)
    return scipy.linalg.expm(outer - outer.T) @ x


def _parallel_sphere(x, y, u):
    return _rotate_grassmann(x[:, None], y[:, None], u[:, None])[:, 0]


def _spd_root(x):
    values, vectors = np.linalg.eigh(x)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def _spd_exp(x, u):
    root = _spd_root(x)
    inverse = np.linalg.inv(root)
    return root @ scipy.linalg.expm(inverse @ u @ inverse) @ root


def _spd_second_order(x, u):
    return x + u + u @ np.linalg.inv(x) @ u / 2


def _spd_parallel(x, y, u):
    e = np.real(scipy.linalg.sqrtm(y @ np.linalg.inv(x)))
    return e @ u @ e.T


def _spd_inner(x, u, v):
    inverse = np.linalg.inv(x)
    return float(np.trace(inverse @ u @ inverse @ v))


# --- geometries -----------------------------------------------------------------------------------------------


def _angles(x, y):
    """The root of the sum of squared principal angles between the columns' spans; of unit vectors, the angle."""
    # For vectors the sign tells an acute angle from an obtuse one; subspaces have no sign.
    cosines = np.linalg.svd(x.T @ y, compute_uv=False) if x.ndim == 2 else np.dot(x, y)
    return np.linalg.norm(np.arccos(np.minimum(cosines, 1)))


def _embedded(project, retract, transport=None, distance=None):
    return Geometry(project, retract, transport or (lambda x, y, u: project(y, u)), gradient=project, distance=distance)


def _spd(retract):
    return Geometry(
        project=lambda x, z: _symmetric(z),
        retract=retract,
        transport=_spd_parallel,
        gradient=lambda x, g: x @ _symmetric(g) @ x,
        inner=_spd_inner,
        distance=lambda x, y: np.linalg.norm(np.log(scipy.linalg.eigvalsh(y, x))),
    )


EUCLIDEAN = Geometry(
    lambda x, z: z,
    lambda x, u: x + u,
    lambda x, y, u: u,
    lambda x, g: g,
    distance=lambda x, y: np.linalg.norm(x - y),
)

GEOMETRIES = {
    "euclidean": EUCLIDEAN,
    "sphere normalise projection": _embedded(_project_sphere, _normalise, distance=_angles),
    "sphere exp parallel": _embedded(_project_sphere, _great_circle, _parallel_sphere, _angles),
    "stiefel qr projection": _embedded(_project_stiefel, _qr),
    "stiefel polar rotation": _embedded(_project_stiefel, _polar, _rotate_stiefel),
    "stiefel cayley rotation": _embedded(_project_stiefel, _cayley, _rotate_stiefel),
    "grassmann polar projection": _embedded(_project_grassmann, _polar, distance=_angles),
    "grassmann qr parallel": _embedded(_project_grassmann, _qr, _rotate_grassmann, _angles),
    "grassmann exp parallel": _embedded(_project_grassmann, _geodesic, _rotate_grassmann, _angles),
    "spd exp parallel": _spd(_spd_exp),
    "spd second-order parallel": _spd(_spd_second_order),
}


# --- methods --------------------------------------------------------------------------------------------------
# Each returns ([x_1, ..., x_{T+1}], [d_1, ..., d_T]); grad(x, S) is the Riemannian mini-batch gradient.


def rsgd(geometry, grad, x, batches, eta):
    """x_{t+1} = R(-η_t grad f_S(x_t))."""
    points, directions = [x], []
    for t, (_, batch) in enumerate(batches, start=1):
        d = grad(x, batch)
        x = geometry.retract(x, -eta(t) * d)
        points.append(x)
        directions.append(d)
    return points, directions


def csgd_m(geometry, grad, x, batches, eta, momentum):
    """Eq. (3): d_t = β T d_{t-1} + (1-β) grad f_S(x_t), d_1 = grad f_S(x_1)."""
    return _with_momentum(geometry, grad, x, batches, eta, momentum, lambda x, g, d: d)


def ramsgrad(geometry, grad, x, batches, eta, momentum, beta, epsilon, maximum=True):
    """Momentum over the root of the (running maximum of the) averaged squared norm."""
    v, largest = 0.0, 0.0

    def scaled(x, g, d):
        nonlocal v, largest
        v = beta * v + (1 - beta) * geometry.inner(x, g, g)
        largest = max(v, largest)
        return d / (np.sqrt(largest if maximum else v) + epsilon)

    return _with_momentum(geometry, grad, x, batches, eta, momentum, scaled)


def _with_momentum(geometry, grad, x, batches, eta, momentum, scaled):
    points, directions = [x], []
    for t, (_, batch) in enumerate(batches, start=1):
        g = grad(x, batch)
        d = g if t == 1 else momentum * geometry.transport(points[-2], x, directions[-1]) + (1 - momentum) * g
        x = geometry.retract(x, -eta(t) * scaled(x, g, d))
        points.append(x)
        directions.append(d)
    return points, directions


def crmsprop(geometry, grad, x, batches, eta, beta, epsilon):
    """v ← βv + (1-β) g∘g in the ambient space; the scaled gradient is projected."""
    points, directions = [x], []
    v = np.zeros_like(x)
    for t, (_, batch) in enumerate(batches, start=1):
        g = grad(x, batch)
        v = beta * v + (1 - beta) * g**2
        x = geometry.retract(x, -eta(t) * geometry.project(x, g / (np.sqrt(v) + epsilon)))
        points.append(x)
        directions.append(g)
    return points, directions


def rasa(geometry, grad, x, batches, eta, sides, beta, epsilon):
    """Kasai et al. (2019), with diagonal matrices written out."""
    points, directions = [x], []
    d, r = x.shape
    left, right = np.zeros(d), np.zeros(r)
    left_max, right_max = np.zeros(d), np.zeros(r)
    for t, (_, batch) in enumerate(batches, start=1):
        g = grad(x, batch)
        left = beta * left + (1 - beta) * np.diag(g @ g.T) / r
        right = beta * right + (1 - beta) * np.diag(g.T @ g) / d
        left_max, right_max = np.maximum(left, left_max), np.maximum(right, right_max)
        power = {"L": (-1 / 2, 0), "R": (0, -1 / 2), "LR": (-1 / 4, -1 / 4)}[sides]
        scaled = np.diag((left_max + epsilon) ** power[0]) @ g @ np.diag((right_max + epsilon) ** power[1])
        x = geometry.retract(x, -eta(t) * geometry.project(x, scaled))
        points.append(x)
        directions.append(g)
    return points, directions


def rsrm(geometry, grad, x, batches, eta, rho, normalised=False):
    """Algorithm 1, line by line; a restart is d_t = grad f_S(x_t)."""
    points, directions = [x], []
    for t, (restart, batch) in enumerate(batches, start=1):
        d = grad(x, batch)
        if not restart:
            previous = points[-2]
            difference = directions[-1] - grad(previous, batch)
            d = d + (1 - rho(t)) * geometry.transport(previous, x, difference)
        step = d / geometry.norm(x, d) if normalised else d
        x = geometry.retract(x, -eta(t) * step)
        points.append(x)
        directions.append(d)
    return points, directions


def mars(geometry, grad, x, batches, eta, rho, gamma):
    """The approximate form: c_t = g_t + γ β/(1-β) (g_t - T g_{t-1}), d_t = β T d_{t-1} + (1-β) c_t, β = 1 - ρ."""
    points, directions, gradients = [x], [], []
    beta = 1 - rho
    for t, (_, batch) in enumerate(batches, start=1):
        g = grad(x, batch)
        d = g
        if t > 1:
            back = points[-2]
            corrected = g + gamma * beta / (1 - beta) * (g - geometry.transport(back, x, gradients[-1]))
            d = beta * geometry.transport(back, x, directions[-1]) + (1 - beta) * corrected
        x = geometry.retract(x, -eta(t) * d)
        points.append(x)
        directions.append(d)
        gradients.append(g)
    return points, directions


def rsvrg(geometry, grad, x, batches, eta):
    """d_t = grad f_S(x_t) - T(grad f_S(x̄) - ḡ)."""
    points, directions = [x], []
    anchor = anchor_gradient = None
    for t, (restart, batch) in enumerate(batches, start=1):
        d = grad(x, batch)
        if restart:
            anchor, anchor_gradient = x, d
        else:
            d = d - geometry.transport(anchor, x, grad(anchor, batch) - anchor_gradient)
        x = geometry.retract(x, -eta(t) * d)
        points.append(x)
        directions.append(d)
    return points, directions


def rdog(geometry, grad, x, batches, initial_distance, curvature, weighted=False, normalised=False):
    """Dodd, Sharrock & Nemeth (2024): RDoG, with `weighted` RDoWG, with `normalised` NRDoG, each in its own form."""
    points, directions, farthest, norms, weights = [x], [], initial_distance, [], []
    for t, (_, batch) in enumerate(batches, start=1):
        g = grad(x, batch)
        farthest = max(farthest, geometry.length_from(points[0], x))
        scaled = np.sqrt(-curvature) * farthest
        zeta = scaled / np.tanh(scaled) if curvature < 0 else 1.0
        norms.append(geometry.norm(x, g))
        weights.append(farthest**2 / zeta)
        if normalised:
            eta = farthest / np.sqrt(zeta * t) / norms[-1]
        elif weighted:
            eta = weights[-1] / np.sqrt(np.dot(weights, np.square(norms)))
        else:
            eta = farthest / np.sqrt(zeta * np.sum(np.square(norms)))
        x = geometry.retract(x, -eta * g)
        points.append(x)
        directions.append(g)
    return points, directions


def storm_plus(geometry, grad, x, batches):
    """Levy, Kavis & Cevher (2021), Algorithm 1, with transports: a_{t+1} and η_t from all g_i and d_i up to t."""
    points, directions, gradient_norms, weights, weighed = [x], [], [], [], []
    for restart, batch in batches:
        g = d = grad(x, batch)
        if not restart:
            previous = points[-2]
            d = g + (1 - weights[-1]) * geometry.transport(previous, x, directions[-1] - grad(previous, batch))
        gradient_norms.append(geometry.norm(x, g))
        weights.append(1 / (1 + np.sum(np.square(gradient_norms))) ** (2 / 3))
        weighed.append(geometry.norm(x, d) ** 2 / weights[-1])
        x = geometry.retract(x, -d / np.cbrt(np.sum(weighed)))
        points.append(x)
        directions.append(d)
    return points, directions
