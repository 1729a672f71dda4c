"""Starting points, random or nearby, written into a tensor in place like the functions of `torch.nn.init`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from retrax.manifolds import (
    SPD,
    Euclidean,
    Grassmann,
    Oblique,
    PoincareBall,
    Positive,
    Product,
    Simplex,
    SpecialOrthogonal,
    Sphere,
    Stiefel,
    Symmetric,
)
from retrax.manifolds.base import Manifold, check_shape


def orthogonal_(tensor: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Fill a (..., d, r) tensor with Haar-distributed orthonormal columns: a point on Stiefel(d, r) or Grassmann(d, r).

    Unlike `torch.nn.init.orthogonal_` it refuses a wide tensor, whose columns cannot be orthonormal.
    """
    return _fill(tensor, Stiefel(*_matrix_shape(tensor, "orthogonal_")), generator)


def positive_definite_(tensor: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Fill a (..., d, d) tensor with symmetric positive definite matrices of eigenvalues around 1: points on SPD(d)."""
    rows, columns = _matrix_shape(tensor, "positive_definite_")
    if rows != columns:
        raise ValueError(f"positive_definite_ needs square matrices, not a tensor of shape {tuple(tensor.shape)}")
    return _fill(tensor, SPD(rows), generator)


def unit_(tensor: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Fill a (..., d) tensor with unit vectors, uniform on the sphere: points on Sphere(d)."""
    if tensor.ndim < 1:
        raise ValueError("unit_ needs a tensor with at least one axis, not a single number")
    return _fill(tensor, Sphere(tensor.shape[-1]), generator)


def point_(tensor: Tensor, manifold: Manifold, generator: torch.Generator | None = None) -> Tensor:
    """Fill a tensor with random points of any manifold of single arrays, such as PoincareBall, FixedRank or Simplex."""
    if isinstance(manifold, Product):
        raise ValueError(f"point_ fills one tensor; fill those of {manifold} one by one")
    check_shape(tensor, manifold.ambient_shape, manifold, "the tensor")
    return _fill(tensor, manifold, generator)


@torch.no_grad()
def retract_(tensor: Tensor, manifold: Manifold) -> Tensor:
    """Move a tensor, a trained weight for example, onto a manifold: to the nearest point, or close to it.

    Stiefel, Grassmann and SpecialOrthogonal take the polar factor, Sphere and Oblique unit lengths, SPD the symmetric
    part with eigenvalues of at least 1e-3 of the largest, Positive and Simplex entries cut from below likewise, the
    ball its inside.
    """
    nearby = _NEARBY.get(type(manifold))
    if nearby is None:
        known = ", ".join(one.__name__ for one in _NEARBY)
        raise ValueError(f"retract_ knows {known}, not {manifold}")
    check_shape(tensor, manifold.ambient_shape, manifold, "the tensor")
    if not bool(tensor.isfinite().all()):
        raise ValueError("the tensor contains NaN or infinite entries; no point of a manifold is near it")
    return tensor.copy_(nearby(manifold, tensor.to(_arithmetic(tensor))))


_FLOOR = 1e-3
"""What must be positive is kept above this part of the largest."""


def _polar(manifold: Any, x: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    return left @ right


def _rotation(manifold: Any, x: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(x)
    signs = torch.ones_like(x[..., 0])
    signs[..., -1] = torch.linalg.det(left @ right).sign()  # the smallest singular direction gives way
    return (left * signs.unsqueeze(-2)) @ right


def _unit(axis: int) -> Callable[[Any, Tensor], Tensor]:
    def unit(manifold: Any, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=axis, keepdim=True)
        if not bool((length > 0).all()):
            raise ValueError(f"a vector of zeros has no nearest point on {manifold}")
        return x / length

    return unit


def _above(values: Tensor) -> Tensor:
    """The values, none of them below a part of the largest along the last axis."""
    return torch.maximum(values, _FLOOR * values.abs().amax(-1, keepdim=True).clamp_min(_FLOOR))


def _positive_definite(manifold: Any, x: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh((x + x.mT) / 2)
    return (vectors * _above(values).unsqueeze(-2)) @ vectors.mT


def _inside(manifold: Any, x: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * (manifold.curvature**-0.5 * (1 - _FLOOR) / length.clamp_min(1e-30)).clamp_max(1)


def _distribution(manifold: Any, x: Tensor) -> Tensor:
    positive = _above(x)
    return positive / positive.sum(-1, keepdim=True)


_NEARBY: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Stiefel: _polar,
    Grassmann: _polar,
    SpecialOrthogonal: _rotation,
    Sphere: _unit(-1),
    Oblique: _unit(-2),
    SPD: _positive_definite,
    Symmetric: lambda manifold, x: (x + x.mT) / 2,
    Positive: lambda manifold, x: x.clamp_min(_FLOOR),
    Simplex: _distribution,
    PoincareBall: _inside,
    Euclidean: lambda manifold, x: x,
}


def _arithmetic(tensor: Tensor) -> torch.dtype:
    """The factorisations exist in single and double precision only."""
    return tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32


def _matrix_shape(tensor: Tensor, name: str) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"{name} needs matrices, not a tensor of shape {tuple(tensor.shape)}")
    return tensor.shape[-2], tensor.shape[-1]


@torch.no_grad()
def _fill(tensor: Tensor, manifold: Manifold, generator: torch.Generator | None) -> Tensor:
    gaussian = torch.randn(tensor.shape, dtype=_arithmetic(tensor), device=tensor.device, generator=generator)
    return tensor.copy_(manifold.random_point(gaussian))
