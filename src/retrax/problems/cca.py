"""Canonical correlations of two views: min -tr(Uᵀ C_xy V) over UᵀC_xx U = I and VᵀC_yy V = I, generalized Stiefel both.

The constraint is data: with the whole data at hand B = C_xx is known from the start, on a stream it is a running
estimate, to which the frames are taken over with every batch (`follow`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from retrax import _correlations, _linalg, _moments
from retrax._arguments import integer
from retrax.manifolds import GeneralizedStiefel, Product
from retrax.problems import data_checks
from retrax.problems.base import Problem
from retrax.typing import Batch, Point, Tangent

_VIEWS = ("x", "y")


def loss(point: Point, batch: Batch) -> Any:
    """f_S(U, V) = -mean (Uᵀxᵢ)ᵀ(Vᵀyᵢ)."""
    x, y = (batch[view] @ _frame(point[view]) for view in _VIEWS)
    return -_linalg.namespace(x).sum(x * y) / x.shape[0]


def ambient_gradient(point: Point, batch: Batch) -> Tangent:
    """∂f_S/∂U = -C_S V and ∂f_S/∂V = -C_Sᵀ U with C_S = mean xᵢyᵢᵀ; B has no part in it."""
    scores = {view: batch[view] @ _frame(point[view]) for view in _VIEWS}
    one = lambda view, other: -batch[view].mT @ scores[other] / batch[view].shape[0]  # noqa: E731
    return {view: _beside(one(view, other), point[view]) for view, other in zip(_VIEWS, _VIEWS[::-1], strict=True)}


def _frame(point: Any) -> Any:
    """The d×r part of a point [x, B], which has d more columns."""
    return point[..., : point.shape[-1] - point.shape[-2]]


def _beside(frame: Any, point: Any) -> Any:
    """A d×r gradient as one of the whole point, with zeros for B."""
    return _linalg.namespace(frame).concat([frame, 0 * point[..., frame.shape[-1] :]], axis=-1)


class ViewMoments:
    """Means and covariances of two views, of all samples seen so far; no sample is kept."""

    def __init__(self, columns: tuple[int, int]) -> None:
        self.count, self.columns = 0, columns
        self._both = _moments.Moments(sum(columns))

    def add(self, x: Any, y: Any) -> None:
        """Take in further samples."""
        both = np.concatenate([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)], axis=1)
        if not np.isfinite(both).all():
            raise ValueError("the batch contains NaN or infinite entries")
        self._both.add(both, np.ones(len(both)))
        self.count += len(both)

    def covariances(self, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(C_xx, C_yy, C_xy); to the first two, `ridge` times their mean variance is added on the diagonal."""
        return _correlations.covariances(self._both.scatter / self.count, self.columns[0], ridge)


