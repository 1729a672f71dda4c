"""A problem: a loss, a manifold and data. Its functions (static) are kept apart from its arrays (data)."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _html, _linalg, sampling, sources
from retrax._arguments import real
from retrax._tree import pytree, static
from retrax.manifolds.base import Manifold
from retrax.manifolds.power import Power
from retrax.sources.base import PART_BYTES
from retrax.typing import Array, Batch, Point, Tangent


@dataclasses.dataclass(frozen=True)
class Objective:
    """The functions of a problem; hashable, so that compiled code can be found again."""

    loss: Callable[[Point, Batch], Array]
    manifold: Manifold
    ambient_gradient: Callable[[Point, Batch], Tangent] | None = None
    riemannian_gradient: Callable[[Point, Batch], Tangent] | None = None
    pair: Callable[[Point, Point, Batch], tuple[Tangent, Tangent]] | None = None
    """The gradients at two points, where both together are cheaper: Riemannian where `riemannian_gradient` is given,
    else ambient."""
    sparse: tuple[str, ...] = ()
    """The entries of a batch that name the rows which it depends on, where the point is a table of rows."""

    def gradient(self, x: Point, batch: Batch) -> Tangent:
        """grad f_S(x): given in closed form, or by automatic differentiation of the loss."""
        if self.riemannian_gradient is not None:
            return self.riemannian_gradient(x, batch)
        if self.ambient_gradient is not None:
            return self.manifold.gradient(x, self.ambient_gradient(x, batch))
        return self.manifold.gradient(x, jax.grad(self.loss)(x, batch))

    def gradients(self, x: Point, y: Point, batch: Batch) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y))."""
        if self.pair is None:
            return self.gradient(x, batch), self.gradient(y, batch)
        at_x, at_y = self.pair(x, y, batch)
        if self.riemannian_gradient is not None:
            return at_x, at_y
        return self.manifold.gradient(x, at_x), self.manifold.gradient(y, at_y)


@dataclasses.dataclass(frozen=True)
class BatchOracle:
    """The oracle of `retrax.typing`: an objective and a batch already drawn."""

    objective: Objective
    batch: Batch

    @property
    def size(self) -> int:
        """The number of samples."""
        return sample_count(self.batch)

    def __call__(self, x: Point) -> Tangent:
        """grad f_S(x)."""
        return self.objective.gradient(x, self.batch)

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y))."""
        return self.objective.gradients(x, y, self.batch)

    def parts(self, first: int) -> "tuple[BatchOracle, BatchOracle] | None":
        """The first so many samples, and the rest."""
        if not 0 < first < self.size:
            return None
        return (
            BatchOracle(self.objective, jax.tree.map(lambda a: a[:first], self.batch)),
            BatchOracle(self.objective, jax.tree.map(lambda a: a[first:], self.batch)),
        )

    def or_else(self, condition: Array, other: Any) -> "BatchOracle":
        """This batch where the condition holds, else the other."""
        choose = lambda a, b: _linalg.namespace(a).where(condition, a, b)  # noqa: E731
        return BatchOracle(self.objective, jax.tree.map(choose, self.batch, other.batch))


class Mean(Protocol):
    """F over many samples: what restarts and measuring ask for."""

    @property
    def size(self) -> int:
        """The number of samples."""
        ...

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        ...

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        ...

    def parts(self, first: int) -> "tuple[Mean, Mean] | None":
        """F over the first so many samples, and over the rest; None where they cannot be told apart."""
        ...


class Undivided:
    """Means that know only all their samples together."""

    def parts(self, first: int) -> None:
        """They cannot be told apart."""
        return None


@pytree
class SampleMean:
    """F(x) and grad F(x) as means over samples, computed in chunks so that memory stays bounded.

    Over all of `data`, or over the samples that `indices` names.
    """

    objective: Objective = static()
    chunk: int = static()
    data: Batch
    indices: Array | None = None

    @property
    def size(self) -> int:
        """The number of samples."""
        return sample_count(self.data if self.indices is None else self.indices)

    def __call__(self, x: Point) -> tuple[Array, Tangent]:
        """(F(x), grad F(x))."""
        return self._mean(self._both, x)

    def gradient(self, x: Point) -> Tangent:
        """grad F(x)."""
        return self._mean(self.objective.gradient, x)

    def parts(self, first: int) -> "tuple[SampleMean, SampleMean] | None":
        """F over the first so many samples, and over the rest."""
        if not 0 < first < self.size:
            return None
        field = "data" if self.indices is None else "indices"
        whole = getattr(self, field)
        return (
            dataclasses.replace(self, **{field: jax.tree.map(lambda a: a[:first], whole)}),
            dataclasses.replace(self, **{field: jax.tree.map(lambda a: a[first:], whole)}),
        )

    def samples(self) -> Batch:
        """All of them, as one batch."""
        return self.data if self.indices is None else self._part(0, self.size)

    def _both(self, x: Point, batch: Batch) -> tuple[Array, Tangent]:
        return self.objective.loss(x, batch), self.objective.gradient(x, batch)

    def _part(self, start: Any, size: int) -> Batch:
        if self.indices is None:
            return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, start, size), self.data)
        chosen = jax.lax.dynamic_slice_in_dim(self.indices, start, size)
        return jax.tree.map(lambda a: a[chosen], self.data)

    def _mean(self, function: Callable[[Point, Batch], Any], x: Point) -> Any:
        n = self.size
        size = min(self.chunk, n)
        if size == n:
            return function(x, self.samples())

        def accumulate(total: Any, index: Array) -> tuple[Any, None]:
            return add_trees(total, scale_tree(size / n, function(x, self._part(index * size, size)))), None

        whole, rest = divmod(n, size)
        shapes = jax.eval_shape(function, x, self._part(0, size))
        total = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        total, _ = jax.lax.scan(accumulate, total, jnp.arange(whole))
        if rest:
            total = add_trees(total, scale_tree(rest / n, function(x, self._part(whole * size, rest))))
        return total


@dataclasses.dataclass(frozen=True)
class LargeBatchOracle:
    """The oracle of a restart: a large batch, evaluated in chunks."""

    mean: Mean

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.mean.size

    def __call__(self, x: Point) -> Tangent:
        """grad f_S(x)."""
        return self.mean.gradient(x)

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y))."""
        return self(x), self(y)

    def parts(self, first: int) -> "tuple[LargeBatchOracle, LargeBatchOracle] | None":
        """The first so many samples, and the rest."""
        parts = self.mean.parts(first)
        return None if parts is None else (LargeBatchOracle(parts[0]), LargeBatchOracle(parts[1]))

    def or_else(self, condition: Array, other: Any) -> Any:
        """A restart has no condition."""
        raise NotImplementedError("a large batch starts an estimate; it does not stand in for another")


