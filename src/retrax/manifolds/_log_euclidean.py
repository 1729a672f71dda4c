"""The log-Euclidean metric of symmetric positive definite matrices: that of the flat space of their logarithms.

⟨u, v⟩_x = tr(D log_x[u] D log_x[v]). Reference: Arsigny, Fillard, Pennec & Ayache (2007). Derivatives of the matrix
logarithm and exponential come from an eigendecomposition.
"""

from retrax import _linalg
from retrax.manifolds.base import NamedTransport
from retrax.typing import Array


def _from_logarithm(logarithm: Array, w: Array) -> Array:
    """The tangent vector whose derivative of the logarithm is w: D exp[w]."""
    return _linalg.symmetric_derivatives(logarithm, "exp", w)[1]


def exponential(x: Array, u: Array) -> Array:
    """Exp_x(u) = exp(log x + D log_x[u])."""
    return _linalg.symmetric_exp(sum(_linalg.symmetric_derivatives(x, "log", u)))


def parallel_transport(x: Array, y: Array, u: Array) -> Array:
    """D exp_(log y)[D log_x[u]]: the space is flat, so that no path matters."""
    return _from_logarithm(_linalg.symmetric_log(y), _linalg.symmetric_derivatives(x, "log", u)[1])


TRANSPORTS = {"parallel": NamedTransport(lambda self, x, y, u: parallel_transport(x, y, u), isometric=True)}
REFUSED = {
    "identity": "it does not respect the log-Euclidean metric",
    "projection": "every symmetric matrix is tangent at every point, so it would be the identity, "
    "which does not respect the log-Euclidean metric",
}


def inner(x: Array, u: Array, v: Array) -> Array:
    """tr(D log_x[u] D log_x[v])."""
    _, first, second = _linalg.symmetric_derivatives(x, "log", u, v)
    return _linalg.frobenius(first, second)


def norm(x: Array, u: Array) -> Array:
    """‖D log_x[u]‖_F."""
    _, flat = _linalg.symmetric_derivatives(x, "log", u)
    return _linalg.safe_sqrt(_linalg.frobenius(flat, flat))


def gradient(x: Array, ambient_gradient: Array) -> Array:
    """D exp[D exp[sym ∇f]] at log x: D exp is self-adjoint."""
    logarithm = _linalg.symmetric_log(x)
    return _from_logarithm(logarithm, _from_logarithm(logarithm, _linalg.symmetric_part(ambient_gradient)))


def logarithm(x: Array, y: Array) -> Array:
    """Log_x(y) = D exp_(log x)[log y - log x]."""
    start = _linalg.symmetric_log(x)
    return _from_logarithm(start, _linalg.symmetric_log(y) - start)


def distance(x: Array, y: Array) -> Array:
    """‖log x - log y‖_F."""
    difference = _linalg.symmetric_log(x) - _linalg.symmetric_log(y)
    return _linalg.safe_sqrt(_linalg.frobenius(difference, difference))


def random_tangent(x: Array, gaussian: Array) -> Array:
    """D exp[sym(gaussian)] at log x: isotropic in the metric at x."""
    return _from_logarithm(_linalg.symmetric_log(x), _linalg.symmetric_part(gaussian))
