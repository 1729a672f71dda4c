"""Principal component analysis on the Grassmann manifold: min -(1/n) Σ xᵢᵀUUᵀxᵢ over r-dimensional subspaces.

The paper prints the simplified objective without its minus sign; here it has it.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax import _linalg
from retrax._arguments import integer
from retrax._tree import pytree, static
from retrax.manifolds import Grassmann
from retrax.manifolds.base import Manifold
from retrax.problems import data_checks
from retrax.problems.base import Mean, Problem, Undivided
from retrax.sources.layout import layout_of, second_moment
from retrax.typing import Array


def loss(x: Array, batch: Array) -> Array:
    """f_S(U) = -mean ‖Uᵀxᵢ‖²."""
    xp = _linalg.namespace(batch)
    return -xp.sum((batch @ x) ** 2) / batch.shape[0]


def riemannian_gradient(x: Array, batch: Array) -> Array:
    """grad f_S(U) = (I - UUᵀ) ∇f_S(U) = -(2/b) (Bᵀz - U(zᵀz)) with B the batch and z = BU."""
    z = batch @ x
    return (-2 / batch.shape[0]) * _projected(x, batch.mT @ z, z)


def riemannian_gradients(x: Array, y: Array, batch: Array) -> tuple[Array, Array]:
    """`riemannian_gradient` at two points: B meets both in one product."""
    xp, rank = _linalg.namespace(batch), x.shape[-1]
    z = batch @ xp.concat([x, y], axis=-1)
    products = batch.mT @ z

    def one(point: Array, columns: slice) -> Array:
        return (-2 / batch.shape[0]) * _projected(point, products[..., columns], z[..., columns])

    return one(x, slice(0, rank)), one(y, slice(rank, None))


def _projected(x: Array, product: Array, z: Array) -> Array:
    """(I - UUᵀ) Bᵀz. UᵀBᵀz = zᵀz is found from the shorter of the two."""
    inner = z.mT @ z if z.shape[-2] <= x.shape[-2] else x.mT @ product
    return product - x @ inner


@pytree
class SecondMoment(Undivided):
    """F and grad F from XᵀX/n: exact, at a cost that does not grow with the number of samples."""

    manifold: Manifold = static()
    size: int = static()
    moment: Array

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """(F(U), grad F(U))."""
        product = self.moment @ x
        return -jnp.sum(x * product), self.manifold.gradient(x, -2 * product)

    def gradient(self, x: Array) -> Array:
        """grad F(U)."""
        return self(x)[1]


class PCA(Problem):
    """The `rank` leading principal directions of the rows of X.

    `center=True` subtracts the mean row first. `optimum` is minus the sum of the largest `rank` eigenvalues of XᵀX/n,
    `solution` the span of their eigenvectors.
    """

    def __init__(
        self,
        X: Any,
        rank: int,
        *,
        center: bool = False,
        retraction: str = "polar",
        transport: str = "projection",
    ) -> None:
        data = data_checks.sample_matrix(X)
        if (layout := layout_of(data)) is not None and layout.by_feature:
            raise ValueError(
                "PCA keeps a matrix of features × features, which samples split along their features are too long for; "
                "give its loss to retrax.Problem"
            )
        rank = integer(rank, "rank", least=1, most=data.shape[1])
        if center:
            data = data - data.mean(axis=0)
        manifold = Grassmann(data.shape[1], rank, retraction=retraction, transport=transport)
        super().__init__(loss, manifold, data, riemannian_gradient=riemannian_gradient, gradients=riemannian_gradients)

    @functools.cached_property
    def second_moment(self) -> np.ndarray:
        """XᵀX/n in float64."""
        layout = getattr(self.source, "layout", None)
        if layout is not None:
            return second_moment(layout, self.data)
        moment = np.zeros((self.data.shape[1],) * 2)
        for start in range(0, len(self.data), 65536):
            part = self.data[start : start + 65536].astype(np.float64, copy=False)
            moment += part.T @ part
        return moment / len(self.data)

    @functools.cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        rank = self.manifold.ambient_shape[1]
        values, vectors = np.linalg.eigh(self.second_moment)
        return values[::-1][:rank], vectors[:, ::-1][:, :rank]

    @property
    def optimum(self) -> float:
        """The smallest value of F."""
        return -float(self._eigen[0].sum())

    @property
    def solution(self) -> np.ndarray:
        """An orthonormal basis of the optimal subspace."""
        return self._eigen[1]

    def full(self, data: Any) -> Mean:
        """F and grad F over all the samples, from their second moment."""
        if jax.tree.leaves(data)[0].shape != self.data.shape:
            return super().full(data)
        dtype = jax.tree.leaves(data)[0].dtype
        return SecondMoment(self.manifold, len(self.data), jnp.asarray(self.second_moment, dtype=dtype))
