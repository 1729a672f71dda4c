"""Steps in the span of more than a point, a direction and a batch; and beyond it, where they must.

Methods that scale directions or remember other points start from several long matrices. What combines these is done
on coefficients, as in `span`; what does not, such as the root of every entry, is done on the matrix itself, which then
joins the basis. Matrices are held as their transposes, so that all passes run along the long axis.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax.drivers.span import Interpreter, Tall, as_matrix, product, refuse_effects
from retrax.typing import Array


def step(
    function: Callable[..., Any],
    rows: Sequence[Array],
    others: Any,
    inner_products: Callable[[Array, Array], Array],
) -> tuple[list[Array], Any]:
    """`function(matrices, others)` returns (long results, other results), for the matrices whose transposes are `rows`.

    The last one is a batch, which the function sees as it is. The long results are transposes too. `inner_products`:
    of all rows of two matrices.
    """
    length, dtype = rows[0].shape[1], rows[0].dtype
    shapes = [(length, one.shape[0]) for one in rows[:-1]] + [rows[-1].shape]
    matrices = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    program, form = jax.make_jaxpr(function, return_shape=True)(matrices, others)
    refuse_effects(program)

    def run(basis: Basis, others: Any) -> tuple[list[Array], Any]:
        arguments = [basis.member(i, turned=i == len(rows) - 1) for i in range(len(rows))]
        interpreter = Interpreter(length, basis.sizes, basis.gram, basis)
        found = interpreter.run(program.jaxpr, program.consts, [*arguments, *jax.tree.leaves(others)])
        long, small = jax.tree.unflatten(jax.tree.structure(form), found)
        return basis.all_formed([interpreter.as_tall(one) for one in long]), small

    rehearsed: list[Basis] = []

    def rehearse(rows: Sequence[Array], others: Any) -> Any:
        rehearsed.append(Basis(rows, inner_products))
        return run(rehearsed[0], others)

    jax.eval_shape(rehearse, list(rows), others)
    last = len(rows) - 1
    return run(Basis(rows, inner_products, sorted(rehearsed[0].used), (last, last) in rehearsed[0].known), others)


class Basis:
    """Long matrices by their transposes, m×d each, and their inner products."""

    def __init__(
        self,
        rows: Sequence[Array],
        inner_products: Callable[[Array, Array], Array],
        together: Sequence[int] = (),
        with_last: bool = True,
    ) -> None:
        """`together`: those whose inner products are found in one pass, and whose combinations in another.

        `with_last`: also the inner products of the last one with itself.
        """
        self.rows, self.together, self._inner_products = list(rows), tuple(together), inner_products
        self.sizes = [one.shape[0] for one in rows]
        self.known: dict[tuple[int, int], Array] = {}
        self.used: set[int] = set()
        """The first matrices whose inner products or combinations were asked for."""
        self._first = len(rows)
        self._formed: dict[Tall, Array] = {}
        if self.together:
            self._stack = jnp.concatenate([self.rows[i] for i in self.together])
            self._multiply(with_last)

    def _multiply(self, with_last: bool) -> None:
        """All inner products, in pieces of few rows, each with itself and those behind it."""
        left = self.together if with_last or self._first - 1 not in self.together else self.together[:-1]
        ends = dict(zip(self.together, np.cumsum([self.sizes[i] for i in self.together]), strict=True))
        for piece in _pieces(left, self.sizes):
            first = ends[piece[0]] - self.sizes[piece[0]]
            inner = self._inner_products(self._stack[first : ends[piece[-1]]], self._stack[first:])
            inner = jax.lax.optimization_barrier(inner)
            for i in piece:
                for j in self.together[self.together.index(piece[0]) :]:
                    rows, columns = ((ends[k] - self.sizes[k] - first, ends[k] - first) for k in (i, j))
                    self.known[i, j] = inner[slice(*rows), slice(*columns)]

    def member(self, i: int, turned: bool = False) -> Tall:
        """Number i itself."""
        return Tall({i: jnp.ones((), self.rows[i].dtype)}, self.sizes[i], turned)

    def joined(self, rows: Array, turned: bool) -> Tall:
        """A new one."""
        self.rows.append(rows)
        self.sizes.append(rows.shape[0])
        return self.member(len(self.rows) - 1, turned)

    def gram(self, i: int, j: int) -> Array:
        """Vᵢᵀ Vⱼ."""
        self._use(i, j)
        if (i, j) not in self.known:
            self.known[i, j] = self.known[j, i].T if (j, i) in self.known else self._products_of(i, j)
        return self.known[i, j]

    def _products_of(self, i: int, j: int) -> Array:
        return self._inner_products(self.rows[i], self.rows[j])

    def _use(self, *members: int) -> None:
        self.used |= {i for i in members if i < self._first}

    def formed(self, tall: Tall) -> Array:
        """The transpose of a combination; once for all who ask for the same one."""
        if tall not in self._formed:
            self._formed[tall] = self.all_formed([tall])[0]
        return self._formed[tall]

    def all_formed(self, talls: Sequence[Tall]) -> list[Array]:
        """The same for several: what mixes the rows that are together is found in one product."""
        done = {i: self._formed[one] for i, one in enumerate(talls) if one in self._formed}
        mixed = [i for i, one in enumerate(talls) if i not in done and self._is_mixed(one)]
        products = dict(zip(mixed, self._mixed([talls[i] for i in mixed]), strict=True))
        return [
            done[i] if i in done else self._sum(one, products[i]) if i in products else self._sum(one, None)
            for i, one in enumerate(talls)
        ]

    def _is_mixed(self, tall: Tall) -> bool:
        first = [i for i in tall.parts if i < self._first]
        if len(first) < 2 or all(jnp.ndim(tall.parts[i]) == 0 for i in first):
            return False
        self._use(*first)
        return all(i in self.together for i in first)

    def _mixed(self, talls: Sequence[Tall]) -> list[Array]:
        if not talls:
            return []
        nothing = jnp.zeros((), self._stack.dtype)
        columns = [
            [as_matrix(one.parts.get(i, nothing), self.sizes[i], one.columns) for i in self.together] for one in talls
        ]
        coefficients = jnp.concatenate([jnp.concatenate(one) for one in columns], axis=1)
        # Transposed in memory: the product with columns would take twice as long.
        rows = jax.lax.optimization_barrier(coefficients.T) @ self._stack
        return jnp.split(rows, np.cumsum([one.columns for one in talls])[:-1])

    def _sum(self, tall: Tall, begun: Array | None) -> Array:
        left = {i: part for i, part in tall.parts.items() if begun is None or i >= self._first}
        terms = [] if begun is None else [begun]
        terms += [product(part.T, self.rows[i]) for i, part in left.items()]
        return sum(terms[1:], start=terms[0])


MOST_ROWS = 32
"""Products of more rows along a long axis take the library many times as long: 20 µs for 30 × 35, 50 for 35 × 35."""


def _pieces(members: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Members one after another, in pieces of at most so many rows (or of one member)."""
    pieces: list[list[int]] = []
    for i in members:
        if pieces and sum(sizes[k] for k in pieces[-1]) + sizes[i] <= MOST_ROWS:
            pieces[-1].append(i)
        else:
            pieces.append([i])
    return pieces
