"""Estimators of matrices as estimators of rows, so that scikit-learn's checks, which only make rows, run on them."""

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from retrax.sklearn import JointDiagonalizer, MinimumDistanceToMean, SPDMean, TangentSpace


def diagonal(X):
    """Rows as diagonal matrices exp(x / 4): affine-invariant distances are then Euclidean ones."""
    values = np.exp(np.clip(X, -60, 60) / 4)
    return values[:, :, None] * np.eye(X.shape[1])


def of_rows(base):
    """A subclass of `base` that takes rows and makes matrices of them."""

    class OfRows(base):
        def _matrices(self, X, y=None, reset=False):
            if y is None:
                return diagonal(validate_data(self, X, dtype=np.float64, reset=reset)), None
            X, y = validate_data(self, X, y, dtype=np.float64, reset=reset)
            return diagonal(X), y

        def fit(self, X, y=None, sample_weight=None):
            X, y = self._matrices(X, _labels(self, y), reset=True)
            arguments = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
            return self._keeping_names(super().fit, X, **arguments)

        def _keeping_names(self, learn, X, **arguments):
            names = self.__dict__.get("feature_names_in_")
            learn(X, **arguments)
            if names is not None:
                self.feature_names_in_ = names
            return self

        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
            return tags

    OfRows.__name__ = OfRows.__qualname__ = f"{base.__name__}OfRows"
    for name in ("transform", "predict", "predict_proba"):
        if hasattr(base, name):
            setattr(OfRows, name, _on_rows(base, name))
    if hasattr(base, "partial_fit"):
        OfRows.partial_fit = _partial_fit(base)
    return OfRows


def _labels(estimator, y):
    return y if estimator.__sklearn_tags__().target_tags.required else None


def _on_rows(base, name):
    def method(self, X):
        check_is_fitted(self)
        # By the class itself: its other methods may call this one with matrices.
        X = X if isinstance(X, np.ndarray) and X.ndim == 3 else self._matrices(X)[0]
        return getattr(base, name)(self, X)

    method.__name__ = name
    return method


def _partial_fit(base):
    def partial_fit(self, X, y=None, classes=None):
        fresh = not self.__sklearn_is_fitted__()
        X, y = self._matrices(X, _labels(self, y), reset=fresh)
        arguments = {"y": y} if classes is None else {"y": y, "classes": classes}
        return self._keeping_names(super(type(self), self).partial_fit, X, **arguments)

    return partial_fit


# Under names of their own, by which pickle finds them.
SPDMeanOfRows, TangentSpaceOfRows = of_rows(SPDMean), of_rows(TangentSpace)
JointDiagonalizerOfRows = of_rows(JointDiagonalizer)
MinimumDistanceToMeanOfRows = of_rows(MinimumDistanceToMean)
