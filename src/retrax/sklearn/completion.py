"""Completion of a matrix of which some entries are known: ratings, for example."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from retrax._arguments import integer
from retrax._completion import RIDGES, WEIGHT, offsets
from retrax.sklearn._arrays import AnyLibrary


class MatrixCompletion(AnyLibrary, RegressorMixin, BaseEstimator):
    """Predict entries (row, column) of a matrix of low rank from those that are known.

    X has two columns, the numbers of a row and of a column, any numbers that name them; y is the entry. The model is
    that of `retrax.problems.MatrixCompletion`: mean + row offset + column offset + (L Rᵀ)_ij, where L Rᵀ, of rank
    `n_components`, minimises Σ (e_ij - (L Rᵀ)_ij)² + reg ‖L Rᵀ‖² over what the offsets leave. Here it is found by
    alternating least squares (Zhou et al. 2008) in plain NumPy. Predictions stay within the range of the known entries;
    a row or column never seen has no offset and no factors.

    Parameters
    ----------
    n_components : int, default=5
        The rank; a matrix with fewer rows or columns has no more than those.
    reg : float, default=0.4
        The weight of an unknown entry, taken as what the offsets give, beside a known one.
    offset_reg : pair of floats, default=(15.0, 10.0)
        The offset of a row, and of a column, is drawn to zero as by so many more entries.
    max_iter : int, default=50
    tol : float, default=1e-3
        Relative change of the objective at which the iteration stops.
    random_state : int, RandomState instance or None, default=None
        For the start.

    Attributes
    ----------
    mean_ : float
    range_ : pair of floats, the smallest and the largest entry known
    row_names_, column_names_ : arrays, the distinct values of X's columns
    row_offsets_, column_offsets_ : arrays
    row_factors_, column_factors_ : arrays of shape (n_rows, n_components), (n_columns, n_components)
    n_iter_ : int
    solver_ : str
        "alternating".
    """

    def __init__(
        self,
        n_components: int = 5,
        *,
        reg: float = WEIGHT,
        offset_reg: tuple[float, float] = RIDGES,
        max_iter: int = 50,
        tol: float = 1e-3,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.reg = reg
        self.offset_reg = offset_reg
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "MatrixCompletion":
        """Learn from the entries y at the places X."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        first, second = self._places(X)
        self._check_parameters()
        self.row_names_, rows = np.unique(first, return_inverse=True)
        self.column_names_, columns = np.unique(second, return_inverse=True)
        shape = len(self.row_names_), len(self.column_names_)
        self.mean_, self.range_ = float(np.mean(y)), (float(np.min(y)), float(np.max(y)))
        rest = y.astype(np.float64) - self.mean_
        self.row_offsets_, self.column_offsets_ = offsets(rows, columns, rest, shape, self.offset_reg)
        rest -= self.row_offsets_[rows] + self.column_offsets_[columns]
        rank = min(self.n_components, *shape)
        start = check_random_state(self.random_state).standard_normal((shape[1], rank))
        self._alternate(rest, (rows, columns), start)
        return self

    def _check_parameters(self) -> None:
        integer(self.n_components, "n_components", 1)
        if not self.reg >= 0:
            raise ValueError(f"reg must be a number from 0 on, not {self.reg!r}")
        if len(self.offset_reg) != 2 or not min(self.offset_reg) >= 0:
            raise ValueError(f"offset_reg must be two numbers from 0 on, for rows and columns, not {self.offset_reg!r}")

    def _alternate(self, rest: np.ndarray, places: tuple[np.ndarray, np.ndarray], right: np.ndarray) -> None:
        """With orthonormal columns in the one factor, ‖L Rᵀ‖ is the norm of the other: an ordinary ridge."""
        shape = len(self.row_names_), len(self.column_names_)
        entries, counts = (sparse.csr_array((one, places), shape=shape) for one in (rest, np.ones(len(rest))))
        transposed, transposed_counts = entries.T.tocsr(), counts.T.tocsr()
        ridge, before = max(self.reg, 1e-12), np.inf
        self.solver_ = "alternating"
        for iteration in range(1, integer(self.max_iter, "max_iter", 1) + 1):
            self.n_iter_ = iteration
            left = np.linalg.qr(_least_squares(entries, counts, np.linalg.qr(right)[0], ridge))[0]
            right = _least_squares(transposed, transposed_counts, left, ridge)
            errors = rest - np.einsum("ij,ij->i", left[places[0]], right[places[1]])
            value = np.sum(errors**2) + ridge * np.sum(right**2)
            settled = before - value <= self.tol * value
            before = value
            if settled:
                break
        else:
            warnings.warn(
                f"MatrixCompletion has not settled after {self.max_iter} iterations; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.row_factors_, self.column_factors_ = left, right

    def predict(self, X: Any) -> np.ndarray:
        """The entries at these places."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        first, second = self._places(X)
        rows, row_known = _numbers(self.row_names_, first)
        columns, column_known = _numbers(self.column_names_, second)
        products = np.einsum("ij,ij->i", self.row_factors_[rows], self.column_factors_[columns])
        known = row_known * self.row_offsets_[rows] + column_known * self.column_offsets_[columns]
        return np.clip(self.mean_ + known + (row_known & column_known) * products, *self.range_)

    def _places(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The names of rows and of columns."""
        if X.shape[1] != 2:
            raise ValueError(f"X must have two columns, the row and the column of each entry, not {X.shape[1]}")
        return X[:, 0], X[:, 1]


def _numbers(names: np.ndarray, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each name stands, and whether it is known."""
    places = np.minimum(np.searchsorted(names, given), len(names) - 1)
    return places, names[places] == given


def _least_squares(entries: Any, counts: Any, factors: np.ndarray, ridge: float) -> np.ndarray:
    """lᵢ = (Σⱼ nᵢⱼ rⱼrⱼᵀ + λI)⁻¹ Σⱼ yᵢⱼ rⱼ for all rows i; the sums are products with sparse matrices."""
    rank = factors.shape[1]
    outer = (factors[:, :, None] * factors[:, None, :]).reshape(len(factors), -1)
    normal = (counts @ outer).reshape(-1, rank, rank) + ridge * np.eye(rank)
    return np.linalg.solve(normal, (entries @ factors)[:, :, None])[:, :, 0]
