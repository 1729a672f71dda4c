"""Steps in the span of what they start from: two passes over the long axis, and everything else small.

On manifolds of d×r matrices a step of RSRM begins at y and d and sees a batch B. Projections, transports, retractions
and the gradients of many losses only ever form combinations y C₁ + d C₂ + Bᵀ C₃ of these, and inner products of such
combinations. So a program written for d×r matrices can be run on their small coefficients C instead: inner products
follow from the Gram matrices of y, d and B, found in one pass, and one more pass forms the new point and direction.
`in_span` does this to any program. Where a program does something else to a long matrix it raises `OutOfSpanError`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from retrax.typing import Array

LEAST_LENGTH, LEAST_LENGTH_OF_PAIRS = 3, 2
"""A long axis has at least so many times the columns of the basis; less where samples are evaluated at two points, for
which a span takes no more products and other steps take twice as many."""

BLOCK = 2**13
"""So many columns of a very long axis are taken at once: what is made of them stays in the processor's cache."""

LONGEST_SUM = 128
"""Of longer ones XLA makes no tiles in a kernel."""

LEAST_BLOCKS = 16
"""A very long axis has at least so many blocks."""


def is_worth_it(length: int, rank: int, matrices: int, samples: int, of_pairs: bool) -> bool:
    """Whether two passes over so many d×r matrices and a batch beat the operations one by one.

    A method may ask for the inner products of all samples: where these are many, they would cost the most.
    """
    least = LEAST_LENGTH_OF_PAIRS if of_pairs else LEAST_LENGTH
    return samples <= max(16, 4 * rank) and length >= least * (matrices * rank + samples)


Grams = Callable[[int, int], Array]
"""Vᵢᵀ Vⱼ, by the numbers of two basis matrices."""


class OutOfSpanError(Exception):
    """A program does to a long matrix what its coefficients do not tell."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tall:
    """Σᵢ Vᵢ Cᵢ, of d×m, or its transpose; the basis matrices Vᵢ stand in nobody's program."""

    parts: dict[int, Array]
    """Cᵢ, or a number c for c I."""
    columns: int
    turned: bool = False
    """Whether the program means the transpose."""

    @property
    def long_axis(self) -> int:
        """Where the program sees the axis of length d."""
        return 1 if self.turned else 0

    def each(self, function: Callable[[Array], Array], columns: int | None = None) -> "Tall":
        """With `function` applied to the coefficients."""
        changed = {i: function(part) for i, part in self.parts.items()}
        return Tall(changed, self.columns if columns is None else columns, self.turned)

    def matrices(self, sizes: Sequence[int]) -> dict[int, Array]:
        """The coefficients of each basis matrix, of so many columns, all as matrices."""
        return {i: as_matrix(self.parts[i], size, self.columns) for i, size in enumerate(sizes) if i in self.parts}


@dataclasses.dataclass(frozen=True)
class Filled:
    """A number, or a vector along one axis, repeated over an array: `broadcast_in_dim`, not yet carried out."""

    values: Array
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def array(self) -> Array:
        """Carried out."""
        return jax.lax.broadcast_in_dim(self.values, self.shape, self.axes)


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """a ∘ b entry by entry, of which only sums along the long axis are known."""

    a: Tall
    b: Tall


def as_matrix(part: Array, rows: int, columns: int) -> Array:
    return part if jnp.ndim(part) == 2 else part * jnp.eye(rows, columns)


def in_span(function: Callable[..., Any], basis: Sequence[Any], others: Any, grams: Grams) -> Any:
    """`function(basis, others)` on coefficients, for abstract matrices `basis`; long results are `Tall`.

    A matrix with the long axis first is a basis matrix, one with the long axis last, as samples have, the transpose of
    one.
    """
    program, shapes = jax.make_jaxpr(function, return_shape=True)(basis, others)
    refuse_effects(program)
    sizes = [min(one.shape) for one in basis]
    arguments = [
        Tall({i: jnp.ones((), one.dtype)}, min(one.shape), turned=one.shape[0] < one.shape[1])
        for i, one in enumerate(basis)
    ]
    results = Interpreter(max(basis[0].shape), sizes, grams).run(
        program.jaxpr, program.consts, [*arguments, *jax.tree.leaves(others)]
    )
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


