"""What a step does besides its formula: closures, random numbers, groups, schedulers, stacking, precision."""

import copy
import functools

import jax
import pytest
import torch
from small_network import OPTIMIZERS, TWO_POINT, Network, batches, bits, closure_of, orthonormal, same, train

import retrax as rx
import retrax.torch


@pytest.mark.parametrize("make", [m for m in OPTIMIZERS if m is not rx.torch.RASA], ids=lambda m: m.__name__)
def test_a_network_with_several_groups_learns_and_stays_on_the_manifold(make):
    model = Network()
    options = {"momentum": 0.9} if make in (rx.torch.CSGDM, rx.torch.RAMSGrad) else {}
    optimizer = make(model.groups(), lr=0.02, **options)
    losses = train(model, optimizer, batches(1) * 40)
    assert losses[-1] < losses[0]
    found = rx.torch.violation(optimizer)
    assert set(found) == {"group 0, parameter 0", "group 0, parameter 1"}
    assert max(found.values()) < 1e-13


def test_the_loss_returned_is_that_at_the_current_parameters_and_so_are_the_gradients_left():
    model = Network()
    optimizer = rx.torch.RSRM(model.groups(), lr=0.05)
    data = batches(4)
    train(model, optimizer, data[:3])
    twin = copy.deepcopy(model)
    expected = torch.nn.functional.cross_entropy(twin(data[3][0]), data[3][1])
    expected.backward()
    assert torch.equal(optimizer.step(closure_of(model, optimizer, data[3])), expected)
    assert same([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])


