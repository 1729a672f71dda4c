"""Joint diagonalization, and the separation of mixed sources that is built on it: SOBI and JADE."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from retrax._arguments import integer
from retrax.sklearn._arrays import AnyLibrary
from retrax.sklearn._contrast import refine
from retrax.sklearn._joint import Diagonalization, FourthMoment, diagonalize
from retrax.sklearn.spd import _ThreeAxes, check_matrices

_MOST_ENTRIES = 2048
"""Up to so many entries of a triangle, that is 63 rows, matrices are summed up in their fourth moment."""
_REFINED = 1e-4
"""The sine at which a refinement has settled."""


def _warn_unless(found: Diagonalization, estimator: BaseEstimator) -> None:
    if not found.converged:
        warnings.warn(
            f"{type(estimator).__name__}: rotations have not settled after {estimator.max_iter} rounds; raise max_iter "
            "or tol. Sources of equal spectra or shape cannot be told apart, and turn on",
            ConvergenceWarning,
            stacklevel=3,
        )


def _positive_largest(rows: np.ndarray) -> np.ndarray:
    """Each row with its largest entry positive: signs are free."""
    return np.sign(rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)])


class JointDiagonalizer(AnyLibrary, TransformerMixin, _ThreeAxes):
    """The orthogonal basis in which symmetric matrices (n_matrices, n_channels, n_channels) are as diagonal as can be.

    Maximizes Σᵢ ‖diag(UᵀXᵢU)‖² by Jacobi rotations in plain NumPy. `partial_fit` sums the matrices' fourth moment up:
    exact, in one pass, in memory that does not grow with their number, for up to 63 channels.

    Parameters
    ----------
    tol : float, default=1e-8
        For the sine of the largest rotation in a sweep.
    max_iter : int, default=100
        Sweeps.

    Attributes
    ----------
    components_ : array of shape (n_channels, n_channels)
        Uᵀ: the basis in its rows, by falling mean diagonal.
    n_iter_ : int
    solver_ : str
        "jacobi".
    """

    _solution: tuple[np.ndarray, int] | None

    def __init__(self, *, tol: float = 1e-8, max_iter: int = 100) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "JointDiagonalizer":
        """Find the basis for X, or for the batches of an iterable."""
        for name in ("_moment", "_solution"):
            self.__dict__.pop(name, None)
        if not hasattr(X, "shape") and not isinstance(X, list | tuple):
            for batch in X:
                self.partial_fit(batch)
            check_is_fitted(self)
            self._solution = self._solve(self._moment.matrices())
            return self
        X = check_matrices(self, X, reset=True)
        weights = self._weights(sample_weight, X)
        summed_up = _entries(X) <= _MOST_ENTRIES
        if summed_up:
            self._add(X, weights)
        else:
            self._sum = np.tensordot(weights, X, axes=1)
        few = not summed_up or len(X) <= _entries(X)
        self._solution = self._solve(X * np.sqrt(weights)[:, None, None] if few else self._moment.matrices())
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "JointDiagonalizer":
        """Go on with more matrices, also after `fit`; the basis is worked out when it is looked at."""
        X = check_matrices(self, X, reset=not self.__sklearn_is_fitted__())
        if _entries(X) > _MOST_ENTRIES:
            raise ValueError(f"partial_fit takes matrices of up to 63 rows, not {X.shape[1]}: use fit on an array")
        self._add(X, self._weights(sample_weight, X))
        self._solution = None
        return self

    def _add(self, X: np.ndarray, weights: np.ndarray) -> None:
        size = X.shape[1]
        if "_moment" not in self.__dict__:
            self._moment, self._sum = FourthMoment(size), np.zeros((size, size))
        self._moment.add(X, weights)
        self._sum = self._sum + np.tensordot(weights, X, axes=1)

    def _solve(self, matrices: np.ndarray) -> tuple[np.ndarray, int]:
        # The eigenvectors of the mean are a better start than any fixed basis, and make the result equivariant.
        total = self._sum
        start = np.linalg.eigh(total)[1]
        found = diagonalize(_turned(matrices, start), self.tol, self.max_iter)
        _warn_unless(found, self)
        basis = start @ found.basis
        order = np.argsort(-np.einsum("ik,ij,jk->k", basis, total, basis), kind="stable")
        rows = basis.T[order]
        self.solver_ = "jacobi"
        return rows * _positive_largest(rows)[:, None], found.sweeps

    def __sklearn_is_fitted__(self) -> bool:
        return "_solution" in self.__dict__

    def _solved(self) -> tuple[np.ndarray, int]:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this JointDiagonalizer is not fitted yet: call fit or partial_fit first")
        if self._solution is None:
            self._solution = self._solve(self._moment.matrices())
        return self._solution

    @property
    def components_(self) -> np.ndarray:
        """Uᵀ; of a stream, worked out when it is looked at."""
        return self._solved()[0]

    @property
    def n_iter_(self) -> int:
        """The number of sweeps."""
        return self._solved()[1]

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        if sample_weight is None:
            return np.ones(len(X))
        return _check_sample_weight(sample_weight, X[:, :, 0], ensure_non_negative=True)

    def transform(self, X: Any) -> np.ndarray:
        """UᵀXU for each matrix."""
        check_is_fitted(self)
        return _turned(check_matrices(self, X, reset=False), self.components_.T)


def _entries(X: np.ndarray) -> int:
    """The number of entries of a triangle."""
    return X.shape[1] * (X.shape[1] + 1) // 2


def _turned(matrices: np.ndarray, basis: np.ndarray) -> np.ndarray:
    turned = basis.T @ matrices @ basis
    return (turned + np.swapaxes(turned, 1, 2)) / 2


class _Separation(AnyLibrary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Whitening, then a rotation that diagonalizes statistics of the whitened signals, which subclasses give."""

    n_components: Any
    tol: float
    max_iter: int

    def _statistics(self, signals: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Any:
        """Separate the columns of X, one row for each time or sample."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.mean_ = X.mean(axis=0)
        whitening = self._whitening(X - self.mean_)
        signals = (X - self.mean_) @ whitening.T
        found = self._rotation(signals)
        _warn_unless(found, self)
        unmixing = found.basis.T @ whitening
        mixing = np.linalg.pinv(unmixing)
        order = np.argsort(-np.sum(mixing**2, axis=0), kind="stable")
        signs = _positive_largest(unmixing[order])
        self.components_, self.mixing_ = unmixing[order] * signs[:, None], mixing[:, order] * signs
        self.n_components_, self.n_iter_ = len(order), found.sweeps
        return self

    def _rotation(self, signals: np.ndarray) -> Diagonalization:
        self.solver_ = "jacobi"
        return diagonalize(self._statistics(signals), self.tol, self.max_iter)

    def _whitening(self, centred: np.ndarray) -> np.ndarray:
        """Λ^(-1/2) Vᵀ of the leading principal directions; those without variance but rounding are left out."""
        values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        values, vectors = values[::-1], vectors[:, ::-1]
        rank = max(1, int(np.sum(values > max(centred.shape) * np.finfo(float).eps * max(values[0], 1e-300))))
        most = min(centred.shape)
        count = rank if self.n_components is None else integer(self.n_components, "n_components", 1, most)
        count = min(count, rank)
        return vectors[:, :count].T / np.sqrt(np.maximum(values[:count], 1e-300))[:, None]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any) -> np.ndarray:
        """The sources, each of unit variance."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return (X - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The signals that these sources make."""
        check_is_fitted(self)
        return np.asarray(X) @ self.mixing_.T + self.mean_


class SOBI(_Separation):
    """Second-order blind identification: sources that differ in their spectra (Belouchrani et al. 1997).

    Jointly diagonalizes covariances of the whitened signals at time lags 1, …, n_lags. Rows of X are successive times.

    Parameters
    ----------
    n_components : int, default=None
        None: as many as the rank of X.
    n_lags : int, default=100
        At most a third of the number of rows is used.
    tol : float, default=1e-8
        For the sine of the largest rotation in a sweep.
    max_iter : int, default=100
        Sweeps.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unmixes: sources are (X - mean_) @ components_.T, by falling energy in X.
    mixing_ : array of shape (n_features, n_components)
    mean_, n_components_, n_iter_, solver_ : array, int, int, str
    """

    def __init__(self, n_components: Any = None, *, n_lags: int = 100, tol: float = 1e-8, max_iter: int = 100) -> None:
        self.n_components = n_components
        self.n_lags = n_lags
        self.tol = tol
        self.max_iter = max_iter

    def _statistics(self, signals: np.ndarray) -> np.ndarray:
        lags = range(1, 1 + max(1, min(integer(self.n_lags, "n_lags", 1), len(signals) // 3)))
        products = [signals[:-lag].T @ signals[lag:] / (len(signals) - lag) for lag in lags]
        return np.stack([(product + product.T) / 2 for product in products])


class JADE(_Separation):
    """Joint approximate diagonalization of eigen-matrices: independent sources that are not Gaussian (Cardoso 1999).

    Jointly diagonalizes the fourth-order cumulant matrices of the whitened signals; the order of rows does not matter.
    The memory grows with n_components⁴.

    Parameters
    ----------
    n_components : int, default=None
        None: as many as the rank of X.
    refine : bool, default=False
        Whether to go on from there. Third-order cumulants, which tell skewed sources apart, are then diagonalized with
        the others (Blaschke & Wiskott 2004), and a fixed-point iteration follows with, for each source, the
        nonlinearity whose error is smallest (Koldovský, Tichavský & Oja 2006), for some passes over X.
    tol : float, default=1e-8
        For the sine of the largest rotation in a sweep; the refinement stops at 1e-4, far below any statistical error.
    max_iter : int, default=100
        Sweeps; also iterations of the refinement.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unmixes: sources are (X - mean_) @ components_.T, by falling energy in X.
    mixing_ : array of shape (n_features, n_components)
    mean_, n_components_, n_iter_ : array, int, int
    solver_ : str
        "jacobi", or "jacobi, fixed-point" with `refine`.
    """

    def __init__(
        self, n_components: Any = None, *, refine: bool = False, tol: float = 1e-8, max_iter: int = 100
    ) -> None:
        self.n_components = n_components
        self.refine = refine
        self.tol = tol
        self.max_iter = max_iter

    def _rotation(self, signals: np.ndarray) -> Diagonalization:
        if not self.refine:
            return super()._rotation(signals)
        # Negentropy is κ₃²/12 + κ₄²/48 (Comon 1994): in squares, third cumulants count four times.
        statistics = np.concatenate([self._statistics(signals), 2 * self._third_cumulants(signals)])
        start = diagonalize(statistics, self.tol, self.max_iter)
        found = refine(signals, start.basis.T, max(self.tol, _REFINED), self.max_iter)
        self.solver_ = "jacobi, fixed-point"
        return Diagonalization(found.unmixing.T, start.sweeps + found.iterations, start.converged and found.converged)

    def _third_cumulants(self, signals: np.ndarray) -> np.ndarray:
        """E[zᵢ zzᵀ] for each i."""
        return np.stack([(signals * one[:, None]).T @ signals / len(signals) for one in signals.T])

    def _statistics(self, signals: np.ndarray) -> np.ndarray:
        """√w (E[zᵢzⱼ zzᵀ] - δᵢⱼ I - eᵢeⱼᵀ - eⱼeᵢᵀ) for i ≤ j, with w = 2 for i < j, which stands for (j, i) too."""
        size = signals.shape[1]
        rows, columns = np.triu_indices(size)
        moment = np.zeros((len(rows), len(rows)))
        step = max(1, 2**21 // len(rows))
        for start in range(0, len(signals), step):
            part = signals[start : start + step]
            products = part[:, rows] * part[:, columns]
            moment += products.T @ products
        cumulants = np.zeros((len(rows), size, size))
        cumulants[:, rows, columns] = cumulants[:, columns, rows] = moment / len(signals)
        pairs, identity = np.arange(len(rows)), np.eye(size)
        cumulants[rows == columns] -= identity
        np.subtract.at(cumulants, (pairs, rows, columns), 1)
        np.subtract.at(cumulants, (pairs, columns, rows), 1)
        return cumulants * np.where(rows == columns, 1, np.sqrt(2))[:, None, None]