Pairs = Sequence[tuple[int, int]]
"""Of basis matrices, by their numbers."""


@dataclasses.dataclass(frozen=True)
class Passes:
    """The two passes of a step over a long axis, from yᵀ, vᵀ and a batch, with m = y - size v."""

    inner_products: Callable[[Array, Array], Array]
    """Of all rows of two matrices."""
    in_blocks: bool
    """Whether a very long axis is taken block by block."""
    along: Callable[..., Any]
    """Does `function(*matrices)`, which returns sums and columns, on the columns that each device has (`devices`)."""

    def squared_lengths(self, vector: Array) -> Array:
        """Of its rows."""

        def local(vector: Array) -> tuple[Array, tuple[()]]:
            return (_lengths_in_blocks if self._is_very_long(vector) else _squared_lengths)(vector), ()

        return self.along(local, vector)[0]

    def products(self, asked: Pairs, *matrices: Array) -> tuple[Array, dict[tuple[int, int], Array]]:
        """mᵀ(m, v, b), and the inner products of those pairs of m, v and b that are asked for besides."""

        def local(*matrices: Array) -> tuple[Any, tuple[()]]:
            products = _products_in_blocks if self._is_very_long(matrices[0]) else _products
            return products(self.inner_products, asked, *matrices), ()

        return self.along(local, *matrices)[0]

    def combinations(self, factors: tuple[Array, Array], *matrices: Array) -> tuple[Array, tuple[Array, Array]]:
        """Two combinations of m, v and b, given the transposes of their coefficients for the first few of these.

        Before them the squared lengths of the second one's rows.
        """

        def local(first: Array, second: Array, *matrices: Array) -> Any:
            combinations = _combinations_in_blocks if self._is_very_long(matrices[0]) else _combinations
            return combinations((first, second), *matrices)

        return self.along(local, *factors, *matrices)

    def _is_very_long(self, rows: Array) -> bool:
        return self.in_blocks and rows.shape[1] >= LEAST_BLOCKS * BLOCK


def step(
    function: Callable[..., Any],
    pair: tuple[Array, Array],
    lengths: Array,
    size: Array,
    batch: Array,
    others: Any,
    most: float,
    in_one_kernel: Any,
    passes: Passes,
) -> tuple[tuple[Array, Array], Array, Array, Any]:
    """One step: `function((m, v, batch), (size, others))` returns ((x, v), size, others) for the next.

    `pair` is yᵀ and vᵀ, `lengths` are the squared ones of v's columns. The function sees m = y - size v instead of y:
    the retraction begins there, so that x is a combination of m alone, and hardly any step asks for vᵀv. `size` is cut
    so that no column of size v is longer than `most`. One pass finds the inner products, one forms the results.
    """
    (rank, length), dtype = pair[0].shape, batch.dtype
    sizes = (rank, rank, batch.shape[0])
    basis = [jax.ShapeDtypeStruct(shape, dtype) for shape in ((length, rank),) * 2 + (batch.shape,)]
    longest = size * jnp.sqrt(jnp.max(lengths))
    size = jnp.where(longest > most, size * (most / longest), size)

    ends = np.cumsum(sizes)

    def small(size: Array, others: Any, of_m: Array, besides: dict[tuple[int, int], Array]) -> tuple[Any, Array, Any]:
        """The transposed coefficients of the results, and the next size and others."""

        def grams(i: int, j: int) -> Array:
            if i > j:
                return grams(j, i).T
            return besides[i, j] if i else of_m[:, ends[j] - sizes[j] : ends[j]]

        long, new, others = in_span(function, basis, (size, others), grams)
        return tuple(_transposed(one, sizes) for one in long), new, others

    pairs = [(1, 1), (1, 2), (2, 2)]
    abstract = {(i, j): jax.ShapeDtypeStruct((sizes[i], sizes[j]), dtype) for i, j in pairs}
    of_m = jax.ShapeDtypeStruct((rank, ends[-1]), dtype)
    program, form = jax.make_jaxpr(small, return_shape=True)(size, others, of_m, abstract)
    used = {id(atom) for equation in needed(program.jaxpr) for atom in equation.invars}
    asked = [pair for pair, atom in zip(pairs, program.jaxpr.invars[-len(pairs) :], strict=True) if id(atom) in used]

    def run(size: Array, others: Any, found: tuple[Array, dict[tuple[int, int], Array]]) -> tuple[Any, Array, Any]:
        besides = {pair: found[1].get(pair, jnp.zeros(one.shape, one.dtype)) for pair, one in abstract.items()}
        results = jaxpr_as_fun(program)(*jax.tree.leaves((size, others, found[0], besides)))
        return jax.tree.unflatten(jax.tree.structure(form), results)

    matrices = (*pair, batch, size)
    # The barrier: inside a kernel the compiler would divide the products again.
    found = jax.lax.optimization_barrier(passes.products(asked, *matrices))
    factors, new, rest = in_one_kernel(run, size, others, found)
    # Transposed in memory: the product with columns would take twice as long.
    lengths, pair = passes.combinations(jax.lax.optimization_barrier(factors), *matrices)
    return pair, lengths, new, rest


