"""A step moves all parameters or none: interrupted at any line, with NaN gradients, or refused by a part."""

import functools
import os
import sys

import jax
import numpy as np
import pytest
import torch
from small_network import OPTIMIZERS, Network, batches, bits, closure_of, same, train

import retrax as rx
import retrax.torch

EVERY = [
    *OPTIMIZERS,
    rx.torch.RDoG,
    rx.torch.RDoWG,
    rx.torch.NRDoG,
    rx.torch.StormPlus,
]
STRIDES = 15
"""At so many lines of a step it is interrupted, and at every line that writes. (All lines: tried once, by hand.)"""
SOURCE = os.path.dirname(rx.__file__) + os.sep


class Interruption(BaseException):
    """What Ctrl-C raises, between any two lines."""


def snapshot(model, optimizer):
    """Bit for bit what a step may change, as NumPy copies."""
    state = [optimizer.state.get(parameter) for parameter in model.parameters()]
    leaves = [leaf.numpy().copy() if isinstance(leaf, torch.Tensor) else leaf for leaf in jax.tree.leaves(state)]
    return [parameter.numpy().copy() for parameter in bits(model)], leaves


def equal(first, second):
    return all(
        len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))
        for a, b in zip(first, second, strict=True)
    )


def traced(step, at=None):
    """Run a step, raising at line number `at` of the library; the lines it ran through, as file names."""
    lines = []

    def on_line(frame, event, argument):
        if event == "line":
            lines.append(os.path.basename(frame.f_code.co_filename))
            if at is not None and len(lines) > at:
                raise Interruption
        return on_line

    def on_call(frame, event, argument):
        return on_line if SOURCE in frame.f_code.co_filename else None

    sys.settrace(on_call)
    try:
        step()
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("make", EVERY, ids=lambda m: m.__name__)
def test_interrupted_anywhere_in_a_step_all_is_as_before_to_the_bit(make):
    data = batches(3)

    def trained():
        model = Network()
        optimizer = make(model.groups(), lr=0.05, weight_decay=0.01)
        train(model, optimizer, data[:2])
        return model, optimizer

    (model, optimizer), (twin, twin_optimizer) = trained(), trained()
    before = snapshot(model, optimizer)
    lines = traced(lambda: twin_optimizer.step(closure_of(twin, twin_optimizer, data[2])))
    after = snapshot(twin, twin_optimizer)
    writing = [k for k, name in enumerate(lines) if name == "transaction.py"]
    begun = False
    for at in sorted({*range(0, len(lines), max(1, len(lines) // STRIDES)), *writing}):
        with pytest.raises(Interruption):
            traced(functools.partial(optimizer.step, closure_of(model, optimizer, data[2])), at)
        found = snapshot(model, optimizer)
        if equal(found, before):
            assert not begun
        else:  # beyond the one call that writes: everything is there
            assert equal(found, after)
            assert at >= writing[-3]
            begun = True
            model, optimizer = trained()
    optimizer.step(closure_of(model, optimizer, data[2]))
    assert equal(snapshot(model, optimizer), after)


@pytest.mark.parametrize("make", EVERY, ids=lambda m: m.__name__)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_gradient_that_is_not_finite_in_the_last_group_moves_no_group(make, bad):
    model = Network()
    optimizer = make(model.groups(), lr=0.05)
    data = batches(3)
    train(model, optimizer, data[:2])
    before = snapshot(model, optimizer)

    def closure():
        loss = closure_of(model, optimizer, data[2])()
        model.last.bias.grad[1] = bad
        return loss

    with pytest.raises(RuntimeError, match=r"group 1, parameter 1.*NaN or infinite.*no parameter has moved"):
        optimizer.step(closure)
    assert equal(snapshot(model, optimizer), before)


@pytest.mark.parametrize(
    ("manifold", "fill"),
    [
        (rx.Sphere(4), rx.torch.unit_),
        (rx.SPD(4), rx.torch.positive_definite_),
        (rx.Grassmann(4, 2), rx.torch.orthogonal_),
        (rx.PoincareBall(4), torch.nn.init.zeros_),
        (rx.Euclidean(4), torch.nn.init.zeros_),
    ],
)
def test_nan_gradients_are_refused_on_every_manifold(manifold, fill):
    parameter = torch.nn.Parameter(fill(torch.empty(manifold.ambient_shape)))
    before = parameter.detach().clone()
    optimizer = rx.torch.RSGD([{"params": [("weight", parameter)], "manifold": manifold}], lr=0.1)
    parameter.grad = torch.full_like(parameter, torch.nan)
    with pytest.raises(RuntimeError, match="weight"):
        optimizer.step()
    assert torch.equal(parameter, before)


def test_a_step_that_overflows_blames_the_learning_rate():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = rx.torch.RSGD([parameter], lr=1e38)
    parameter.grad = torch.full_like(parameter, 1e5)
    with pytest.raises(RuntimeError, match=r"lr=1e\+38 is too large"):
        optimizer.step()
    assert torch.equal(parameter, torch.ones(3))


@pytest.mark.parametrize("make", [rx.torch.RSRM, rx.torch.RSGD])
def test_a_closure_without_backward_is_noticed(make):
    model = Network()
    optimizer = make(model.groups(), lr=0.05)
    train(model, optimizer, batches(2))
    before = snapshot(model, optimizer)
    with pytest.raises(RuntimeError, match=r"wrote no gradient.*loss\.backward\(\)"):
        optimizer.step(lambda: model(batches(1)[0][0]).sum())
    assert equal(snapshot(model, optimizer), before)


def test_a_failing_closure_puts_the_random_generator_back():
    model = Network(dropout=0.5)
    optimizer = rx.torch.RSRM(model.groups(), lr=0.05)
    train(model, optimizer, batches(2))
    state = torch.get_rng_state()

    def closure():
        model(batches(1)[0][0])
        raise KeyError("batch")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert torch.equal(torch.get_rng_state(), state)


def test_rasa_scales_the_one_side_of_a_vector():
    weight, bias = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = rx.torch.RASA([weight, bias], lr=0.1, beta=0.9)
    weight.grad, bias.grad = torch.ones(3, 2), torch.tensor([3.0, -0.5])
    optimizer.step()
    # moment = 0.1 g², so that each entry moves by lr g / √(0.1 g²) = lr sign(g) / √0.1
    expected = np.array([1.0, 2.0]) - 0.1 * np.array([1.0, -1.0]) / np.sqrt(0.1)
    np.testing.assert_allclose(bias.detach().numpy(), expected, rtol=1e-5)


def test_a_part_that_refuses_a_manifold_does_so_at_construction_and_names_the_parameter():
    class Rows:
        def init(self, manifold, x):
            if len(manifold.ambient_shape) != 2:
                raise ValueError("needs matrices")
            return ()

        def apply(self, manifold, x, estimate, memory):
            return estimate.direction, memory

    class Custom(rx.torch.RiemannianOptimizer):
        recipe = staticmethod(lambda lr: rx.rsrm(lr, scaling=Rows()))

    with pytest.raises(ValueError, match="bias: needs matrices"):
        Custom(torch.nn.Linear(3, 2).named_parameters(), lr=0.1)


def test_a_wide_weight_is_told_to_be_kept_transposed():
    with pytest.raises(ValueError, match=r"keep a wide weight transposed and use weight\.mT"):
        rx.torch.RSGD([{"params": [torch.nn.Parameter(torch.zeros(3, 8))], "manifold": rx.Stiefel(8, 3)}], lr=0.1)


@pytest.mark.parametrize(
    ("manifold", "leading"),
    [
        (rx.Stiefel(5, 3), (2,)),
        (rx.Grassmann(5, 3), ()),
        (rx.SpecialOrthogonal(4), (3,)),
        (rx.Sphere(5), (2,)),
        (rx.Oblique(4, 3), ()),
        (rx.SPD(4), (2,)),
        (rx.Symmetric(4), ()),
        (rx.Positive(4), ()),
        (rx.Simplex(5), (3,)),
        (rx.PoincareBall(3, curvature=2.0), (4,)),
    ],
    ids=str,
)
def test_retract_moves_onto_the_manifold_and_keeps_what_is_there(manifold, leading):
    generator = torch.Generator().manual_seed(3)
    tensor = 2 * torch.randn((*leading, *manifold.ambient_shape), dtype=torch.float64, generator=generator)
    assert rx.torch.retract_(tensor, manifold) is tensor
    assert float(manifold.violation(tensor).max()) < 1e-12
    again = rx.torch.retract_(tensor.clone(), manifold)
    torch.testing.assert_close(again, tensor, rtol=0, atol=1e-12)


def test_retract_refuses_what_has_no_nearest_point():
    with pytest.raises(ValueError, match="retract_ knows Stiefel"):
        rx.torch.retract_(torch.zeros(3), rx.Lorentz(2))
    with pytest.raises(ValueError, match="vector of zeros"):
        rx.torch.retract_(torch.zeros(3), rx.Sphere(3))
    with pytest.raises(ValueError, match="NaN"):
        rx.torch.retract_(torch.full((3,), torch.nan), rx.Sphere(3))


def test_the_nearest_orthonormal_matrix_is_the_polar_factor():
    weight = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, vectors = np.linalg.eigh((weight.T @ weight).numpy())
    expected = weight.numpy() @ (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(rx.torch.retract_(weight, rx.Stiefel(6, 4)).numpy(), expected, atol=1e-12)


def test_uninterrupted_steps_are_the_same_with_and_without_tracing():
    results = []
    for step in (lambda act: act(), traced):
        model = Network()
        optimizer = rx.torch.RSRM(model.groups(), lr=0.05)
        for batch in batches(3):
            step(lambda m=model, o=optimizer, b=batch: o.step(closure_of(m, o, b)))
        results.append(bits(model))
    assert same(*results)
