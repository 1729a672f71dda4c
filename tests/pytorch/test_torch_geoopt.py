"""Parameters of geoopt: its manifolds are mapped to ours, or refused with a reason."""

import subprocess
import sys
import warnings

import pytest
import torch

import retrax as rx
import retrax.torch

with warnings.catch_warnings():
    # geoopt still uses torch.jit.script.
    warnings.simplefilter("ignore", DeprecationWarning)
    import geoopt


def orthonormal(d=8, r=3, seed=0):
    return rx.torch.orthogonal_(torch.empty(d, r, dtype=torch.float64), torch.Generator().manual_seed(seed))


def test_geoopt_parameters_move_as_under_geoopts_own_sgd():
    start = orthonormal()
    cases = (
        (geoopt.EuclideanStiefel(), start),
        (geoopt.Sphere(), start[:, 0].clone()),
        (geoopt.SphereExact(), start[:, 0].clone()),
        (geoopt.SymmetricPositiveDefinite(), start.mT @ torch.diag(torch.arange(1.0, 9.0).double()) @ start),
        (geoopt.PoincareBallExact(c=0.25), 0.9 * start[:, 0]),  # a c whose root single precision has exactly
        (geoopt.Euclidean(), torch.ones(4, dtype=torch.float64)),
    )
    for manifold, tensor in cases:
        theirs = geoopt.ManifoldParameter(tensor.clone(), manifold=manifold)
        ours = geoopt.ManifoldParameter(tensor.clone(), manifold=manifold)
        pairs = (
            (theirs, geoopt.optim.RiemannianSGD([theirs], lr=0.02)),
            (ours, rx.torch.RSGD([ours], lr=0.02, decay=False)),
        )
        for parameter, optimizer in pairs:
            for _ in range(5):
                optimizer.zero_grad()
                weights = torch.arange(1.0, parameter.numel() + 1, dtype=torch.float64).reshape(parameter.shape)
                (weights * parameter).sum().backward()
                optimizer.step()
        assert not torch.equal(ours.detach(), tensor)
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0, atol=1e-11)


def test_rsrm_on_a_geoopt_parameter():
    parameter = geoopt.ManifoldParameter(orthonormal(), manifold=geoopt.EuclideanStiefel())
    optimizer = rx.torch.RSRM([parameter], lr=0.05)

    def closure():
        optimizer.zero_grad()
        loss = parameter[0].square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(40)]
    assert losses[-1] < losses[0]
    assert list(rx.torch.violation(optimizer)) == ["group 0, parameter 0"]
    assert type(optimizer.state[parameter]["last"]["point"]) is torch.Tensor


@pytest.mark.parametrize(
    ("manifold", "shape"),
    [
        (geoopt.CanonicalStiefel(), (8, 3)),
        (geoopt.EuclideanStiefelExact(), (8, 3)),
        (geoopt.PoincareBall(), (3,)),
        (geoopt.Lorentz(), (3,)),
        (geoopt.Sphere(intersection=torch.eye(4)[:, :2]), (4,)),
        (geoopt.Scaled(geoopt.Sphere(), 2.0), (4,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_manifolds_without_a_counterpart_are_refused_with_advice(manifold, shape):
    parameter = geoopt.ManifoldParameter(torch.zeros(shape), manifold=manifold)
    with pytest.raises(ValueError, match=r"no counterpart of geoopt's .*name it in the group"):
        rx.torch.RSGD([parameter], lr=0.1)


def test_the_canonical_metric_is_named():
    parameter = geoopt.ManifoldParameter(orthonormal(), manifold=geoopt.Stiefel())
    with pytest.raises(ValueError, match=r"canonical metric; geoopt.EuclideanStiefel\(\) has a counterpart"):
        rx.torch.RSGD([parameter], lr=0.1)
    # The group's manifold is a choice of the user's, and is taken.
    optimizer = rx.torch.RSGD([{"params": [parameter], "manifold": rx.Grassmann(8, 3)}], lr=0.1)
    assert rx.torch.violation(optimizer)["group 0, parameter 0"] < 1e-14


def test_violation_of_a_module_with_geoopt_parameters_needs_no_manifolds():
    module = torch.nn.Module()
    module.weight = geoopt.ManifoldParameter(orthonormal(), manifold=geoopt.EuclideanStiefel())
    assert rx.torch.violation(module) == {"weight": pytest.approx(0, abs=1e-14)}


def test_geoopt_is_never_imported():
    code = "import retrax.torch, sys; assert 'geoopt' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
