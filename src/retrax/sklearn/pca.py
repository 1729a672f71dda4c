"""Principal component analysis for arrays, files and streams, in one pass."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from retrax._arguments import integer
from retrax._moments import Moments
from retrax.sklearn._arrays import AnyLibrary
from retrax.sklearn._streams import Blocks, is_stream, rows_of
from retrax.sklearn._subspace import Subspace

SOLVERS = ("auto", "svd", "covariance", "rsrm")
_ALWAYS_COVARIANCE, _MOST_COVARIANCE, _COLUMNS_PER_COMPONENT = 1024, 4096, 64
_FEW_ROWS = 2048


class _Model(NamedTuple):
    """What was learned, at one time."""

    components: np.ndarray
    variance: np.ndarray
    ratio: np.ndarray
    noise: float
    mean: np.ndarray


class PCA(AnyLibrary, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of data of any size, read once.

    `fit` takes an array, a memory-mapped file, an iterable of batches or a data loader (of which a batch is its rows,
    or a tuple that begins with them). `partial_fit` goes on where the last call ended; rows may come in any number, and
    how they are divided over calls makes no difference. The mean is found on the way.

    Parameters
    ----------
    n_components : int, default=None
        None: all directions along which the data vary.
    whiten : bool, default=False
        Scale the components to unit variance.
    solver : {"auto", "svd", "covariance", "rsrm"}, default="auto"
        "svd" decomposes an array as it is. "covariance" sums up the d×d covariance in one pass and solves its
        eigenproblem: exact. "rsrm" is the untuned stochastic method on the Grassmann manifold, one pass in memory of
        order d·n_components, for rows in random order. "auto": "svd" for arrays of at most 2048 rows, fewer than
        columns; "covariance" with up to 1024 columns, or up to 64 for each component and 4096 at all; else "rsrm".
    random_state : int, RandomState instance or None, default=None
        For "rsrm"; the others draw nothing.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_, noise_variance_ : array, float
        As in `sklearn.decomposition.PCA`; so are n_components_, n_features_in_ and feature_names_in_.
    n_samples_seen_ : int
        Rows since the last `fit`, or in all calls of `partial_fit`.
    solver_ : str
        The one that was used.
    """

    _solved: _Model | None
    _dtype: np.dtype

    def __init__(
        self, n_components: Any = None, *, whiten: bool = False, solver: str = "auto", random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self.solver = solver
        self.random_state = random_state

    # --- learning ---------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "PCA":
        """Learn from X alone. `sample_weight` counts each row so many times."""
        for name in ("_engine", "_blocks", "_solved"):
            self.__dict__.pop(name, None)
        self._learn(X, sample_weight, None if is_stream(X) else X, reset=True)
        self._solve()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "PCA":
        """Learn from more rows, also after `fit`; what is learned is worked out when it is first looked at."""
        if self.__sklearn_is_fitted__() and self.solver_ == "svd":
            self._leave_svd()
        self._learn(X, sample_weight, None, reset="_engine" not in self.__dict__)
        return self

    def _learn(self, X: Any, sample_weight: Any, whole: Any, *, reset: bool) -> None:
        for rows, weights in rows_of(self, X, sample_weight, reset=reset):
            if reset:
                self._begin(rows, _count(whole, sample_weight), sample_weight is None, _dtype_of(whole, rows))
                reset = False
            for block, block_weights in self._blocks.push(rows, weights):
                self._engine.add(block, block_weights)
            self.n_samples_seen_ += len(rows)
            self._solved = None

    def _begin(self, rows: np.ndarray, total: int | None, plain: bool, dtype: np.dtype) -> None:
        width = rows.shape[1]
        most = width if total is None else min(width, total)
        self._most = most if self.n_components is None else integer(self.n_components, "n_components", 1, most)
        self.solver_ = self._choose(width, total, plain)
        self.n_samples_seen_ = 0
        self._dtype = dtype
        if self.solver_ == "rsrm":
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._engine: Any = Subspace(width, self._most, rows.dtype, seed)
            length = self._engine.block_length
        else:
            # "svd" holds everything, and solves when the results are asked for.
            self._engine = Moments(width)
            length = max(width, 256) if self.solver_ == "covariance" else max(total or 1, 1)
        self._blocks = Blocks(length + (self.solver_ == "svd"), width, rows.dtype)

    def _leave_svd(self) -> None:
        """Rows come to those that were decomposed: from now on they are summed up."""
        (held, weights), seen = self._blocks.held, self.n_samples_seen_
        if self.solver == "svd":
            raise ValueError('solver="svd" decomposes one array: for partial_fit take "auto", "covariance" or "rsrm"')
        self._begin(held, None, True, self._dtype)
        for block in self._blocks.push(held, weights):
            self._engine.add(*block)
        self.n_samples_seen_ = seen

    def _choose(self, width: int, total: int | None, plain: bool) -> str:
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, not {self.solver!r}")
        if self.solver == "rsrm" and self.n_components is None:
            raise ValueError('solver="rsrm" finds a given number of components: set n_components, or take "covariance"')
        if self.solver == "svd" and (total is None or not plain):
            raise ValueError(
                'solver="svd" needs fit(X) with an array and without sample_weight; take "covariance", "rsrm" or "auto"'
            )
        if self.solver != "auto":
            return self.solver
        if plain and total is not None and total < width and total <= _FEW_ROWS:
            return "svd"
        if self.n_components is None:
            return "covariance"
        enough = min(_MOST_COVARIANCE, _COLUMNS_PER_COMPONENT * self._most)
        return "covariance" if width <= max(_ALWAYS_COVARIANCE, enough) else "rsrm"

    # --- what was learned -------------------------------------------------------------------------------------------

    def _solve(self) -> _Model:
        """The model that the rows so far give; rows that wait for a full block are counted in, and go on waiting."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit or partial_fit first")
        if self._solved is None:
            self._solved = self._from_subspace() if self.solver_ == "rsrm" else self._from_moments()
        return self._solved

    def _from_moments(self) -> _Model:
        held, weights = self._blocks.held
        if self.solver_ == "svd":
            return self._from_rows(held, weights)
        moments = self._engine
        if len(held):
            moments = moments.copy()
            moments.add(held, weights)
        values, vectors = np.linalg.eigh(moments.scatter)
        leading = slice(None, -self._most - 1, -1)
        return self._model(vectors.T[leading], values[leading], moments)

    def _from_rows(self, rows: np.ndarray, weights: np.ndarray) -> _Model:
        moments = Moments(rows.shape[1], full=False)
        moments.add(rows, weights)
        centred = (rows - moments.mean) * np.sqrt(weights)[:, None]
        _, values, vectors = np.linalg.svd(centred, full_matrices=False)
        return self._model(vectors[: self._most], values[: self._most] ** 2, moments)

    def _from_subspace(self) -> _Model:
        engine, (held, weights) = self._engine, self._blocks.held
        if engine.blocks == 0:
            return self._from_rows(held, weights)
        moments = engine.moments
        if len(held):
            moments = moments.copy()
            moments.add(held, weights)
        values, turn = np.linalg.eigh(engine.projected)
        vectors = np.linalg.qr(engine.basis)[0] @ turn[:, ::-1]
        return self._model(vectors.T, values[::-1] * (moments.weight - 1), moments)

    def _model(self, components: np.ndarray, scatter: np.ndarray, moments: Moments) -> _Model:
        """Signs as scikit-learn has them, the largest entry of a component positive, and the rest of the variance."""
        if self.n_components is None:
            # What has no variance but rounding is no direction of the data.
            floor = scatter[0] * max(len(moments.mean), moments.weight) * np.finfo(self._blocks.dtype).eps
            kept = max(1, int(np.sum(scatter > floor)))
            components, scatter = components[:kept], scatter[:kept]
        largest = np.argmax(np.abs(components), axis=1)
        signs = np.sign(components[np.arange(len(components)), largest])
        degrees = max(moments.weight - 1, 1)
        variance = np.maximum(scatter, 0) / degrees
        total = moments.trace / degrees
        missing = int(min(len(moments.mean), max(moments.weight, 1))) - len(components)
        noise = max(total - variance.sum(), 0.0) / missing if missing > 0 else 0.0
        ratio = variance / total if total > 0 else np.zeros_like(variance)
        arrays = [components * signs[:, None], variance, ratio, moments.mean]
        first, second, third, mean = (array.astype(self._dtype) for array in arrays)
        return _Model(first, second, third, float(noise), mean)

    def __sklearn_is_fitted__(self) -> bool:
        return "_engine" in self.__dict__

    @property
    def components_(self) -> np.ndarray:
        """The directions, one in a row, by falling variance."""
        return self._solve().components

    @property
    def explained_variance_(self) -> np.ndarray:
        """The variance along each component, with n-1 degrees of freedom."""
        return self._solve().variance

    @property
    def explained_variance_ratio_(self) -> np.ndarray:
        """The part of the whole variance that each component has."""
        return self._solve().ratio

    @property
    def singular_values_(self) -> np.ndarray:
        """Those of the centred data."""
        return np.sqrt(self._solve().variance * max(self.n_samples_seen_ - 1, 1))

    @property
    def mean_(self) -> np.ndarray:
        """The mean row."""
        return self._solve().mean

    @property
    def noise_variance_(self) -> float:
        """The mean variance of the directions left out (Tipping & Bishop 1999)."""
        return self._solve().noise

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return len(self._solve().variance) if self.n_components is None else self._most

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    # --- using it ---------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> np.ndarray:
        """The coordinates of rows along the components."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        model = self._solve()
        scores = X @ model.components.T.astype(X.dtype, copy=False)
        scores -= (model.mean @ model.components.T).astype(X.dtype, copy=False)
        return scores / self._scale(model).astype(X.dtype, copy=False) if self.whiten else scores

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The rows whose coordinates these are."""
        check_is_fitted(self)
        model = self._solve()
        scores = np.asarray(X)
        return (scores * self._scale(model) if self.whiten else scores) @ model.components + model.mean

    def _scale(self, model: _Model) -> np.ndarray:
        scale = np.sqrt(model.variance)
        return np.maximum(scale, np.finfo(scale.dtype).eps)

    def get_covariance(self) -> np.ndarray:
        """Σ = Vᵀ (Λ - σ²I) V + σ²I, the covariance of the probabilistic model."""
        model = self._solve()
        excess = np.maximum(model.variance - model.noise, 0)
        covariance = (model.components.T * excess) @ model.components
        covariance.flat[:: len(covariance) + 1] += model.noise
        return covariance

    def get_precision(self) -> np.ndarray:
        """Σ⁻¹; with noise_variance_ = 0, the inverse of the covariance as it is."""
        model = self._solve()
        if self.n_components_ == self.n_features_in_ or model.noise == 0:
            return np.linalg.inv(self.get_covariance())
        shrink = 1 / np.maximum(model.variance, model.noise) - 1 / model.noise
        precision = (model.components.T * shrink) @ model.components
        precision.flat[:: len(precision) + 1] += 1 / model.noise
        return precision

    def score_samples(self, X: Any) -> np.ndarray:
        """The log-likelihood of each row under the probabilistic model (Bishop 2006, eq. 12.43)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        centred, precision = X - self.mean_, self.get_precision()
        distances = np.einsum("ij,ij->i", centred @ precision, centred)
        logarithm = np.linalg.slogdet(precision)[1]
        return (logarithm - self.n_features_in_ * np.log(2 * np.pi) - distances) / 2

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _count(whole: Any, sample_weight: Any) -> int | None:
    """The number of rows of an array, each as often as its weight says; None for streams."""
    if whole is None:
        return None
    if sample_weight is not None:
        weights = np.asarray(sample_weight)
        return int(weights.sum() if weights.ndim else weights * len(np.asarray(whole)))
    return len(whole) if hasattr(whole, "shape") else len(np.asarray(whole))


def _dtype_of(whole: Any, rows: np.ndarray) -> np.dtype:
    """Single precision where the data came in it; rows of small integers are only computed with in it."""
    given = getattr(whole, "dtype", rows.dtype)
    return np.dtype(np.float32 if given == np.float32 else np.float64)
