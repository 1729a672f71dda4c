"""Hyperbolic embeddings of hierarchies (Nickel & Kiela 2017): nearby points for what is related, in the Poincaré ball.

A relation (u, v), "u is a v", costs -log(e^(-d(u,v)) / Σ_w e^(-d(u,w))), the sum over v and some negatives w, which are
not related to u; a node u costs the sum over its relations. With q = ‖u - w‖² / (αβ), where α and β are the gaps
1 - ‖·‖², the distance is 2 asinh √q, so that e^(-d) = (√q + √(1+q))⁻²: the gradient needs no more than square roots.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from retrax import sampling
from retrax._arguments import integer
from retrax.manifolds import PoincareBall, Power
from retrax.manifolds.poincare import gap
from retrax.problems.base import Problem
from retrax.sources import Generated
from retrax.typing import Array, Batch

_SPREAD = 1e-3
"""The random vectors of which starting points are made are uniform in a cube of this half-width."""
_MOST = 12
"""The most relations of a node in one sample: most of WordNet's nouns have no more."""
_ROOM = 2**24
"""The most distances that an evaluation holds at once."""


class _Terms(NamedTuple):
    """What loss and gradient share of the pairs of some u's and some w's, in arrays with an entry for each pair."""

    squares: Array
    """‖u - w‖²."""
    weights: Array
    """e^(-d)."""
    slopes: Array
    """(2/αβ) dd/dq = 2 (q(1+q))^(-1/2) / αβ; where two points coincide the distance has a cusp, and this is 0."""


def _terms(squares: Array, alpha: Array, beta: Array) -> _Terms:
    """From squared chords and the gaps of u and w."""
    scale = (1 / alpha) * (1 / beta)
    quotients = squares * scale
    root, next_root = jnp.sqrt(quotients), jnp.sqrt(1 + quotients)
    product = root * next_root
    apart = product > jnp.finfo(squares.dtype).tiny ** 0.5
    slopes = jnp.where(apart, 2 * scale / jnp.where(apart, product, 1), 0)
    return _Terms(squares, (root + next_root) ** -2, slopes)


class _Sample(NamedTuple):
    """The points of a sample, and the terms of each u with its own v's and with every w."""

    u: Array
    v: Array
    w: Array
    real: Array
    """Which places for a v hold one."""
    near: _Terms
    far: _Terms
    rest: Array
    """Σ_w e^(-d(u,w)) of each u."""


def _of_one(x: Array, sample: Batch) -> _Sample:
    u, v, w = x[sample["nodes"]], x[sample["related"]], x[sample["negatives"]]
    alpha, beta = gap(1.0, u), gap(1.0, w)
    near = _terms(jnp.sum((u[:, None] - v) ** 2, axis=-1), alpha, gap(1.0, v)[..., 0])
    # Differences first, entry by entry: ‖u‖² + ‖w‖² - 2uᵀw would lose the digits that count near the rim.
    far = _terms(sum((u[:, i, None] - w[None, :, i]) ** 2 for i in range(x.shape[-1])), alpha, beta.T)
    refused = jnp.unpackbits(sample["forbidden"], axis=-1, count=w.shape[0])
    far = far._replace(weights=jnp.where(refused, 0, far.weights))
    real = sample["related"] != sample["nodes"][:, None]
    return _Sample(u, v, w, real, near, far, jnp.sum(far.weights, axis=1, keepdims=True))


def loss(x: Array, batch: Batch) -> Array:
    """The mean over the nodes u of all samples of Σ_v -log(e^(-d(u,v)) / (e^(-d(u,v)) + Σ_w e^(-d(u,w))))."""

    def one(sample: Batch) -> Array:
        points = _of_one(x, sample)
        costs = jnp.log1p(points.rest / points.near.weights)
        return jnp.mean(jnp.sum(jnp.where(points.real, costs, 0), axis=1))

    return jnp.mean(jax.vmap(one)(batch))


def ambient_gradient(x: Array, batch: Batch) -> Array:
    """∇f_S(x), a table like x that is zero in the rows that the batch does not name.

    With Σ = e^(-d(u,v)) + Σ_w e^(-d(u,w)), the derivative by d(u,v) is Σ_w e^(-d(u,w)) / Σ, and by d(u,w) it is
    -e^(-d(u,w)) Σ_v 1/Σ; that of d by q is (q(1+q))^(-1/2), and ∇_u q = (2/αβ) ((u - w) + (‖u - w‖²/α) u).
    """
    named, parts = jax.vmap(functools.partial(_gradient_of_one, x))(batch)
    return jnp.zeros_like(x).at[named.reshape(-1)].add(parts.reshape(-1, x.shape[-1]) / named.shape[0])


