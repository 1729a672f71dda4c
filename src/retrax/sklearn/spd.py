"""Means of covariance matrices, the classifier that is built on them, and the tangent space at one."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from retrax.sklearn import _spd
from retrax.sklearn._arrays import AnyLibrary
from retrax.sklearn._streams import Blocks

BLOCK_LENGTH = 256
"""So many matrices make one step of a running mean; the first block's mean is found to the end."""


def check_metric(metric: Any, allowed: tuple[str, ...] = _spd.METRICS) -> str:
    """A metric's name, or a ValueError with those there are."""
    if metric not in allowed:
        raise ValueError(f"metric must be one of {', '.join(map(repr, allowed))}, not {metric!r}")
    return metric


def check_matrices(estimator: BaseEstimator, X: Any, *, reset: bool, y: Any = "no_validation") -> Any:
    """Symmetric matrices, (n, d, d) in float64; with y, the pair."""
    matrices = _finite_numbers(estimator, X, reset=reset)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2]:
        raise ValueError(
            f"X must be square matrices of shape (n_matrices, n_channels, n_channels), not {matrices.shape}: "
            "covariances of windows, for example"
        )
    scale = np.max(np.abs(matrices))
    if np.max(np.abs(matrices - np.swapaxes(matrices, 1, 2))) > 1e-8 * scale:
        raise ValueError("X must hold symmetric matrices; take (X + X.transpose(0, 2, 1)) / 2 if that is what you mean")
    if isinstance(y, str):
        return matrices
    y = validate_data(estimator, y=y)
    check_consistent_length(matrices, y)
    return matrices, y


def _finite_numbers(estimator: BaseEstimator, X: Any, *, reset: bool) -> np.ndarray:
    if type(X) is np.ndarray and X.ndim == 3 and X.dtype == np.float64 and X.size:
        # scikit-learn would first look for a data frame, for which it reads, once, what every installed package says of
        # itself: as long as the mean of some hundred small matrices takes.
        assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
        _check_n_features(estimator, X, reset=reset)
        return X
    return validate_data(estimator, X, allow_nd=True, dtype=np.float64, reset=reset)