def _transposed(tall: Tall, sizes: Sequence[int]) -> Array:
    """The coefficients of the first few matrices of the basis, up to the last one that is needed."""
    given = tall.matrices(sizes)
    dtype = given[max(given)].dtype
    return jnp.concatenate(
        [given[i] if i in given else jnp.zeros((sizes[i], tall.columns), dtype) for i in range(max(given) + 1)]
    ).T


def _squared_lengths(vector: Array) -> Array:
    """A sum along the rows would be one of scalars, and take ten times as long."""
    return (vector * vector) @ jnp.ones((vector.shape[1], 1), vector.dtype)


def _basis(point: Array, vector: Array, batch: Array, size: Array) -> tuple[Array, Array]:
    """The rows of m, and those of m, v and the batch."""
    moved = point - size * vector
    return moved, jnp.concatenate([moved, vector, batch])


def _products(inner_products: Callable[[Array, Array], Array], asked: Pairs, *matrices: Array) -> Any:
    moved, everything = _basis(*matrices)
    basis = moved, *matrices[1:3]
    return inner_products(moved, everything), {(i, j): inner_products(basis[i], basis[j]) for i, j in asked}


def _combinations(factors: tuple[Array, Array], *matrices: Array) -> tuple[Array, tuple[Array, Array]]:
    moved, everything = _basis(*matrices)
    first, second = (f @ (moved if f.shape[1] == len(moved) else everything[: f.shape[1]]) for f in factors)
    return _squared_lengths(second), (first, second)


def _products_in_blocks(inner_products: Callable[[Array, Array], Array], asked: Pairs, *matrices: Array) -> Any:
    """The same, summed over blocks.

    The library of products copies its operand as a whole. Of a very long one that is memory which the system hands out
    and takes back in each step, at several times the cost of the product.
    """

    *long, size = matrices

    def added(total: Any, columns: Callable[[Array], Array], _: Any) -> Any:
        return jax.tree.map(jnp.add, total, _products(inner_products, asked, *map(columns, long), size))

    shapes = jax.eval_shape(lambda *given: _products(inner_products, asked, *given), *matrices)
    nothing = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)
    return _over_blocks(added, nothing, long[0].shape[1])


def _combinations_in_blocks(factors: tuple[Array, Array], *matrices: Array) -> tuple[Array, tuple[Array, Array]]:
    """The same, written over the point and the vector block by block: no other arrays are held."""
    point, vector, batch, size = matrices

    def replaced(carry: Any, columns: Callable[[Array], Array], start: Any) -> Any:
        total, pair = carry
        lengths, blocks = _combinations(factors, *map(columns, (*pair, batch)), size)
        return total + lengths, tuple(
            jax.lax.dynamic_update_slice_in_dim(one, block, start, axis=1)
            for one, block in zip(pair, blocks, strict=True)
        )

    nothing = jnp.zeros((vector.shape[0], 1), vector.dtype)
    return _over_blocks(replaced, (nothing, (point, vector)), point.shape[1])


def _lengths_in_blocks(vector: Array) -> Array:
    def added(total: Array, columns: Callable[[Array], Array], _: Any) -> Array:
        return total + _squared_lengths(columns(vector))

    return _over_blocks(added, jnp.zeros((vector.shape[0], 1), vector.dtype), vector.shape[1])


