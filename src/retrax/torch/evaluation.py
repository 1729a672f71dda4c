"""Calling a closure: at the parameters as they are, or elsewhere on the same batch with the same random numbers."""

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from retrax.torch.parameters import whole
from retrax.torch.transaction import Transaction
from retrax.typing import Point, Tangent

Closure = Callable[[], Any]


class Evaluated:
    """The oracle of `retrax.typing` for gradients that are there already: in torch one closure gives them all."""

    __slots__ = ("_known",)
    size = 1

    def __init__(self, x: Point, gradient: Tangent) -> None:
        self._known = [(x, gradient)]

    def add(self, x: Point, gradient: Tangent) -> None:
        """One more point at which the gradient is known."""
        self._known.append((x, gradient))

    def __call__(self, x: Point) -> Tangent:
        """grad f_S(x), for the points that were visited and no other."""
        for point, gradient in self._known:
            if point is x or (point.shape == x.shape and torch.equal(point, x)):
                return gradient
        raise ValueError(
            "an estimator asked for the gradient at a point that was not visited; one with two evaluations must say "
            "by its second_point(last, memory) where the second one is"
        )

    def pair(self, x: Point, y: Point) -> tuple[Tangent, Tangent]:
        """(grad f_S(x), grad f_S(y)), y being the estimator's `second_point`."""
        return self(x), self(y)

    def parts(self, first: int) -> None:
        """The closure sees the batch as a whole."""
        return None

    def or_else(self, condition: Any, other: Any) -> Any:
        """There are no parts to choose from."""
        raise NotImplementedError("a closure's batch cannot be divided")


def evaluate(closure: Closure, parameters: Iterable[Tensor]) -> Any:
    """The loss; the closure leaves the gradients in the parameters."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    before = [_Trace(parameter.grad) for parameter in trained]
    with torch.enable_grad():
        loss = closure()
    if loss is None:
        raise TypeError("the closure returned None; it must compute the loss, call loss.backward() and return the loss")
    if trained and not any(trace.is_stale(parameter.grad) for parameter, trace in zip(trained, before, strict=True)):
        raise RuntimeError(
            "the closure wrote no gradient into any parameter of this optimizer; it must call loss.backward() "
            "before it returns the loss"
        )
    return loss


class _Trace:
    """What a gradient was, without keeping it in memory: a backward pass replaces it or writes into it."""

    __slots__ = ("_reference", "_version")

    def __init__(self, gradient: Tensor | None) -> None:
        self._reference = None if gradient is None else weakref.ref(gradient)
        self._version = None if gradient is None else gradient._version

    def is_stale(self, gradient: Tensor | None) -> bool:
        """Whether `gradient` is another one, or has been written into."""
        if gradient is None:
            return False
        return self._reference is None or self._reference() is not gradient or self._version != gradient._version


class Visit(NamedTuple):
    """What a parameter brought back from another point."""

    home: Tensor
    """Where it was, a copy."""
    point: Tensor
    gradient: Tensor | None
    """The ambient gradient there; None if the loss does not depend on the parameter."""


def visit(closure: Closure, points: Mapping[Tensor, Tensor], transaction: Transaction) -> dict[Tensor, Visit]:
    """Evaluate the closure with each parameter at its other point; parameters and random generators are put back.

    The next call of the closure then draws the same dropout masks. All go back also when it fails.
    """
    random_state = _RandomState(points)
    homes = transaction.leave(points)
    try:
        evaluate(closure, points)
    finally:
        transaction.come_home()
        random_state.restore()
    return {parameter: Visit(homes[parameter], points[parameter], _copied(parameter.grad)) for parameter in points}


def visit_both(
    module: torch.nn.Module,
    loss: Callable[[Any], Tensor],
    inputs: Any,
    trained: list[Tensor],
    points: Mapping[Tensor, Tensor],
) -> tuple[Tensor, dict[Tensor, Visit]]:
    """loss(module(*inputs)), with gradients here in the parameters, and those at the other points, from one pass."""
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if any(all(parameter is not own for own in named.values()) for parameter in trained if parameter.requires_grad):
        raise ValueError("step_on needs a module that holds all parameters of the optimizer; use step(closure)")
    here = {name: parameter.detach() for name, parameter in named.items()}
    there = {name: points.get(parameter, here[name]).to(parameter.dtype) for name, parameter in named.items()}
    sides = [here, there] if points else [here]
    stacked = {name: torch.stack([side[name] for side in sides]).requires_grad_() for name in named}

    def one(weights: dict[str, Tensor]) -> Tensor:
        return loss(torch.func.functional_call(module, weights, inputs))

    with torch.enable_grad():
        losses = torch.func.vmap(one, randomness="same")(stacked)
        gradients = torch.autograd.grad(losses.sum(), list(stacked.values()), allow_unused=True)
    visits: dict[Tensor, Visit] = {}
    for parameter, gradient in zip(named.values(), gradients, strict=True):
        parameter.grad = None if gradient is None else gradient[0]
        if parameter in points:
            elsewhere = None if gradient is None else gradient[1]
            visits[parameter] = Visit(parameter.detach().clone(), points[parameter], elsewhere)
    return losses[0].detach(), visits


def _copied(gradient: Tensor | None) -> Tensor | None:
    """A copy: the next backward pass may write into the same memory (zero_grad(set_to_none=False), DDP's buckets)."""
    return None if gradient is None else whole(gradient).clone()


class _RandomState:
    """The state of torch's generators on the CPU and on the parameters' CUDA devices."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._cpu = torch.get_rng_state()
        devices = {parameter.device for parameter in parameters if parameter.is_cuda}
        self._cuda = {device: torch.cuda.get_rng_state(device) for device in devices}

    def restore(self) -> None:
        """Put the generators back."""
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)


def unscale(scaler: Any, optimizer: torch.optim.Optimizer, visits: Mapping[Tensor, Visit]) -> bool:
    """Divide the gradients at both points by the loss scale; False if any is infinite, and the scaler knows it then."""
    if not scaler.is_enabled():
        return True
    factor = 1 / scaler.get_scale()
    elsewhere = [visit.gradient for visit in visits.values() if visit.gradient is not None]
    if not _finite(elsewhere):
        # The scaler looks at the parameters' gradients only: they must show what was found at the other point.
        for gradient in _gradients(optimizer):
            gradient.fill_(torch.inf)
    for gradient in elsewhere:
        gradient.mul_(factor)
    scaler.unscale_(optimizer)
    return _finite(_gradients(optimizer))


def _gradients(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _finite(gradients: Iterable[Tensor]) -> bool:
    return all(bool(gradient.isfinite().all()) for gradient in gradients)