def _gradient_of_one(x: Array, sample: Batch) -> tuple[Array, Array]:
    """The rows that a sample names, some of them more than once, and its gradient by them."""
    u, v, w, real, near, far, rest = _of_one(x, sample)
    shares = jnp.where(real, 1 / (near.weights + rest), 0)
    attract = rest * shares * near.slopes
    repel = -(far.weights * far.slopes) * jnp.sum(shares, axis=1, keepdims=True)
    pull, push = attract * near.squares, repel * far.squares
    own = _total(attract) + _total(repel) + (_total(pull) + _total(push)) / gap(1.0, u)
    by_u = own * u - jnp.sum(attract[..., None] * v, axis=1) - repel @ w
    by_v = (attract[..., None] + pull[..., None] / gap(1.0, v)) * v - attract[..., None] * u[:, None]
    by_w = (_total(repel.T) + _total(push.T) / gap(1.0, w)) * w - repel.T @ u
    named = jnp.concatenate([sample["nodes"], sample["related"].reshape(-1), sample["negatives"]])
    return named, jnp.concatenate([by_u, by_v.reshape(-1, x.shape[-1]), by_w]) / u.shape[0]


def _total(terms: Array) -> Array:
    return jnp.sum(terms, axis=1, keepdims=True)


class Reconstruction(NamedTuple):
    """How well distances tell what is related: Nickel & Kiela's two figures."""

    mean_rank: float
    """Of v by its distance from u, among what is not related to u; 1 is perfect."""
    mean_average_precision: float
    """Of the ranking of everything by its distance from u, averaged over u; 1 is perfect."""