def add_trees(a: Any, b: Any) -> Any:
    """Leafwise sum, for trees that may mix numbers and arrays."""
    return jax.tree.map(jnp.add, a, b)


def scale_tree(factor: float, a: Any) -> Any:
    """Leafwise product with a number."""
    return jax.tree.map(lambda leaf: factor * leaf, a)


def sample_count(data: Batch) -> int:
    """The length of the leading axis."""
    return int(jax.tree.leaves(data)[0].shape[0])


class Problem:
    """min F(x) = E f(x, ω) over a manifold: a loss, the manifold, and where samples come from.

    `loss(x, batch)` is any JAX function that returns the mean over the samples of the batch (its leading axis).
    The gradient is derived automatically, unless `gradient(x, batch)` (of the ambient space) or
    `riemannian_gradient(x, batch)` is given; `gradients(x, y, batch)` may give both gradients of a pair where that is
    cheaper (Riemannian ones beside `riemannian_gradient`, else of the ambient space). `optimum`, where known, is F's
    smallest value and gives the column "gap".

    `sparse` is for tables of very many rows, as embeddings have, on a `Power(manifold, rows)`. It names the entries of
    the data, a dict, that hold numbers of rows: the loss of a batch depends on the rows that it names there. A step
    reads and writes these only, by calling the loss with a table of just these rows and with their places in it instead
    of their numbers; `retrax.rows.RowByRow` says what becomes of methods that remember something.
    """

    def __init__(
        self,
        loss: Callable[[Point, Batch], Array],
        manifold: Manifold,
        data: Any = None,
        *,
        gradient: Callable[[Point, Batch], Tangent] | None = None,
        riemannian_gradient: Callable[[Point, Batch], Tangent] | None = None,
        gradients: Callable[[Point, Point, Batch], tuple[Tangent, Tangent]] | None = None,
        optimum: float | None = None,
        sparse: Sequence[str] = (),
    ) -> None:
        given = {"gradient": gradient, "riemannian_gradient": riemannian_gradient, "gradients": gradients}
        for name, function in {"loss": loss, **{k: v for k, v in given.items() if v is not None}}.items():
            if not callable(function):
                raise TypeError(f"{name} must be a function of a point and a batch, not {type(function).__name__}")
            try:
                hash(function)
            except TypeError:
                raise TypeError(
                    f"{name} is a {type(function).__name__} without a hash, so its compiled program could not be found "
                    "again; give a function, or make its class a frozen dataclass of numbers"
                ) from None
        if gradient is not None and riemannian_gradient is not None:
            raise ValueError("give gradient (of the ambient space) or riemannian_gradient, not both")
        if not isinstance(manifold, Manifold):
            raise TypeError(
                f"manifold must be a retrax manifold such as retrax.Grassmann(100, 10), not {type(manifold).__name__}"
            )
        if data is None:
            raise TypeError("data is missing: give arrays, a memory-mapped array, or an iterable of batches")
        if isinstance(sparse, str) or not isinstance(sparse, Sequence) or not all(isinstance(n, str) for n in sparse):
            raise TypeError(f"sparse must name entries of the data, as ('rows',), not {sparse!r}")
        if sparse and not (isinstance(manifold, Power) and len(manifold.shape) == 1):
            raise ValueError(
                f"sparse={sparse!r} needs a table of rows, as retrax.Power(manifold, rows), not {manifold}"
            )
        self.objective = Objective(loss, manifold, gradient, riemannian_gradient, gradients, tuple(sparse))
        self.data = data
        self._optimum = None if optimum is None else real(optimum, "optimum")
        self._on_device: dict[str, Batch] = {}

    @property
    def manifold(self) -> Manifold:
        """The manifold."""
        return self.objective.manifold

    @property
    def optimum(self) -> float | None:
        """The smallest value of F, where it is known."""
        return self._optimum

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.manifold}, data={self._data_in_words()})"

    def _repr_html_(self) -> str:
        gradients = (self.objective.ambient_gradient, self.objective.riemannian_gradient)
        rows = {
            "loss": getattr(self.objective.loss, "__name__", type(self.objective.loss).__name__),
            "gradient": "derived automatically" if gradients == (None, None) else "given",
            "manifold": self.manifold,
            "data": self._data_in_words(),
        }
        return _html.page(type(self).__name__, rows)

    def _data_in_words(self) -> str:
        """Shapes and dtypes of arrays; the class of what is not an array."""
        shown = jax.tree.map(
            lambda leaf: f"{leaf.dtype}{list(leaf.shape)}" if hasattr(leaf, "shape") else type(leaf).__name__, self.data
        )
        return str(shown).replace("'", "")

    @functools.cached_property
    def source(self) -> Any:
        """Where samples come from."""
        return sources.as_source(self.data)

    def initial_point(self, seed: int = 0) -> Point:
        """A random point of the manifold in float64, the same for the same seed."""
        generator = sampling.start_generator(seed)
        gaussian = self.manifold.each(lambda m: generator.standard_normal(m.ambient_shape))
        return self.manifold.random_point(gaussian)

    def on_device(self, dtype: str) -> Batch:
        """In-memory data as JAX arrays, floating ones in `dtype`; kept for the next run."""
        if dtype not in self._on_device:
            self._on_device[dtype] = jax.tree.map(lambda a: to_device(a, dtype), self.source.data)
        return self._on_device[dtype]

    def full(self, data: Batch) -> Mean:
        """F and grad F over `data`: called with x it returns both, `.gradient(x)` only the second.

        Problems with a sufficient statistic replace this by something cheaper than a pass over the data.
        """
        return SampleMean(self.objective, chunk_length(data), data)


def to_device(array: Any, dtype: str) -> jax.Array:
    """A JAX array; floating-point arrays are converted to `dtype`, others keep theirs."""
    if isinstance(array, jax.Array) and len(array.sharding.device_set) == 1:
        array = array.addressable_data(0)  # without the mesh: of one device it divides nothing
    if isinstance(array, jax.Array) and array.dtype == dtype:
        return array
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(dtype)
    array = np.asarray(array)
    target = sources.device_dtype(array.dtype, dtype)
    sources.check_range(array, target)
    return jnp.asarray(array, dtype=target)


def chunk_length(data: Batch) -> int:
    """How many samples make up one part."""
    sample_bytes = sum(leaf.nbytes // max(1, leaf.shape[0]) for leaf in jax.tree.leaves(data))
    return max(1, PART_BYTES // max(1, sample_bytes))