@pytest.mark.parametrize("make", TWO_POINT)
def test_the_closure_sees_the_same_batch_at_the_second_point_and_at_the_current_one(make):
    parameter = orthonormal()
    optimizer = make([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.1)
    seen = []

    def closure():
        seen.append(parameter.detach().clone())
        loss = (parameter * torch.arange(24.0, dtype=torch.float64).reshape(8, 3)).sum()
        loss.backward()
        return loss

    visited = []
    for _ in range(3):
        before = parameter.detach().clone()
        optimizer.step(closure)
        visited.append(before)
    # The first step evaluates once; then the anchor (RSVRG) or the previous point (RSRM, RSRG), and the current one.
    second = [visited[0], visited[0] if make is rx.torch.RSVRG else visited[1]]
    assert same(seen, [visited[0], second[0], visited[1], second[1], visited[2]])


def test_dropout_masks_are_the_same_at_both_points_and_the_generator_moves_on_once():
    drawn = []
    parameter = orthonormal()
    optimizer = rx.torch.RSRM([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.1)

    def closure():
        optimizer.zero_grad()
        mask = torch.nn.functional.dropout(torch.ones(8, 3, dtype=torch.float64))
        drawn.append(mask)
        loss = (mask * parameter).sum()
        loss.backward()
        return loss

    torch.manual_seed(1)
    for _ in range(3):
        optimizer.step(closure)
    after = torch.rand(1)
    torch.manual_seed(1)
    masks = [torch.nn.functional.dropout(torch.ones(8, 3, dtype=torch.float64)) for _ in range(3)]
    assert same(drawn, [masks[0], masks[1], masks[1], masks[2], masks[2]])
    assert torch.equal(after, torch.rand(1))


def test_batch_norm_sees_both_points():
    layer = torch.nn.BatchNorm1d(3, dtype=torch.float64)
    parameter = orthonormal()
    optimizer = rx.torch.RSRM([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.1)
    inputs = batches(1)[0][0]

    def closure():
        optimizer.zero_grad()
        loss = layer(inputs @ parameter).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert layer.num_batches_tracked == 5


def test_zero_grad_with_zeros_gives_the_same_bits():
    for make in (rx.torch.RSRM, rx.torch.CSGDM, rx.torch.RSVRG):
        results = []
        for zero_grad in ({}, {"set_to_none": False}):
            model = Network(seed=1)
            train(model, make(model.groups(), lr=0.05), batches(6), **zero_grad)
            results.append(bits(model))
        assert same(*results), make.__name__


@pytest.mark.parametrize("make", TWO_POINT)
def test_a_closure_without_zero_grad_does_not_mix_the_points(make):
    def forgetful(model, batch):
        def closure():
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
            loss.backward()
            return loss

        return closure

    results = []
    for forget in (False, True):
        model = Network(seed=1)
        optimizer = make(model.groups(), lr=0.05)
        for batch in batches(5):
            optimizer.step(forgetful(model, batch) if forget else closure_of(model, optimizer, batch))
        results.append(bits(model))
    assert same(*results)


def test_parameters_without_a_gradient_are_left_alone():
    used, unused = orthonormal(seed=0), orthonormal(seed=1)
    before = unused.detach().clone()
    for make in (rx.torch.RSRM, rx.torch.CSGDM):
        optimizer = make([{"params": [used, unused], "manifold": rx.Stiefel(8, 3)}], lr=0.1)

        def closure(optimizer=optimizer):
            optimizer.zero_grad()
            loss = used[0].square().sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        assert torch.equal(unused, before)
        assert unused not in optimizer.state
        assert optimizer.state[used]["step"] == 3


def test_a_frozen_parameter_stays_in_place_at_both_points():
    moving, frozen = orthonormal(seed=0), orthonormal(seed=1)
    optimizer = rx.torch.RSRM([{"params": [moving, frozen], "manifold": rx.Stiefel(8, 3)}], lr=0.1)
    seen = []

    def closure():
        optimizer.zero_grad()
        seen.append(frozen.detach().clone())
        loss = (moving * torch.arange(24.0, dtype=torch.float64).reshape(8, 3)).sum() + (frozen[0] * moving[0]).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    frozen.requires_grad_(False)
    before = frozen.detach().clone()
    optimizer.step(closure)
    assert same(seen[1:], [before, before])
    assert (optimizer.state[moving]["step"], optimizer.state[frozen]["step"]) == (2, 1)


def test_a_parameter_that_joins_later_starts_with_its_own_first_step():
    first, late = orthonormal(seed=0), orthonormal(seed=1)
    optimizer = rx.torch.RSRM([{"params": [first], "manifold": rx.Stiefel(8, 3)}], lr=0.1)
    weights = torch.arange(24.0, dtype=torch.float64).reshape(8, 3)

    def closure():
        optimizer.zero_grad()
        loss = (weights * first).sum() + (weights * late).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.add_param_group({"params": [late], "manifold": rx.Stiefel(8, 3)})
    start = late.detach().clone()
    optimizer.step(closure)
    assert (optimizer.state[first]["step"], optimizer.state[late]["step"]) == (2, 1)
    manifold = rx.Stiefel(8, 3)
    expected = manifold.retract(start, -0.1 * manifold.gradient(start, weights))
    torch.testing.assert_close(late.detach(), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("make", OPTIMIZERS, ids=lambda m: m.__name__)
def test_stacked_parameters_take_the_same_steps_as_single_ones(make):
    def run(foreach):
        weights = [orthonormal(8, 3, seed) for seed in range(4)]
        optimizer = make([{"params": weights, "manifold": rx.Stiefel(8, 3)}], lr=0.05, foreach=foreach)
        for inputs, _ in batches(6):

            def closure(inputs=inputs):
                optimizer.zero_grad()
                loss = sum(((inputs @ w) ** 2).mean() * (k + 1) for k, w in enumerate(weights))
                loss.backward()
                return loss

            optimizer.step(closure)
        return torch.stack([weight.detach() for weight in weights])

    results = [run(foreach) for foreach in (True, False, None)]
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-13)
    assert torch.equal(results[0], results[2])


def test_a_parameter_with_leading_axes_is_many_points():
    stack = torch.nn.Parameter(torch.stack([orthonormal(seed=k).detach() for k in range(3)]))
    singles = [orthonormal(seed=k) for k in range(3)]
    for parameters in ([stack], singles):
        optimizer = rx.torch.RAMSGrad([{"params": parameters, "manifold": rx.Stiefel(8, 3)}], lr=0.05, foreach=False)
        for inputs, _ in batches(4):
            optimizer.zero_grad()
            sum(((inputs @ p) ** 2).sum() for p in parameters).backward()
            optimizer.step()
    torch.testing.assert_close(stack.detach(), torch.stack([p.detach() for p in singles]), rtol=0, atol=1e-13)


UNTUNED = [rx.torch.RSRM, rx.torch.RDoG, rx.torch.RDoWG, rx.torch.NRDoG, rx.torch.StormPlus]


@pytest.mark.parametrize(
    "make",
    [*(functools.partial(make, lr=0.05) for make in OPTIMIZERS), *UNTUNED],
    ids=lambda make: make.func.__name__ if isinstance(make, functools.partial) else f"{make.__name__} untuned",
)
def test_a_large_batch_steps_in_pieces_as_it_does_whole(make, monkeypatch):
    def run(entries, leading):
        monkeypatch.setattr("retrax.torch.pieces._ENTRIES", entries)
        gaussian = torch.Generator().manual_seed(0)
        weight = torch.nn.Parameter(rx.torch.orthogonal_(torch.empty(*leading, 8, 3, dtype=torch.float64), gaussian))
        optimizer = make([{"params": [weight], "manifold": rx.Stiefel(8, 3, retraction="polar")}])
        factors = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(*leading)
        for inputs, _ in batches(5):

            def closure(inputs=inputs):
                optimizer.zero_grad()
                loss = (((inputs @ weight) ** 2).mean((-2, -1)) * factors).sum()
                loss.backward()
                return loss

            optimizer.step(closure)
        return weight.detach(), jax.tree.leaves(optimizer.state_dict()["state"])

    for leading in ((12,), (12, 1)):
        (whole, state), (pieces, same_state) = run(10**6, leading), run(5 * 24, leading)  # pieces of 5, 5 and 2
        torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-13)
        for expected, found in zip(state, same_state, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_bad_gradient_in_the_last_piece_moves_no_piece(monkeypatch):
    monkeypatch.setattr("retrax.torch.pieces._ENTRIES", 2 * 24)
    weight = torch.nn.Parameter(rx.torch.orthogonal_(torch.empty(9, 8, 3), torch.Generator().manual_seed(0)))
    before = weight.detach().clone()
    optimizer = rx.torch.MARS([{"params": [weight], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    weight.grad = torch.ones_like(weight)
    weight.grad[-1, 0, 0] = torch.nan
    with pytest.raises(RuntimeError, match="no parameter has moved"):
        optimizer.step()
    assert torch.equal(weight, before)
    assert not optimizer.state


# --- step sizes ----------------------------------------------------------------------------------------------


def recorded_lengths(optimizer, steps, scheduler=None):
    """‖x_{t+1} - x_t‖ for a linear loss on Euclidean space: the step size itself, for a gradient of norm one."""
    (parameter,) = optimizer.param_groups[0]["params"]
    lengths = []
    for _ in range(steps):
        before = parameter.detach().clone()

        def closure():
            optimizer.zero_grad()
            loss = parameter[0]
            loss.backward()
            return loss

        optimizer.step(closure)
        lengths.append(float((parameter.detach() - before).norm()))
        if scheduler is not None:
            scheduler.step()
    return lengths


def point():
    return torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))


def test_lr_and_the_methods_own_decay_multiply():
    lengths = recorded_lengths(rx.torch.RSRM([point()], lr=0.5), 5)
    assert lengths == pytest.approx([0.5 * t ** (-1 / 3) for t in range(1, 6)], rel=1e-12)
    lengths = recorded_lengths(rx.torch.RSGD([point()], lr=0.5), 5)
    assert lengths == pytest.approx([0.5 * t ** (-1 / 2) for t in range(1, 6)], rel=1e-12)
    lengths = recorded_lengths(rx.torch.RSGD([point()], lr=0.5, decay=False), 5)
    assert lengths == pytest.approx([0.5] * 5, rel=1e-12)


def test_lr_may_be_a_tensor():
    lengths = recorded_lengths(rx.torch.RSRM([point()], lr=torch.tensor(0.5, dtype=torch.float64)), 3)
    assert lengths == pytest.approx([0.5 * t ** (-1 / 3) for t in range(1, 4)], rel=1e-12)


def test_rho_may_be_held_constant():
    for rho_decay, expected in ((True, 0.3 * 8 ** (-2 / 3)), (False, 0.3)):
        optimizer = rx.torch.RSRM([point()], lr=0.1, rho=0.3, rho_decay=rho_decay)
        assert optimizer._method(optimizer.param_groups[0]).estimator.rho(8.0) == pytest.approx(expected)


def test_schedulers_multiply_into_the_step_size_down_to_zero():
    optimizer = rx.torch.RSRM([point()], lr=0.5)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.0, total_iters=4)
    lengths = recorded_lengths(optimizer, 5, scheduler)
    expected = [0.5 * (1 - (t - 1) / 4) * t ** (-1 / 3) for t in range(1, 6)]
    assert lengths == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_one_cycle_drives_lr_and_momentum():
    optimizer = rx.torch.CSGDM([point()], lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=10)
    used = []
    for _ in range(9):
        recorded_lengths(optimizer, 1, scheduler)
        used.append(optimizer._method(optimizer.param_groups[0]).estimator.beta(1.0))
    assert min(used) == pytest.approx(0.85)
    assert max(used) == pytest.approx(0.95)


def test_an_option_changed_in_the_group_takes_effect():
    optimizer = rx.torch.RSRM([point()], lr=0.1)
    group = optimizer.param_groups[0]
    group["rho"] = 1.0
    assert optimizer._method(group).estimator.rho(1.0) == 1.0


def test_maximize_goes_uphill():
    parameter = point()
    optimizer = rx.torch.RSRM([parameter], lr=0.5, maximize=True)
    recorded_lengths(optimizer, 3)
    assert parameter[0] > 0.5


# --- restarts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", TWO_POINT)
def test_restart_evaluates_once_and_forgets(make):
    model = Network()
    optimizer = make(model.groups(), lr=0.05)
    data = batches(5)
    train(model, optimizer, data[:3])
    calls = []
    closure = closure_of(model, optimizer, data[3])
    before = model.first.detach().clone()
    optimizer.restart(lambda: (calls.append(1), closure())[1])
    assert len(calls) == 1
    manifold = rx.Stiefel(8, 4)
    decay = 4 ** (-1 / 3) if make is rx.torch.RSRM else 1.0
    expected = manifold.retract(before, -0.05 * decay * manifold.gradient(before, model.first.grad))
    torch.testing.assert_close(model.first.detach(), expected, rtol=0, atol=1e-14)


def test_a_restart_at_every_step_is_rsgd():
    results = []
    for make in (rx.torch.RSRM, rx.torch.RSGD):
        model = Network()
        optimizer = make(model.groups(), lr=0.05, decay=False)
        for batch in batches(5):
            optimizer.step(closure_of(model, optimizer, batch), restart=True)
        results.append(bits(model))
    assert same(*results)


# --- mixed precision -----------------------------------------------------------------------------------------


def test_bfloat16_autocast_inside_the_closure():
    parameter = orthonormal(dtype=torch.float32)
    optimizer = rx.torch.RSRM([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    inputs = batches(1)[0][0].float()

    def closure():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (inputs @ parameter).square().mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(30)]
    assert losses[-1] < losses[0]
    assert parameter.dtype == torch.float32
    assert max(rx.torch.violation(optimizer).values()) < 1e-6


def scaled_problem(make, scale):
    parameter = orthonormal(dtype=torch.float32)
    optimizer = make([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
    inputs = batches(1)[0][0].float()

    def closure():
        optimizer.zero_grad()
        loss = (inputs @ parameter).square().mean()
        scaler.scale(loss).backward()
        return loss

    return parameter, optimizer, scaler, closure


def test_a_grad_scaler_drives_one_point_methods_the_usual_way():
    parameter, optimizer, scaler, closure = scaled_problem(rx.torch.RSGD, 2.0**10)
    reference = orthonormal(dtype=torch.float32)
    reference_optimizer = rx.torch.RSGD([{"params": [reference], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    for _ in range(3):
        closure()
        scaler.step(optimizer)
        scaler.update()
        reference_optimizer.zero_grad()
        (batches(1)[0][0].float() @ reference).square().mean().backward()
        reference_optimizer.step()
    torch.testing.assert_close(parameter, reference, rtol=0, atol=1e-6)


def test_a_two_point_step_takes_the_scaler_and_unscales_both_gradients():
    results = []
    for scale in (1.0, 2.0**12):
        parameter, optimizer, scaler, closure = scaled_problem(rx.torch.RSRM, scale)
        for _ in range(5):
            optimizer.step(closure, scaler=scaler)
            scaler.update()
        results.append(parameter.detach())
    assert torch.equal(*results)


@pytest.mark.parametrize("bad_call", [0, 1], ids=["at the second point", "at the current point"])
def test_an_infinite_gradient_at_either_point_skips_the_step_and_lowers_the_scale(bad_call):
    parameter, optimizer, scaler, closure = scaled_problem(rx.torch.RSRM, 2.0**10)
    optimizer.step(closure, scaler=scaler)
    scaler.update()
    before, state = parameter.detach().clone(), optimizer.state[parameter]
    calls = []

    def overflowing():
        loss = closure()
        if len(calls) == bad_call:
            parameter.grad[0, 0] = torch.inf
        calls.append(1)
        return loss

    optimizer.step(overflowing, scaler=scaler)
    scaler.update()
    assert torch.equal(parameter, before)
    assert optimizer.state[parameter] is state
    assert scaler.get_scale() == 2.0**9
    optimizer.step(closure, scaler=scaler)
    scaler.update()
    assert not torch.equal(parameter, before)


def test_a_disabled_scaler_changes_nothing():
    parameter, optimizer, _, _ = scaled_problem(rx.torch.RSRM, 1.0)
    scaler = torch.amp.GradScaler("cpu", enabled=False)

    def closure():
        loss = parameter[0].square().sum()
        scaler.scale(loss).backward()
        return loss

    for _ in range(3):
        optimizer.step(closure, scaler=scaler)
    assert optimizer.state[parameter]["step"] == 3


def test_gradient_clipping_inside_the_closure():
    parameter = point()
    optimizer = rx.torch.RSRM([parameter], lr=1.0, decay=False)

    def closure():
        optimizer.zero_grad()
        loss = 100 * parameter[0]
        loss.backward()
        torch.nn.utils.clip_grad_norm_([parameter], 0.5)
        return loss

    for _ in range(4):
        optimizer.step(closure)
    assert parameter[0].item() == pytest.approx(-2.0, rel=1e-5)


# --- recipes of one's own ------------------------------------------------------------------------------------


def test_a_subclass_with_a_recipe_is_an_optimizer():
    class RSRMWithRows(rx.torch.RiemannianOptimizer):
        recipe = staticmethod(lambda lr, rho: rx.rsrm(lr, rho, scaling=rx.scalings.RASA(0.9, 1e-8, "L")))

    parameter = orthonormal()
    optimizer = RSRMWithRows([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.02, rho=0.5)

    def closure():
        optimizer.zero_grad()
        loss = parameter[0].square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(40)]
    assert losses[-1] < losses[0]


# --- both points in one pass ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*TWO_POINT, rx.torch.CSGDM], ids=lambda m: m.__name__)
def test_both_points_in_one_pass_are_the_steps_of_a_closure(make):
    results = []
    for together in (False, True):
        model = Network(dropout=0.3)
        optimizer = make(model.groups(), lr=0.05)
        torch.manual_seed(4)
        for inputs, targets in batches(4):
            if together:
                entropy = functools.partial(torch.nn.functional.cross_entropy, target=targets)
                loss = optimizer.step_on(model, entropy, inputs)
            else:
                loss = optimizer.step(closure_of(model, optimizer, (inputs, targets)))
        results.append([loss, *bits(model)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_one_pass_needs_a_module_with_all_parameters():
    model, outside = Network(), orthonormal()
    optimizer = rx.torch.RSRM([*model.groups(), {"params": [outside], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    with pytest.raises(ValueError, match=r"holds all parameters of the optimizer; use step\(closure\)"):
        optimizer.step_on(model, torch.sum, batches(1)[0][0])
