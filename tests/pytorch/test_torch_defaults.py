"""Defaults that train, methods without a learning rate, weight decay, coarse dtypes, compiled steps."""

import copy

import numpy as np
import pytest
import torch
from small_network import Network, batches, bits, closure_of, orthonormal, same, train

import retrax as rx
import retrax.torch
from retrax.typing import Step

PCA_SPECTRUM = torch.linspace(3.0, 0.3, 12, dtype=torch.float64)


def pca_batches(count, size=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, 12, dtype=torch.float64, generator=generator) * PCA_SPECTRUM for _ in range(count)]


def pca_closure(weight, optimizer, batch):
    def closure():
        optimizer.zero_grad()
        loss = -(batch @ weight).square().sum() / len(batch)
        loss.backward()
        return loss

    return closure


def test_rsrm_without_a_number_finds_the_subspace_at_any_scale():
    for scale in (1e-3, 1.0, 1e3):
        weight = orthonormal(12, 2)
        optimizer = rx.torch.RSRM([{"params": [weight], "manifold": rx.Grassmann(12, 2)}])
        for batch in pca_batches(150):
            optimizer.step(pca_closure(weight, optimizer, scale * batch))
        # The leading subspace is that of the first two coordinates.
        overlap = torch.linalg.svdvals(weight.detach()[:2])
        assert float(overlap.min()) > 0.97


class Undivided:
    """An oracle of one batch that cannot be divided, for the same method in NumPy."""

    size = 1

    def __init__(self, manifold, batch):
        self.manifold, self.batch = manifold, batch

    def __call__(self, x):
        return self.manifold.gradient(x, -2 * self.batch.T @ (self.batch @ x) / len(self.batch))

    def pair(self, x, y):
        return self(x), self(y)

    def parts(self, first):
        return None


def test_rsrm_without_a_number_takes_the_steps_of_the_core():
    manifold, weight = rx.Stiefel(12, 2), orthonormal(12, 2)
    optimizer = rx.torch.RSRM([{"params": [weight], "manifold": manifold}])
    method, x = rx.rsrm(), weight.detach().numpy().copy()
    state = method.init(manifold, x)
    for t, batch in enumerate(pca_batches(30), start=1):
        optimizer.step(pca_closure(weight, optimizer, batch))
        advance = method.restart if t == 1 else method.step
        x, state = advance(manifold, Undivided(manifold, batch.numpy()), x, state, float(t))
    assert isinstance(state.last, Step)
    np.testing.assert_allclose(weight.detach().numpy(), x, atol=1e-11)


def test_one_of_the_two_may_be_automatic():
    for options in ({"lr": 0.05, "rho": "auto"}, {"rho": 0.2}):
        weight = orthonormal(12, 2)
        optimizer = rx.torch.RSRM([{"params": [weight], "manifold": rx.Grassmann(12, 2)}], **options)
        losses = [optimizer.step(pca_closure(weight, optimizer, batch)) for batch in pca_batches(60)]
        assert losses[-1] < losses[0]
    with pytest.raises(ValueError, match="rho must be a number between 0 and 1, or 'auto'"):
        rx.torch.RSRM([torch.nn.Parameter(torch.zeros(2))], rho="large")
    with pytest.raises(ValueError, match="step_size must be 'auto' or 'schedule'"):
        rx.torch.RSRM([torch.nn.Parameter(torch.zeros(2))], step_size="none")


def test_untuned_training_resumes_to_the_same_bits():
    data = batches(10)
    model = Network()
    optimizer = rx.torch.RSRM(model.groups())
    train(model, optimizer, data[:6])
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, data[6:])
    resumed = Network()
    again = rx.torch.RSRM(resumed.groups())
    resumed.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(resumed, again, data[6:])
    assert same(bits(model), bits(resumed))


def test_defaults_are_those_of_networks():
    parameter = [torch.nn.Parameter(torch.zeros(2))]
    assert rx.torch.CSGDM(parameter, lr=0.1).defaults["momentum"] == 0.9
    for make in (rx.torch.RAMSGrad, rx.torch.RADAM):
        assert make(parameter, lr=0.1).defaults["momentum"] == 0.9
        assert make(parameter, lr=0.1).defaults["beta"] == 0.999
    assert rx.torch.CRMSProp(parameter, lr=0.1).defaults["beta"] == 0.999