class Embedding(Problem):
    """Points in the Poincaré ball for the nodes of a hierarchy, close to those that they are related to.

    relations: pairs (u, v) of node numbers from 0 on, each with "u is a v"; of a hierarchy take all of them, direct or
    not (`datasets.transitive_closure`). One sample is `group` nodes u with all of their relations, and `negatives`
    nodes w that they share, drawn uniformly, of which u uses those that it is not related to: a node's distances from
    the negatives serve all of its relations. A node with more than 12 relations is drawn in parts; `parts` is how many
    there are to draw, so that an epoch has parts / group samples, and `batch_size=1` is the natural choice.
    Steps touch the rows of their batch only. Start with some steps a tenth as large (the burn-in of Nickel & Kiela:
    directions before distances) and give their result as x0.
    """

    def __init__(
        self,
        relations: Any,
        dimension: int,
        *,
        nodes: int | None = None,
        group: int = 10,
        negatives: int = 50,
        retraction: str = "exp",
        transport: str = "parallel",
    ) -> None:
        self.relations = _relations(relations)
        least = int(self.relations.max()) + 1
        self.nodes = least if nodes is None else integer(nodes, "nodes", least=least)
        self.group, self.negatives = integer(group, "group", least=1), integer(negatives, "negatives", least=1)
        # The relations of each u, one after another, and where those of u start.
        order = np.argsort(self.relations[:, 0], kind="stable")
        self._related = self.relations[order, 1]
        self._starts = np.searchsorted(self.relations[order, 0], np.arange(self.nodes + 1))
        self._parts = _parts(self.relations[order])
        ball = PoincareBall(integer(dimension, "dimension", least=1), retraction=retraction, transport=transport)
        named = ("nodes", "related", "negatives")
        super().__init__(loss, Power(ball, self.nodes), Generated(self.draw), gradient=ambient_gradient, sparse=named)

    @property
    def parts(self) -> int:
        """How many nodes there are to draw; one with many relations counts once for each 12 of them."""
        return len(self._parts)

    def initial_point(self, seed: int = 0) -> np.ndarray:
        """Near the origin, a node in the direction of the sum of random vectors, its own and those of its relations.

        So what is related starts close: points that find each other only when they are far out hardly come together.
        """
        own = sampling.start_generator(seed).uniform(-_SPREAD, _SPREAD, self.manifold.ambient_shape)
        sums = own.copy()
        np.add.at(sums, self.relations[:, 0], own[self.relations[:, 1]])
        return sums / np.sqrt(1 + np.diff(self._starts))[:, None]

    def draw(self, generator: np.random.Generator, count: int) -> Batch:
        """So many samples: {"nodes": (count, group), "related": (count, group, ·), "negatives", "forbidden"}.

        Where a node has fewer relations than there are places for them, the others hold the node itself. "forbidden"
        says in bits, eight to a byte, which of the (count, negatives) negatives each node must not use.
        """
        chosen = self._parts[generator.integers(0, len(self._parts), (count, self.group))]
        negatives = generator.integers(0, self.nodes, (count, self.negatives), dtype=np.int32)
        forbidden = np.zeros((count, self.group, self.negatives), dtype=bool)
        place = np.full(self.nodes, -1, dtype=np.int32)
        for nodes, pool, mask in zip(chosen[..., 0], negatives, forbidden, strict=True):
            place[pool] = np.arange(len(pool), dtype=np.int32)
            mask[:, place[pool] != np.arange(len(pool))] = True  # drawn twice, it counts once
            self._forbid(nodes, place, mask)
            place[pool] = -1
        return {
            "nodes": chosen[..., 0],
            "related": chosen[..., 1:],
            "negatives": negatives,
            "forbidden": np.packbits(forbidden, axis=-1),
        }

    def _forbid(self, u: np.ndarray, place: np.ndarray, mask: np.ndarray) -> None:
        """Mark in each row of the mask what its u is related to, and u itself."""
        first, counts = self._starts[u], self._starts[u + 1] - self._starts[u]
        row = np.repeat(np.arange(len(u)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        column = place[self._related[np.repeat(first, counts) + within]]
        mask[row[column >= 0], column[column >= 0]] = True
        itself = place[u]
        mask[np.flatnonzero(itself >= 0), itself[itself >= 0]] = True

    def reconstruction(self, x: Any, nodes: Any = None) -> Reconstruction:
        """Mean rank and mean average precision at x, over all nodes that are related to something or over some."""
        table = np.asarray(x, dtype=np.float64)
        gaps = np.maximum(1 - np.sum(table**2, axis=1), np.finfo(np.float64).tiny)
        wanted = np.flatnonzero(np.diff(self._starts)) if nodes is None else np.asarray(nodes)
        wanted = wanted[np.diff(self._starts)[wanted] > 0]
        ranks, precisions = [], []
        for part in np.array_split(wanted, max(1, len(wanted) * self.nodes // _ROOM)):
            squares = np.sum(table[part] ** 2, axis=1)[:, None] + np.sum(table**2, axis=1) - 2 * table[part] @ table.T
            quotients = squares / (gaps[part, None] * gaps)  # distances grow with them
            quotients[np.arange(len(part)), part] = np.inf
            for u, row in zip(part, quotients, strict=True):
                nearest = np.sort(row[self._related[self._starts[u] : self._starts[u + 1]]])
                before = np.array([np.count_nonzero(row < q) for q in nearest])
                ranks.append(before - np.arange(len(nearest)) + 1)
                precisions.append(np.mean(np.arange(1, len(nearest) + 1) / (before + 1)))
        return Reconstruction(float(np.mean(np.concatenate(ranks))), float(np.mean(precisions)))


def _parts(relations: np.ndarray) -> np.ndarray:
    """Rows [u, v, v', ...] of a table with all of the relations, which come sorted by u; u fills what is left over."""
    u, v = relations.T
    firsts = np.flatnonzero(np.r_[True, u[1:] != u[:-1]])
    counts = np.diff(np.r_[firsts, len(u)])
    within = np.arange(len(u)) - np.repeat(firsts, counts)
    width = min(_MOST, int(counts.max()))
    heads = np.flatnonzero(within % width == 0)  # the first relation of each part
    table = np.repeat(u[heads, None], 1 + width, axis=1)
    table[np.cumsum(within % width == 0) - 1, 1 + within % width] = v
    return table


def _relations(relations: Any) -> np.ndarray:
    array = np.asarray(relations)
    if array.ndim != 2 or array.shape[-1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"relations must be pairs of node numbers, (relations, 2), not {array.dtype} {array.shape}")
    if len(array) == 0 or array.min() < 0:
        raise ValueError("relations must be pairs of node numbers from 0 on, and at least one of them")
    itself = np.flatnonzero(array[:, 0] == array[:, 1])
    if len(itself):
        raise ValueError(f"relations[{itself[0]}] relates node {array[itself[0], 0]} to itself; leave such pairs out")
    return array.astype(np.int32)
