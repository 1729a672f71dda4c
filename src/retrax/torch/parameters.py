"""Which manifold a parameter lives on, and whether it does: groups, geoopt's parameters, checks."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from retrax.manifolds import SPD, Euclidean, Grassmann, Manifold, PoincareBall, Product, Sphere, Stiefel
from retrax.manifolds.base import check_shape

_INITIALISERS: dict[type, str] = {
    Stiefel: "orthogonal_",
    Grassmann: "orthogonal_",
    Sphere: "unit_",
    SPD: "positive_definite_",
}


@functools.lru_cache(maxsize=4096)
def _euclidean(shape: tuple[int, ...]) -> Manifold:
    # Euclidean refuses sizes of zero; an empty parameter has nothing to move, so any shape will do.
    return Euclidean(*shape) if all(shape) else Euclidean()


def manifold_of(parameter: Tensor) -> Manifold:
    """The manifold of a parameter whose group names none: geoopt's, where the parameter carries it, else Euclidean."""
    attached = getattr(parameter, "manifold", None)
    if attached is not None and type(attached).__module__.partition(".")[0] == "geoopt":
        return from_geoopt(attached, tuple(parameter.shape))
    return _euclidean(tuple(parameter.shape))


def from_geoopt(manifold: Any, shape: tuple[int, ...]) -> Manifold:
    """Our counterpart of a geoopt manifold for a parameter of this shape: same metric, same retraction.

    Known by its class name, so that geoopt is never imported here.
    """
    name = type(manifold).__name__
    if name == "EuclideanStiefel":
        return Stiefel(*shape[-2:], retraction="qr")
    if name in ("Sphere", "SphereExact") and getattr(manifold, "projector", None) is None:
        return Sphere(shape[-1], retraction="normalise" if name == "Sphere" else "exp")
    if name == "SymmetricPositiveDefinite" and manifold.default_metric.name == "AIM":
        return SPD(shape[-1], retraction="second-order")
    if name == "PoincareBallExact":
        return PoincareBall(shape[-1], curvature=float(manifold.c), retraction="exp")
    if name == "Euclidean":
        return _euclidean(shape)
    advice = " (geoopt.Stiefel() has the canonical metric; geoopt.EuclideanStiefel() has a counterpart)"
    raise ValueError(
        f"retrax has no counterpart of geoopt's {manifold}{advice if 'Stiefel' in name else ''}; there is one for "
        "EuclideanStiefel, Sphere and SphereExact on the whole space, SymmetricPositiveDefinite with the "
        "affine-invariant metric, PoincareBallExact and Euclidean. To choose another, name it in the group: "
        '"manifold": rx.Stiefel(d, r)'
    )


def check_parameter(parameter: Tensor, manifold: Manifold, name: str) -> None:
    """Raise unless the parameter is a real tensor of the right shape and dtype that lies on its manifold."""
    if isinstance(manifold, Product):
        raise ValueError(f"{name}: a parameter is one tensor; give each factor of {manifold} a group of its own")
    if not parameter.is_floating_point():
        raise TypeError(f"{name} has dtype {parameter.dtype}; retrax optimizes real floating-point parameters")
    if isinstance(manifold, Euclidean):
        return check_shape(parameter, manifold.ambient_shape, manifold, name) if parameter.numel() else None
    if parameter.dtype not in (torch.float32, torch.float64) and not is_coarse(parameter):
        raise TypeError(
            f"{name} has dtype {parameter.dtype}; on {manifold} it may be float64, float32, bfloat16 or float16"
        )
    _check_orientation(parameter, manifold, name)
    point = whole(plain(parameter))
    try:
        manifold.check_point(point.float() if is_coarse(point) else point, _tolerance(point), name)
    except ValueError as error:
        raise ValueError(f"{error}; {_advice(manifold)}") from None


def _check_orientation(parameter: Tensor, manifold: Manifold, name: str) -> None:
    """`check_shape`, with advice for a weight that lies the other way round."""
    try:
        check_shape(parameter, manifold.ambient_shape, manifold, name)
    except ValueError as error:
        if tuple(parameter.shape[-2:]) != tuple(reversed(manifold.ambient_shape)):
            raise
        advice = "columns are orthonormal here, so keep a wide weight transposed and use weight.mT in the model"
        raise ValueError(f"{error}; {advice}") from None