class RunningMean:
    """The mean of matrices that come in any number, in one pass: blocks of one length, each one Riemannian step.

    C ← Exp_C((W_block / W_all) Σ wᵢ Log_C(Xᵢ)), the recursive mean (Sturm 2003; Bonnabel 2013) by blocks. Exact in
    the log-Euclidean metric; in the others, off by a part of the statistical error.
    """

    def __init__(self, size: int, estimator: Any, point: np.ndarray | None = None, weight: float = 0.0) -> None:
        self.size, self.metric = size, estimator.metric
        self.tolerance, self.most = estimator.tol, estimator.max_iter
        self.blocks = Blocks(BLOCK_LENGTH, size * size, np.dtype(np.float64))
        self.point, self.weight = point, weight

    @property
    def seen(self) -> bool:
        """Whether any matrix has come."""
        return self.point is not None or bool(np.any(self.blocks.held[1] > 0))

    def add(self, matrices: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Take over matrices; those too few for a block wait."""
        for rows, row_weights in self.blocks.push(matrices.reshape(len(matrices), self.size**2), weights):
            self.point, self.weight = self._with(rows, row_weights)

    def read(self) -> np.ndarray:
        """The mean of all so far; those that wait are counted in, and go on waiting."""
        rows, weights = self.blocks.held
        point = self._with(rows, weights)[0] if len(rows) else self.point
        if point is None:
            raise ValueError("all matrices have weight zero")
        return point

    def _with(self, rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray | None, float]:
        weight = float(weights.sum())
        if weight == 0:
            return self.point, self.weight
        matrices, total = rows.reshape(-1, self.size, self.size), self.weight + weight
        if self.point is None:
            return _spd.mean(matrices, weights, self.metric, self.tolerance, self.most).point, total
        return _spd.moved(self.point, matrices, weights, weight / total, self.metric), total


def _weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    if sample_weight is None:
        return np.ones(len(X))
    return _check_sample_weight(sample_weight, X[:, :, 0], ensure_non_negative=True)


def _warn_unless(converged: bool, estimator: BaseEstimator) -> None:
    if not converged:
        warnings.warn(
            f"{type(estimator).__name__}: the mean has not converged after {estimator.max_iter} iterations; "
            "raise max_iter, or tol if it is below rounding",
            ConvergenceWarning,
            stacklevel=3,
        )


class _ThreeAxes(BaseEstimator):
    """What estimators on (n, d, d) arrays tell scikit-learn about themselves."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        return tags


class SPDMean(AnyLibrary, _ThreeAxes):
    """The Fréchet mean of symmetric positive definite matrices (n_matrices, n_channels, n_channels).

    `fit` solves for it in plain NumPy: nothing is compiled. It also takes an iterable of batches, which it reads once;
    `partial_fit` goes on with more matrices, where how they are divided over calls makes no difference.

    Parameters
    ----------
    metric : {"affine-invariant", "log-euclidean", "bures-wasserstein"}, default="affine-invariant"
    tol : float, default=1e-9
        For the norm of the mean logarithm, the distance from the solution relative to its size.
    max_iter : int, default=50

    Attributes
    ----------
    mean_ : array of shape (n_channels, n_channels)
    solver_ : str
        "anderson", "logarithms" or "fixed-point" for the metrics in this order; "one-pass" for streams.
    n_iter_ : int
    """

    _running: RunningMean
    _mean: np.ndarray | None

    def __init__(self, metric: str = "affine-invariant", *, tol: float = 1e-9, max_iter: int = 50) -> None:
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SPDMean":
        """Find the mean of X, or of the batches of an iterable."""
        check_metric(self.metric)
        for name in ("_running", "_mean"):
            self.__dict__.pop(name, None)
        if not hasattr(X, "shape") and not isinstance(X, list | tuple):
            for batch in X:
                self.partial_fit(batch)
            check_is_fitted(self)
            self._mean = self._running.read()
            return self
        X = check_matrices(self, X, reset=True)
        weights = _weights(sample_weight, X)
        found = _spd.mean(X, weights, self.metric, self.tol, self.max_iter)
        _warn_unless(found.converged, self)
        self._mean, self.solver_, self.n_iter_ = found.point, found.solver, found.iterations
        self._weight = float(weights.sum())
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SPDMean":
        """Go on with more matrices, also after `fit`."""
        check_metric(self.metric)
        fresh = not self.__sklearn_is_fitted__()
        X = check_matrices(self, X, reset=fresh)
        if "_running" not in self.__dict__:
            start = (None, 0.0) if fresh else (self._mean, self._weight)
            self._running = RunningMean(X.shape[1], self, *start)
            self.solver_, self.n_iter_ = "one-pass", 1
        self._running.add(X, None if sample_weight is None else _weights(sample_weight, X))
        self._mean = None
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_mean" in self.__dict__

    @property
    def mean_(self) -> np.ndarray:
        """The mean; of a stream, worked out when it is looked at."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this SPDMean is not fitted yet: call fit or partial_fit first")
        if self._mean is None:
            self._mean = self._running.read()
        return self._mean


class MinimumDistanceToMean(AnyLibrary, ClassifierMixin, TransformerMixin, _ThreeAxes):
    """Classify covariance matrices by the nearest class mean (Barachant et al. 2012).

    `partial_fit` learns in one pass; `classes` must be given with its first call.

    Parameters
    ----------
    metric, tol, max_iter : as in `SPDMean`

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    covmeans_ : array of shape (n_classes, n_channels, n_channels)
        Under pyRiemann's name.
    solver_ : str
    """

    _running: list[RunningMean]
    _means: Any

    def __init__(self, metric: str = "affine-invariant", *, tol: float = 1e-9, max_iter: int = 50) -> None:
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MinimumDistanceToMean":
        """Find the mean of each class."""
        check_metric(self.metric)
        for name in ("_running", "_means"):
            self.__dict__.pop(name, None)
        X, y = check_matrices(self, X, y=y, reset=True)
        check_classification_targets(y)
        weights = _weights(sample_weight, X)
        self.classes_ = np.unique(y[weights > 0])
        found = [
            _spd.mean(X[y == label], weights[y == label], self.metric, self.tol, self.max_iter)
            for label in self.classes_
        ]
        _warn_unless(all(one.converged for one in found), self)
        self._means, self.solver_ = np.stack([one.point for one in found]), found[0].solver
        self._class_weights = [float(weights[y == label].sum()) for label in self.classes_]
        self.n_iter_ = max(one.iterations for one in found)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "MinimumDistanceToMean":
        """Go on with more matrices of the same classes, also after `fit`."""
        check_metric(self.metric)
        fresh = not self.__sklearn_is_fitted__()
        if fresh and classes is None:
            raise ValueError("classes must be given with the first call of partial_fit: all labels that will come")
        X, y = check_matrices(self, X, y=y, reset=fresh)
        if "_running" not in self.__dict__:
            if fresh:
                self.classes_ = np.unique(classes)
            starts = [(None, 0.0)] * len(self.classes_) if fresh else zip(self._means, self._class_weights, strict=True)
            self._running = [RunningMean(X.shape[1], self, *start) for start in starts]
            self.solver_, self.n_iter_ = "one-pass", 1
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels {unknown.tolist()}, which are not among classes, {self.classes_.tolist()}")
        weights = _weights(sample_weight, X)
        for label, running in zip(self.classes_, self._running, strict=True):
            running.add(X[y == label], weights[y == label])
        self._means = None
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_means" in self.__dict__

    @property
    def covmeans_(self) -> np.ndarray:
        """The mean of each class; NaN for one of which nothing has come yet, to which nothing is near."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this MinimumDistanceToMean is not fitted yet: call fit or partial_fit first")
        if self._means is None:
            nothing = np.full((self._running[0].size,) * 2, np.nan)
            self._means = np.stack([one.read() if one.seen else nothing for one in self._running])
        return self._means

    def transform(self, X: Any) -> np.ndarray:
        """The distances to the means, (n_matrices, n_classes)."""
        check_is_fitted(self)
        X = check_matrices(self, X, reset=False)
        known = [np.all(np.isfinite(mean)) for mean in self.covmeans_]
        columns = [
            _spd.distances(X, mean, self.metric) if finite else np.full(len(X), np.inf)
            for mean, finite in zip(self.covmeans_, known, strict=True)
        ]
        return np.stack(columns, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The class whose mean is nearest."""
        return self.classes_[np.argmin(self.transform(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """softmax(-distance²)."""
        squares = self.transform(X) ** 2
        likely = np.exp(squares.min(axis=1, keepdims=True) - squares)
        return likely / likely.sum(axis=1, keepdims=True)


class TangentSpace(AnyLibrary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _ThreeAxes):
    """Covariance matrices as vectors: coordinates in the tangent space at their mean, for any linear model.

    log(C^(-1/2) X C^(-1/2)), of which the upper triangle is taken row by row and off-diagonal entries times √2, so that
    distances from the mean are norms; as pyRiemann's TangentSpace has it. In the log-Euclidean metric: log X - log C.

    Parameters
    ----------
    metric : {"affine-invariant", "log-euclidean"}, default="affine-invariant"
    tol, max_iter : as in `SPDMean`

    Attributes
    ----------
    reference_ : array of shape (n_channels, n_channels)
        The mean, C.
    """

    def __init__(self, metric: str = "affine-invariant", *, tol: float = 1e-9, max_iter: int = 50) -> None:
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "TangentSpace":
        """Find the mean."""
        check_metric(self.metric, _spd.METRICS[:2])
        X = check_matrices(self, X, reset=True)
        found = _spd.mean(X, _weights(sample_weight, X), self.metric, self.tol, self.max_iter)
        _warn_unless(found.converged, self)
        self.reference_, self.solver_, self.n_iter_ = found.point, found.solver, found.iterations
        return self

    @property
    def _n_features_out(self) -> int:
        size = len(self.reference_)
        return size * (size + 1) // 2

    def transform(self, X: Any) -> np.ndarray:
        """The vectors, (n_matrices, n_channels (n_channels + 1) / 2)."""
        check_is_fitted(self)
        X = check_matrices(self, X, reset=False)
        if self.metric == "affine-invariant":
            logarithms = _spd.logarithm(_spd.congruence(X, _spd.power(self.reference_, -0.5)))
        else:
            logarithms = _spd.logarithm(X) - _spd.logarithm(self.reference_)
        rows, columns = np.triu_indices(X.shape[1])
        return logarithms[:, rows, columns] * np.where(rows == columns, 1, np.sqrt(2))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The matrices whose vectors these are."""
        check_is_fitted(self)
        vectors, size = np.asarray(X, dtype=np.float64), len(self.reference_)
        rows, columns = np.triu_indices(size)
        logarithms = np.zeros((len(vectors), size, size))
        logarithms[:, rows, columns] = vectors / np.where(rows == columns, 1, np.sqrt(2))
        logarithms[:, columns, rows] = logarithms[:, rows, columns]
        if self.metric == "log-euclidean":
            return _spd.exponential(logarithms + _spd.logarithm(self.reference_))
        return _spd.congruence(_spd.exponential(logarithms), _spd.power(self.reference_, 0.5))
