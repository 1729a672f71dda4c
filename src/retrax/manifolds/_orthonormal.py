"""What Stiefel and Grassmann share: both hold d×r matrices with orthonormal columns.

Retractions need only an r×r factorisation, since (x+u)ᵀ(x+u) is r×r. It is formed from x+u itself rather than as
I + uᵀu: rounding errors of earlier steps are then corrected in each step instead of being carried along.
"""

from collections.abc import Callable
from typing import Any

from retrax import _linalg
from retrax.manifolds.base import ArrayManifold
from retrax.typing import Array


class OrthonormalColumns(ArrayManifold):
    """Matrices x with xᵀx = I."""

    d: int
    r: int

    def __post_init__(self) -> None:
        """Refuse r > d."""
        super().__post_init__()
        self._check_sizes("d", "r")
        if self.r > self.d:
            name = type(self).__name__
            raise ValueError(
                f"{name}({self.d}, {self.r}) is empty: r must be at most d; did you mean {name}({self.r}, {self.d})?"
            )

    @property
    def ambient_shape(self) -> tuple[int, ...]:
        """(d, r)."""
        return self.d, self.r

    def random_point(self, gaussian: Array) -> Array:
        """Uniformly distributed (Haar)."""
        return random_orthonormal(gaussian)

    def violation(self, x: Array) -> Array:
        """The largest entry of |xᵀx - I|."""
        return violation(x)

    @property
    def orthonormalise(self) -> Callable[[Array], Array] | None:
        """x + u ↦ R_x(u), where the chosen retraction depends on that sum alone; None where it does not."""
        return _OF_THE_SUM.get(self.retractions[self.retraction_name])


def polar(self: Any, x: Array, u: Array) -> Array:
    """R_x(u) = y (yᵀy)^(-1/2) with y = x + u."""
    return polar_factor(_moved(x, u))


def qr(self: Any, x: Array, u: Array) -> Array:
    """R_x(u) = Q of x + u = QR with R's diagonal positive."""
    return orthogonal_factor(_moved(x, u))


def polar_factor(y: Array) -> Array:
    """y (yᵀy)^(-1/2)."""
    found = _linalg.orthonormal_by_products(y)
    return _tidy_if_single(y @ _linalg.inverse_sqrt(y.mT @ y)) if found is None else found


def orthogonal_factor(y: Array) -> Array:
    """Q of y = QR with R's diagonal positive, from the Cholesky factor Rᵀ of yᵀy."""
    return _tidy_if_single(_linalg.divide_by_lower_transpose(y, _linalg.cholesky(y.mT @ y)))


_OF_THE_SUM: dict[Any, Callable[[Array], Array]] = {polar: polar_factor, qr: orthogonal_factor}


def longest_step(u: Array) -> float:
    """ε^(-1/4): as long as no entry of u is larger, the columns of x + u stay independent, with an error below √ε.

    A step so long ends where any longer one does, up to an angle of ε^(1/4).
    """
    return _linalg.epsilon(u) ** -0.25


def _moved(x: Array, u: Array) -> Array:
    """x + u, with the entries of u cut."""
    return _linalg.added_to(_linalg.bounded(u, longest_step(u)), x)


def tidy(x: Array) -> Array:
    """One Newton-Schulz step towards the nearest orthonormal matrix: x (3I - xᵀx) / 2.

    It squares an error of rounding size away, so that it cannot build up over many steps.
    """
    return x @ ((3 * _linalg.identity_like(x) - x.mT @ x) / 2)


def _tidy_if_single(x: Array) -> Array:
    """An r×r factorisation leaves an error of ε (1 + ‖u‖²): harmless in double precision, but not in single."""
    return tidy(x) if _linalg.epsilon(x) > 1e-10 else x


def random_orthonormal(gaussian: Array) -> Array:
    """Haar-distributed columns: Q of the QR factorisation with R's diagonal positive."""
    xp = _linalg.namespace(gaussian)
    q, upper = xp.linalg.qr(gaussian)
    diagonal = xp.sum(upper * _linalg.identity_like(upper), axis=-2)
    return q * xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))[..., None, :]


def violation(x: Array) -> Array:
    """The largest entry of |xᵀx - I|."""
    xp = _linalg.namespace(x)
    return xp.max(xp.abs(x.mT @ x - _linalg.identity_like(x)), axis=(-2, -1))


def rotation(x: Array, y: Array, y_w: Array) -> tuple[Array, Array]:
    """How w ⊥ span(x), of which only yᵀw is needed, turns along the shortest path of subspaces from x to y.

    With A the orthogonal polar factor of xᵀy and ŷ = yAᵀ, w ↦ w - (x + ŷ)K with K = (I + xᵀŷ)⁻¹ ŷᵀw. Returns (A, K).
    """
    xy = x.mT @ y
    alignment = _linalg.polar_factor(xy)
    middle = _linalg.identity_like(x) + _linalg.symmetric_part(xy @ alignment.mT)
    return alignment, _linalg.solve_moderate(middle, alignment @ y_w)