def canonical_correlations(moments: ViewMoments, rank: int, ridge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(correlations, U, V) by a dense solver, as `retrax.sklearn.CCA` has them."""
    values, u, v = _correlations.canonical(*moments.covariances(ridge), moments.count)
    return values[:rank], u[:, :rank], v[:, :rank]


class CCA(Problem):
    """The `rank` leading canonical correlations of the rows of X with those of Y, which are centred first.

    `ridge` times the mean variance is added to the variances of each view. `optimum` is minus the sum of the
    correlations, `solution` the pair of points that has it, and `correlations(point)` what any two frames reach.
    """

    def __init__(self, X: Any, Y: Any, rank: int, *, ridge: float = 1e-6, retraction: str = "qr") -> None:
        views = [data_checks.sample_matrix(view, name) for view, name in ((X, "X"), (Y, "Y"))]
        if len(views[0]) != len(views[1]):
            raise ValueError(f"X and Y must show the same samples, but X has {len(views[0])} and Y {len(views[1])}")
        columns = (views[0].shape[1], views[1].shape[1])
        self.rank = integer(rank, "rank", least=1, most=min(columns))
        self.moments = ViewMoments(columns)
        self.moments.add(*views)
        self.ridge = ridge
        data = {name: view - view.mean(axis=0) for name, view in zip(_VIEWS, views, strict=True)}
        super().__init__(loss, _manifold(columns, self.rank, retraction), data, gradient=ambient_gradient)

    @property
    def optimum(self) -> float:
        """Minus the sum of the correlations."""
        return -float(np.sum(canonical_correlations(self.moments, self.rank, self.ridge)[0]))

    @property
    def solution(self) -> Point:
        """The frames that have the canonical correlations, with their B's."""
        _, u, v = canonical_correlations(self.moments, self.rank, self.ridge)
        return _points(u, v, self.moments, self.ridge)

    def initial_point(self, seed: int = 0) -> Point:
        """Random frames, with the covariances of all the data as their B's."""
        gaussian = np.random.default_rng(seed).standard_normal
        u, v = (gaussian((columns, self.rank)) for columns in self.moments.columns)
        return _points(u, v, self.moments, self.ridge)

    def correlations(self, point: Point) -> np.ndarray:
        """The canonical correlations of Uᵀx with Vᵀy over all the data, largest first."""
        return correlations_of(self.moments, _frame(np.asarray(point["x"])), _frame(np.asarray(point["y"])), self.ridge)


def correlations_of(moments: ViewMoments, u: np.ndarray, v: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """The canonical correlations between the subspaces that two frames span."""

    xx, yy, xy = moments.covariances(ridge)
    left, right = np.linalg.cholesky(u.T @ xx @ u), np.linalg.cholesky(v.T @ yy @ v)
    return np.linalg.svd(np.linalg.solve(left, u.T @ xy @ v) @ np.linalg.inv(right).T, compute_uv=False)


def follow(
    stream: Iterable[tuple[Any, Any]], rank: int, *, ridge: float = 1e-6, steps: int = 5, seed: int = 0
) -> tuple[Point, ViewMoments]:
    """Canonical correlations of a stream of batches (x, y), each seen once: the frames, and the moments of all of it.

    With every batch the running covariances change, and with them the manifold: both frames are taken over to the new
    B (`GeneralizedStiefel.point`). Then come some steps in turn along the gradient in B's own metric, B⁻¹(-C V) and
    what makes it tangent, of length 1/σ with σ = UᵀC V, the scale that the curvature has there.
    """
    moments: ViewMoments | None = None
    point: Point = {}
    for x, y in stream:
        x, y = np.atleast_2d(np.asarray(x)), np.atleast_2d(np.asarray(y))
        if moments is None:
            moments = ViewMoments((x.shape[1], y.shape[1]))
            gaussian = np.random.default_rng(seed).standard_normal
            u, v = (gaussian((columns, rank)) for columns in moments.columns)
        else:
            u, v = (_frame(point[view]) for view in _VIEWS)
        moments.add(x, y)
        point = _points(u, v, moments, ridge)
        point = _steps(point, moments, rank, ridge, steps)
    if moments is None:
        raise ValueError("the stream gave no samples")
    return point, moments


def _steps(point: Point, moments: ViewMoments, rank: int, ridge: float, steps: int) -> Point:
    import scipy.linalg  # not with retrax: it takes longer to load than all of it

    xx, yy, xy = moments.covariances(ridge)
    factors = {"x": scipy.linalg.cho_factor(xx), "y": scipy.linalg.cho_factor(yy)}
    crossed = {"x": xy, "y": xy.T}
    manifold = _manifold(moments.columns, rank, "qr")
    for _ in range(steps):
        for view, other in zip(_VIEWS, _VIEWS[::-1], strict=True):
            frame, target = _frame(point[view]), crossed[view] @ _frame(point[other])
            natural = scipy.linalg.cho_solve(factors[view], target)
            along = frame.T @ target
            # Where UᵀCV is close to zero, as at a random start, the step is long but no longer than the frame.
            size = 1 / max(float(np.abs(np.diag(along)).mean()), 1e-3)
            tangent = size * (natural - frame @ ((along + along.T) / 2))
            factor = manifold.factors[view]
            point = {**point, view: factor.retract(point[view], _beside(tangent, point[view]))}
    return point


def _manifold(columns: tuple[int, int], rank: int, retraction: str) -> Product:
    views = zip(_VIEWS, columns, strict=True)
    return Product({view: GeneralizedStiefel(d, rank, retraction=retraction) for view, d in views})


def _points(u: np.ndarray, v: np.ndarray, moments: ViewMoments, ridge: float) -> Point:
    xx, yy, _ = moments.covariances(ridge)
    frames = {"x": (u, xx), "y": (v, yy)}
    return {view: GeneralizedStiefel(*frame.shape).point(frame, b) for view, (frame, b) in frames.items()}