def test_weight_decay_is_decoupled_and_may_differ_between_groups():
    first, second = (torch.nn.Parameter(torch.full((3,), 2.0, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "weight_decay": 0.0}]
    optimizer = rx.torch.RADAM(groups, lr=0.1, weight_decay=0.5)
    for parameter in (first, second):
        parameter.grad = torch.ones(3, dtype=torch.float64)
    optimizer.step()
    # Adam's first step is lr g / ‖g‖; the decay of 0.1 · 0.5 · 2 is beside it, not divided by anything.
    step = 0.1 / np.sqrt(3)
    np.testing.assert_allclose(second.detach().numpy(), 2 - step, atol=1e-8)
    np.testing.assert_allclose(first.detach().numpy(), 2 - step - 0.1, atol=1e-8)
    with pytest.raises(ValueError, match="weight_decay must be a finite number"):
        rx.torch.RSGD([first], lr=0.1, weight_decay=-1)


# --- coarse dtypes -------------------------------------------------------------------------------------------


def coarse_run(steps, parameter, optimizer):
    inputs = batches(1)[0][0].float()
    for _ in range(steps):
        optimizer.zero_grad()
        (inputs @ parameter.float()).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_coarse_parameter_is_the_rounding_of_an_exact_point(dtype):
    parameter = torch.nn.Parameter(orthonormal().detach().to(dtype))
    optimizer = rx.torch.MARS([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    coarse_run(200, parameter, optimizer)
    exact = optimizer.state[parameter]["exact"]
    assert exact.dtype == torch.float32
    assert torch.equal(exact.to(dtype), parameter)
    assert float(rx.Stiefel(8, 3).violation(exact)) < 1e-6
    # Small steps are not lost: the same run in single precision ends nearby.
    reference = torch.nn.Parameter(orthonormal().detach().to(dtype).float())
    rx.torch.retract_(reference, rx.Stiefel(8, 3))
    single = rx.torch.MARS([{"params": [reference], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    coarse_run(200, reference, single)
    assert float((exact - reference.detach()).abs().max()) < 0.05


def test_a_coarse_state_is_saved_and_loaded_without_rounding():
    parameter = torch.nn.Parameter(orthonormal().detach().bfloat16())
    optimizer = rx.torch.MARS([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    coarse_run(3, parameter, optimizer)
    twin = torch.nn.Parameter(parameter.detach().clone())
    other = rx.torch.MARS([{"params": [twin], "manifold": rx.Stiefel(8, 3)}], lr=0.05)
    other.load_state_dict(optimizer.state_dict())
    assert torch.equal(other.state[twin]["exact"], optimizer.state[parameter]["exact"])
    coarse_run(3, parameter, optimizer)
    coarse_run(3, twin, other)
    assert torch.equal(other.state[twin]["exact"], optimizer.state[parameter]["exact"])


def test_a_coarse_parameter_that_somebody_has_changed_is_taken_as_it_is():
    parameter = torch.nn.Parameter(orthonormal().detach().bfloat16())
    optimizer = rx.torch.RSGD([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=1e-6)
    coarse_run(2, parameter, optimizer)
    other = orthonormal(seed=5).detach()
    with torch.no_grad():
        parameter.copy_(other)
    coarse_run(1, parameter, optimizer)
    assert float((parameter.detach().float() - other).abs().max()) < 0.02


# --- products instead of factorisations, and compiled steps --------------------------------------------------


@pytest.mark.parametrize("length", [0.0, 1e-5, 1e-3, 0.02, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_polar_retraction_of_a_batch_is_that_of_a_decomposition(length, dtype):
    manifold = rx.Stiefel(9, 4, retraction="polar")
    generator = torch.Generator().manual_seed(0)
    x = rx.torch.orthogonal_(torch.empty(6, 9, 4, dtype=dtype), generator)
    u = manifold.project(x, torch.randn(6, 9, 4, dtype=dtype, generator=generator))
    u = length * u / torch.linalg.matrix_norm(u, 2)[:, None, None]
    found = manifold.retract(x, u).numpy()
    left, _, right = np.linalg.svd((x + u).numpy().astype(np.float64), full_matrices=False)
    tolerance = 5e-7 if dtype == torch.float32 else 1e-15  # a few roundings of numbers below 1
    np.testing.assert_allclose(found, left @ right, atol=tolerance * (1 + length**2))


@pytest.mark.parametrize("name", ["RSGD", "MARS"])
def test_many_matrices_stay_orthonormal_in_single_precision(name):
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(rx.torch.orthogonal_(torch.empty(20, 32, 32), generator))
    start = weight.detach().clone()
    manifold = rx.Stiefel(32, 32, retraction="polar")
    optimizer = getattr(rx.torch, name)([{"params": [weight], "manifold": manifold}], lr=0.01, decay=False)
    for _ in range(200):
        weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()
    gram = weight.detach().double().mT @ weight.detach().double()
    assert float((gram - torch.eye(32)).abs().max()) < 1e-6
    assert float((weight.detach() - start).abs().max()) > 0.1


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_step_is_the_same_step():
    results = []
    for compiled in (False, True):
        weights = [orthonormal(8, 3, seed, torch.float32) for seed in range(4)]
        optimizer = rx.torch.RSGD([{"params": weights, "manifold": rx.Stiefel(8, 3, retraction="polar")}], lr=0.1)
        step = torch.compile(optimizer.step, backend="eager") if compiled else optimizer.step
        for inputs, _ in batches(3):
            optimizer.zero_grad()
            sum((inputs.float() @ w).square().mean() for w in weights).backward()
            step()
        results.append(torch.stack([w.detach() for w in weights]))
    torch.testing.assert_close(*results, rtol=0, atol=1e-5)


def test_a_network_closure_is_used_in_every_default():
    for make in (rx.torch.RSRM, rx.torch.RDoG, rx.torch.RDoWG, rx.torch.NRDoG, rx.torch.StormPlus):
        model = Network()
        optimizer = make([model.groups()[0], {"params": model.last.parameters()}])
        losses = [optimizer.step(closure_of(model, optimizer, batch)) for batch in batches(1) * 30]
        assert losses[-1] < losses[0], make.__name__
