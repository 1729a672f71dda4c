"""Random starting points, written into a tensor in place like the functions of `torch.nn.init`."""

import torch
from torch import Tensor

from retrax.manifolds import SPD, Sphere, Stiefel
from retrax.manifolds.base import Manifold


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


def _matrix_shape(tensor: Tensor, name: str) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"{name} needs matrices, not a tensor of shape {tuple(tensor.shape)}")
    return tensor.shape[-2], tensor.shape[-1]


@torch.no_grad()
def _fill(tensor: Tensor, manifold: Manifold, generator: torch.Generator | None) -> Tensor:
    # The factorisations exist in single and double precision only.
    dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32
    gaussian = torch.randn(tensor.shape, dtype=dtype, device=tensor.device, generator=generator)
    return tensor.copy_(manifold.random_point(gaussian))