def _tolerance(point: Tensor) -> float | None:
    """A coarse dtype cannot come closer to the manifold than its roundings; None is the manifold's own tolerance."""
    return 8 * torch.finfo(point.dtype).eps if is_coarse(point) else None


def _advice(manifold: Manifold) -> str:
    initialiser = _INITIALISERS.get(type(manifold))
    random_start = f"rx.torch.{initialiser}(parameter) makes a random start on it, and " if initialiser else ""
    return f"{random_start}rx.torch.retract_(parameter, manifold) moves it to a point nearby"


def plain(parameter: Tensor) -> Tensor:
    """The parameter's data without autograd and without a tensor subclass, sharing its memory; shards stay shards."""
    data = parameter.detach()
    return data if type(data) is Tensor or _in_shards(data) else data.as_subclass(Tensor)


def _in_shards(tensor: Tensor) -> bool:
    """Whether it is a DTensor, known by its method so that `torch.distributed.tensor` is never imported here."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor whose shards are spread over processes (FSDP2's DTensor); any other is itself."""
    return tensor.full_tensor() if _in_shards(tensor) else tensor  # type: ignore[attr-defined]


def local(parameter: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """The memory that this process holds of a parameter, and the part of a new point that belongs there."""
    memory = plain(parameter)
    if not _in_shards(memory):
        return memory, point
    if not _in_shards(point):
        point = _sharded_like(memory, point)
    return memory.to_local(), point.to_local()  # type: ignore[attr-defined]


def _sharded_like(parameter: Any, point: Tensor) -> Tensor:
    from torch.distributed.tensor import DTensor, Replicate

    mesh = parameter.device_mesh
    everywhere = DTensor.from_local(point, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return everywhere.redistribute(mesh, parameter.placements)


def is_coarse(parameter: Tensor) -> bool:
    """Whether a parameter's dtype is too coarse for the arithmetic of a step, which then has a float32 copy of it."""
    return parameter.dtype in (torch.bfloat16, torch.float16)


def name_of(group: Mapping[str, Any], group_index: int, index: int) -> str:
    """The parameter's name where the optimizer was given `model.named_parameters()`, else where it stands."""
    names = group.get("param_names")
    return names[index] if names else f"group {group_index}, parameter {index}"


def violation(
    of: torch.optim.Optimizer | torch.nn.Module, manifolds: Mapping[str, Manifold] | None = None
) -> dict[str, float]:
    """How far each parameter is from its manifold: 0 on it, the largest of its batch where it has leading axes.

    `of`: a `retrax.torch` optimizer, which knows the manifolds, or a module with `manifolds={parameter name: manifold}`
    (not needed for geoopt's parameters). Euclidean parameters are left out.
    """
    if manifolds is not None and not isinstance(of, torch.nn.Module):
        raise TypeError("manifolds= goes with a module; an optimizer knows its own")
    pairs = _of_module(of, manifolds or {}) if isinstance(of, torch.nn.Module) else _of_optimizer(of)
    found = {
        name: float(manifold.violation(whole(plain(parameter))).max())
        for name, parameter, manifold in pairs
        if not isinstance(manifold, Euclidean)
    }
    if not found and isinstance(of, torch.nn.Module):
        raise ValueError(
            "no parameter of this module is known to be on a manifold: give manifolds={parameter name: manifold}, "
            "or give the optimizer instead of the module"
        )
    return found


def _of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor, Manifold]]:
    for group_index, group in enumerate(optimizer.param_groups):
        if "manifold" not in group:
            raise TypeError(f"{type(optimizer).__name__} knows no manifolds: give a retrax.torch optimizer")
        for index, parameter in enumerate(group["params"]):
            yield name_of(group, group_index, index), parameter, group["manifold"] or manifold_of(parameter)


def _of_module(module: torch.nn.Module, manifolds: Mapping[str, Manifold]) -> Iterator[tuple[str, Tensor, Manifold]]:
    parameters = dict(module.named_parameters())
    for name in manifolds:
        if name not in parameters:
            raise ValueError(f"the module has no parameter {name!r}; it has {', '.join(parameters)}")
    for name, parameter in parameters.items():
        manifold = manifolds.get(name) or manifold_of(parameter)
        check_shape(parameter, manifold.ambient_shape, manifold, name)
        yield name, parameter, manifold
