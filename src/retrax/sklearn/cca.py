"""Canonical correlation analysis of two sets of columns, in one pass."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted, validate_data

from retrax._arguments import integer
from retrax._correlations import canonical, covariances
from retrax._moments import Moments
from retrax.sklearn._arrays import AnyLibrary
from retrax.sklearn._streams import Blocks


class _Model(NamedTuple):
    x_rotations: np.ndarray
    y_rotations: np.ndarray
    correlations: np.ndarray
    mean: np.ndarray


class CCA(AnyLibrary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Directions in X and in Y whose scores are correlated most, each set of scores uncorrelated within itself.

    Hotelling (1936): the singular values of Σxx^(-1/2) Σxy Σyy^(-1/2). The joint covariance is summed up in one pass,
    so that `fit` on arrays, `fit` on an iterable of pairs (X, Y) and `partial_fit` give the same, whatever the batches.

    Parameters
    ----------
    n_components : int, default=2
    reg : float, default=0.0
        A part of the mean variance of X's columns, and of Y's, that is added to each variance: needed where columns are
        many for the number of rows.

    Attributes
    ----------
    x_rotations_, y_rotations_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Scores are (X - x_mean_) @ x_rotations_, of unit variance.
    correlations_ : array of shape (n_components,)
        Of the scores, falling.
    x_mean_, y_mean_, n_features_in_, n_samples_seen_ : array, array, int, int
    solver_ : str
        "covariance".
    """

    _solved: _Model | None

    def __init__(self, n_components: int = 2, *, reg: float = 0.0) -> None:
        self.n_components = n_components
        self.reg = reg

    def fit(self, X: Any, y: Any = None) -> "CCA":
        """Learn from X and Y, or from an iterable of pairs (X, Y) alone."""
        for name in ("_moments", "_solved"):
            self.__dict__.pop(name, None)
        for rows, targets in self._batches(X, y):
            self.partial_fit(rows, targets)
        if not self.__sklearn_is_fitted__():
            raise ValueError("X is an iterable without a single pair (X, Y)")
        if self.n_samples_seen_ < 2:
            raise ValueError("Found 1 sample, while a minimum of 2 is required by CCA: one has no correlation")
        self._solve()
        return self

    def _batches(self, X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
        if y is not None or hasattr(X, "shape") or not hasattr(X, "__iter__"):
            yield X, y
            return
        for pair in X:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise ValueError("without y, X must be an iterable of pairs (X, Y) of rows; y is required otherwise")
            yield pair[0], pair[1]

    def partial_fit(self, X: Any, y: Any) -> "CCA":
        """Learn from more rows of X and Y."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: the second set of columns")
        fresh = not self.__sklearn_is_fitted__()
        X = validate_data(self, X, dtype=np.float64, reset=fresh)
        y = _check_y(y, multi_output=True, y_numeric=True, estimator=self).astype(np.float64)
        check_consistent_length(X, y)
        y = y.reshape(len(y), -1)
        if fresh:
            self._begin(X, y)
        if y.shape[1] != self._moments.mean.size - self.n_features_in_:
            expected = self._moments.mean.size - self.n_features_in_
            raise ValueError(f"y has {y.shape[1]} columns, but CCA is fitted with {expected}")
        for block in self._blocks.push(np.hstack([X, y]), None):
            self._moments.add(*block)
        self.n_samples_seen_ += len(X)
        self._solved = None
        return self

    def _begin(self, X: np.ndarray, y: np.ndarray) -> None:
        most = min(X.shape[1], y.shape[1])
        self.n_components_ = integer(self.n_components, "n_components", 1, most)
        width = X.shape[1] + y.shape[1]
        self._moments, self._blocks = Moments(width), Blocks(max(width, 256), width, np.dtype(np.float64))
        self.n_samples_seen_, self.solver_ = 0, "covariance"

    def _solve(self) -> _Model:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CCA is not fitted yet: call fit or partial_fit first")
        if self._solved is None:
            self._solved = self._from(self._moments)
        return self._solved

    def _from(self, moments: Moments) -> _Model:
        held, weights = self._blocks.held
        if len(held):
            moments = moments.copy()
            moments.add(held, weights)
        parts = covariances(moments.scatter / max(moments.weight - 1, 1), self.n_features_in_, self.reg)
        correlations, x_rotations, y_rotations = canonical(*parts, moments.weight)
        # Signs are free: the largest weight of each direction in X is positive.
        columns = np.arange(x_rotations.shape[1])
        signs = np.where(x_rotations[np.argmax(np.abs(x_rotations), axis=0), columns] < 0, -1.0, 1.0)
        kept = slice(self.n_components_)
        return _Model((x_rotations * signs)[:, kept], (y_rotations * signs)[:, kept], correlations[kept], moments.mean)

    def __sklearn_is_fitted__(self) -> bool:
        return "_moments" in self.__dict__

    @property
    def x_rotations_(self) -> np.ndarray:
        """The directions in X, one in a column."""
        return self._solve().x_rotations

    @property
    def y_rotations_(self) -> np.ndarray:
        """The directions in Y, one in a column."""
        return self._solve().y_rotations

    @property
    def correlations_(self) -> np.ndarray:
        """The canonical correlations."""
        return self._solve().correlations

    @property
    def x_mean_(self) -> np.ndarray:
        """The mean row of X."""
        return self._solve().mean[: self.n_features_in_]

    @property
    def y_mean_(self) -> np.ndarray:
        """The mean row of Y."""
        return self._solve().mean[self.n_features_in_ :]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any, y: Any = None) -> Any:
        """The scores of X; with y, the pair of scores."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = (X - self.x_mean_) @ self.x_rotations_
        if y is None:
            return scores
        y = _check_y(y, multi_output=True, y_numeric=True, estimator=self)
        return scores, (y.reshape(len(y), -1) - self.y_mean_) @ self.y_rotations_

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, then the pair of scores."""
        return self.fit(X, y).transform(X, y)

    def score(self, X: Any, y: Any) -> float:
        """The mean correlation of the scores of these rows."""
        first, second = self.transform(X, y)
        first, second = first - first.mean(axis=0), second - second.mean(axis=0)
        products = np.sum(first * second, axis=0)
        lengths = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
        return float(np.mean(products / np.maximum(lengths, np.finfo(float).tiny)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