def _over_blocks(function: Callable[[Any, Callable[[Array], Array], Any], Any], carry: Any, length: int) -> Any:
    """`function(carry, columns, start)` for one block after another; `columns(a)` is the block of a."""

    def at(carry: Any, start: Any, size: int) -> Any:
        return function(carry, lambda a: jax.lax.dynamic_slice_in_dim(a, start, size, axis=1), start)

    blocks, rest = divmod(length, BLOCK)
    carry = jax.lax.fori_loop(0, blocks, lambda k, carry: at(carry, k * BLOCK, BLOCK), carry)
    return at(carry, blocks * BLOCK, rest) if rest else carry


def by_rows(a: Array, b: Array) -> Array:
    """a bᵀ for XLA's library of products, which reads rows: a transpose in the program would be copied first."""
    return jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())))


def by_columns(a: Array, b: Array) -> Array:
    """a bᵀ for a kernel, whose own products read b by columns; of rows they would take one after another."""
    parts = -(-a.shape[1] // LONGEST_SUM)
    pieces = zip(jnp.array_split(a, parts, axis=1), jnp.array_split(b, parts, axis=1), strict=True)
    return sum(left @ right.T for left, right in pieces)


class Matrices(Protocol):
    """The long matrices themselves, for what coefficients do not tell."""

    def formed(self, tall: Tall) -> Array:
        """The transpose of a combination of them."""
        ...

    def joined(self, rows: Array, turned: bool) -> Tall:
        """A new one, by its transpose."""
        ...


class Interpreter:
    """Runs programs whose values are arrays, `Tall`, `Filled` or `Product`.

    Where coefficients do not tell the result of an operation, it is done on the matrices, if these are given.
    """

    def __init__(self, length: int, sizes: Sequence[int], grams: Grams, matrices: Matrices | None = None) -> None:
        self.length, self.sizes, self.grams, self.matrices = length, sizes, grams, matrices
        self._products: dict[Product, Tall] = {}

    def run(self, program: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        known: dict[Any, Any] = dict(zip([*program.constvars, *program.invars], [*constants, *arguments], strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in needed(program):
            operands = [value(atom) for atom in equation.invars]
            with equation.ctx.manager:
                results = self._apply(equation, operands)
            known |= dict(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in program.outvars]

    def _apply(self, equation: Any, operands: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name == "broadcast_in_dim" and _is_repeated(equation) and not isinstance(operands[0], Tall | Product):
            return [_repeated(_filled(operands[0]), **equation.params)]
        if not any(isinstance(one, Tall | Product) for one in operands) and name not in _WITH_RULES:
            found = equation.primitive.bind(*map(_filled, operands), **equation.params)
            return list(found) if equation.primitive.multiple_results else [found]
        inner = equation.params["jaxpr"] if name in _CALLS else without_rules(equation)
        if inner is not None:
            return self.run(inner.jaxpr, inner.consts, operands)
        if name == "optimization_barrier" and self.matrices is not None:
            return [self._formed(one) for one in operands]
        if self.matrices is not None and name != "reduce_sum":
            operands = [self._settled(one) if isinstance(one, Product) else one for one in operands]
        if name in _ENTRY_BY_ENTRY:
            operands = [self._as_repeated(one, equation.outvars[0].aval.shape) for one in operands]
        rule = getattr(self, f"_{name}", None)
        found = None if rule is None else rule(equation.params, *operands)
        return self._on_matrices(equation, operands) if found is None else [found]

    def _as_repeated(self, one: Any, shape: tuple[int, ...]) -> Any:
        """A matrix of one row or column beside a larger one, which an operation repeats by itself."""
        if isinstance(one, Tall):
            return self._widened(one, shape[1 - one.long_axis])
        if isinstance(one, Filled):
            return dataclasses.replace(one, shape=shape)
        small = not isinstance(one, Product) and jnp.ndim(one) == 2 and one.shape != shape
        return _repeated(one, shape, (0, 1)) if small else one

    def _widened(self, a: Tall, columns: int) -> Tall:
        """With its only column repeated."""
        if a.columns == columns:
            return a
        parts = {i: jnp.broadcast_to(part, (self.sizes[i], columns)) for i, part in a.matrices(self.sizes).items()}
        return Tall(parts, columns, a.turned)

    def _on_matrices(self, equation: Any, operands: list[Any]) -> list[Any]:
        """The operation itself; a long matrix that it finds is a new one of the basis."""
        if self.matrices is None:
            raise OutOfSpanError(equation.primitive.name)
        talls = [one for one in operands if isinstance(one, Tall)]
        turned = talls[0].turned
        if equation.primitive.name in _ENTRY_BY_ENTRY and all(one.turned == turned for one in talls):
            # Entry by entry it is all the same which way round, and along the long axis it is quicker.
            rows = equation.primitive.bind(*(self._rows(one, turned) for one in operands), **equation.params)
            return [self.matrices.joined(rows, turned)]
        found = equation.primitive.bind(*map(self._array, operands), **equation.params)
        return [self._joined(one) for one in (found if equation.primitive.multiple_results else [found])]

    def _rows(self, one: Any, turned: bool) -> Any:
        """As it is in a program of transposes; `turned`: where the program itself is one."""
        if isinstance(one, Tall):
            return cast(Matrices, self.matrices).formed(one)
        if isinstance(one, Filled) and not turned:
            return jax.lax.broadcast_in_dim(one.values, one.shape[::-1], tuple(1 - axis for axis in one.axes))
        return _filled(one) if turned or jnp.ndim(one) < 2 else one.T

    def _array(self, one: Any) -> Any:
        """As the program sees it."""
        if not isinstance(one, Tall):
            return _filled(one)
        rows = self._rows(one, one.turned)
        return rows if one.turned else rows.T

    def _settled(self, product: Product) -> Tall:
        """A product of which more is asked than sums, as a matrix; once for all who ask."""
        if product not in self._products:
            a, b = product.a, product.b
            rows = self._rows(a, a.turned) * self._rows(b, b.turned)
            self._products[product] = cast(Matrices, self.matrices).joined(rows, a.turned)
        return self._products[product]

    def _formed(self, one: Any) -> Any:
        """A combination as a matrix of its own (`_linalg.formed`)."""
        one = self._settled(one) if isinstance(one, Product) else one
        return cast(Matrices, self.matrices).joined(self._rows(one, True), one.turned) if isinstance(one, Tall) else one

    def _joined(self, one: Array) -> Any:
        if jnp.ndim(one) != 2 or (self.length in one.shape) is (one.shape[0] == one.shape[1]):
            return one
        turned = one.shape[1] == self.length
        return cast(Matrices, self.matrices).joined(one if turned else one.T, turned)

    def as_tall(self, one: Any) -> Tall:
        """A long result that is no combination yet, as one."""
        one = self._settled(one) if isinstance(one, Product) else one
        return one if isinstance(one, Tall) else self._joined(_filled(one))

    # --- what coefficients tell; each rule returns None where they do not ---

    def _neg(self, parameters: Any, a: Any) -> Any:
        return a.each(jnp.negative) if isinstance(a, Tall) else None

    def _copy(self, parameters: Any, a: Any) -> Any:
        return a

    def _convert_element_type(self, parameters: Any, a: Any) -> Any:
        return a if isinstance(a, Tall) and next(iter(a.parts.values())).dtype == parameters["new_dtype"] else None

    def _add(self, parameters: Any, a: Any, b: Any) -> Any:
        if not (isinstance(a, Tall) and isinstance(b, Tall) and a.turned == b.turned):
            return None
        return self._merged(jnp.add, a, b)

    _add_any = _add

    def _sub(self, parameters: Any, a: Any, b: Any) -> Any:
        return self._add(parameters, a, b.each(jnp.negative)) if isinstance(b, Tall) else None

    def _merged(self, function: Callable[[Array, Array], Array], a: Tall, b: Tall) -> Tall:
        """`function` of both coefficients, where 0 stands for what one of them lacks."""
        parts = {}
        for i in a.parts.keys() | b.parts.keys():
            p, q = cast(Any, a.parts.get(i)), cast(Any, b.parts.get(i))
            if p is not None and q is not None and jnp.ndim(p) != jnp.ndim(q):
                p, q = (as_matrix(one, self.sizes[i], a.columns) for one in (p, q))
            parts[i] = function(jnp.zeros_like(q) if p is None else p, jnp.zeros_like(p) if q is None else q)
        return Tall(parts, a.columns, a.turned)

    def _mul(self, parameters: Any, a: Any, b: Any) -> Any:
        if isinstance(a, Tall) and isinstance(b, Tall):
            return Product(a, b) if (a.turned, a.columns) == (b.turned, b.columns) else None
        return self._scaled(a, b, jnp.multiply) if isinstance(a, Tall) else self._scaled(b, a, jnp.multiply)

    def _div(self, parameters: Any, a: Any, b: Any) -> Any:
        return self._scaled(a, b, jnp.divide)

    def _scaled(self, a: Any, factor: Any, operation: Callable[[Array, Array], Array]) -> Any:
        """By a number, or by one for each column."""
        if not isinstance(a, Tall) or isinstance(factor, Tall | Product):
            return None
        values = factor.values if isinstance(factor, Filled) else factor
        if jnp.ndim(values) == 0:
            return a.each(lambda part: operation(part, values))
        if not isinstance(factor, Filled) or factor.axes != (1 - a.long_axis,):
            return None
        parts = a.matrices(self.sizes)
        return Tall({i: operation(part, values[None, :]) for i, part in parts.items()}, a.columns, a.turned)

    def _integer_pow(self, parameters: Any, a: Any) -> Any:
        if not isinstance(a, Tall) or parameters["y"] not in (1, 2):
            return None
        return a if parameters["y"] == 1 else Product(a, a)

    def _square(self, parameters: Any, a: Any) -> Any:
        return Product(a, a) if isinstance(a, Tall) else None

    def _reduce_sum(self, parameters: Any, product: Any) -> Any:
        if not isinstance(product, Product):
            return None
        if product.a.long_axis not in parameters["axes"]:
            return None if self.matrices is None else jnp.sum(self._rows(self._settled(product), True), axis=0)
        sums = self._column_products(product.a, product.b)
        return sums if len(parameters["axes"]) == 1 else jnp.sum(sums)

    def _column_products(self, a: Tall, b: Tall) -> Array:
        """Σ over the long axis of a ∘ b, column by column."""
        parts = a.matrices(self.sizes)
        return sum(jnp.sum(parts[i] * self._times_gram(i, b), axis=0) for i in parts)

    def _times_gram(self, i: int, b: Tall) -> Array:
        """Vᵢᵀ b."""
        return sum(product(self.grams(i, j), part) for j, part in b.parts.items())

    def _inner(self, a: Tall, b: Tall) -> Array:
        """aᵀ b."""
        return sum(product(part.T, self._times_gram(i, b)) for i, part in a.parts.items())

    def _broadcast_in_dim(self, parameters: Any, a: Any, *sizes: Any) -> Any:
        """A column repeated; what is repeated along the long axis is `Filled`."""
        shape = parameters["shape"]
        if not isinstance(a, Tall) or len(shape) != 2 or a.columns not in (1, shape[1 - a.long_axis]):
            return None
        return self._widened(a, shape[1 - a.long_axis])

    def _dot_general(self, parameters: Any, a: Any, b: Any) -> Any:
        (left, right), batched = parameters["dimension_numbers"]
        if batched[0]:
            return None
        if isinstance(a, Tall) and isinstance(b, Tall):
            if (left, right) == ((a.long_axis,), (b.long_axis,)):
                return self._inner(a, b)
            if len(left) == 2 and right == (left if a.turned == b.turned else left[::-1]):
                return jnp.sum(self._column_products(a, b))
            return None
        tall, small, contracted, along = (a, b, left, right) if isinstance(a, Tall) else (b, a, right, left)
        small = _filled(small)
        if contracted != (1 - tall.long_axis,) or jnp.ndim(small) != 2:
            return None
        factor = small if along == (0,) else small.T
        return Tall(tall.each(lambda part: product(part, factor)).parts, factor.shape[1], turned=tall is b)

    def _transpose(self, parameters: Any, a: Any) -> Any:
        if not isinstance(a, Tall) or tuple(parameters["permutation"]) != (1, 0):
            return None
        return dataclasses.replace(a, turned=not a.turned)

    def _concatenate(self, parameters: Any, *talls: Any) -> Any:
        if not all(isinstance(one, Tall) and one.long_axis != parameters["dimension"] for one in talls):
            return None
        parts = {}
        for i in set().union(*(one.parts for one in talls)):
            pieces = [as_matrix(one.parts.get(i, jnp.zeros(())), self.sizes[i], one.columns) for one in talls]
            parts[i] = jnp.concatenate(pieces, axis=1)
        return Tall(parts, sum(one.columns for one in talls), talls[0].turned)

    def _slice(self, parameters: Any, a: Any) -> Any:
        if not isinstance(a, Tall):
            return None
        long, axis = a.long_axis, 1 - a.long_axis
        start, stop = parameters["start_indices"], parameters["limit_indices"]
        if parameters["strides"] or (start[long], stop[long]) != (0, self.length):
            return None
        parts = {i: part[:, start[axis] : stop[axis]] for i, part in a.matrices(self.sizes).items()}
        return Tall(parts, stop[axis] - start[axis], a.turned)

    def _select_n(self, parameters: Any, which: Any, *cases: Any) -> Any:
        which = which.values if isinstance(which, Filled) else which
        if isinstance(which, Tall | Product) or jnp.ndim(which) or len(cases) != 2:
            return None
        if not all(isinstance(one, Tall) for one in cases) or cases[0].turned != cases[1].turned:
            return None
        return self._merged(lambda p, q: jnp.where(which, q, p), *cases)


_OPERATIONS = """
    abs add add_any atan2 ceil clamp convert_element_type copy cos div eq erf exp expm1 floor ge gt integer_pow
    is_finite le log log1p logistic lt max min mul ne neg pow rsqrt select_n sign sin sqrt square sub tan tanh
"""
_ENTRY_BY_ENTRY = frozenset(_OPERATIONS.split())
_CALLS = frozenset({"jit", "pjit", "closed_call"})
_WITH_RULES = frozenset({"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"})
"""Calls with derivatives of their own, which nobody asks a finished program for."""


def without_rules(equation: Any) -> Any:
    """The program behind a call with derivatives of its own; None for other operations."""
    if equation.primitive.name not in _WITH_RULES:
        return None
    return next(equation.params[key] for key in ("call_jaxpr", "fun_jaxpr") if key in equation.params)


def evaluated(equation: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The results of one operation."""
    inner = without_rules(equation)
    with equation.ctx.manager:
        if inner is not None:
            return jaxpr_as_fun(inner)(*values)
        found = equation.primitive.bind(*values, **equation.params)
    return found if equation.primitive.multiple_results else [found]


def _is_repeated(equation: Any) -> bool:
    """Whether a number or a vector, perhaps as a matrix of one row or column, fills a matrix."""
    if len(equation.invars) != 1 or len(equation.params["shape"]) != 2:
        return False
    shape = equation.invars[0].aval.shape
    return len(shape) <= 1 or (1 in shape and shape != tuple(equation.params["shape"]))


def _repeated(values: Array, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], **_: Any) -> Filled:
    kept = [k for k, axis in enumerate(broadcast_dimensions) if values.shape[k] == shape[axis] != 1]
    return Filled(values.reshape([values.shape[k] for k in kept]), shape, tuple(broadcast_dimensions[k] for k in kept))


def refuse_effects(program: Any) -> None:
    """What a program prints or tells Python is no result that others depend on."""
    if program.effects:
        raise OutOfSpanError(f"{program.effects}")


def needed(program: Any) -> list[Any]:
    """The equations that a result depends on."""
    wanted, found = set(map(id, program.outvars)), []
    for equation in reversed(program.eqns):
        if any(id(out) in wanted for out in equation.outvars):
            wanted |= set(map(id, equation.invars))
            found.append(equation)
    return found[::-1]


def _filled(one: Any) -> Any:
    return one.array() if isinstance(one, Filled) else one


def product(a: Array, b: Array) -> Array:
    return a @ b if jnp.ndim(a) == jnp.ndim(b) == 2 else a * b
