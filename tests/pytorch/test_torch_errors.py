"""Bad input is refused at the call, with advice; a failing closure leaves the parameters where they were."""

import pytest
import torch

import retrax as rx
import retrax.torch


def orthonormal(d=8, r=3):
    tensor = torch.empty(d, r, dtype=torch.float64)
    return torch.nn.Parameter(rx.torch.orthogonal_(tensor, torch.Generator().manual_seed(0)))


def rsrm(parameter, **options):
    return rx.torch.RSRM([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.1, **options)


def test_a_two_point_method_without_a_closure():
    for make in (rx.torch.RSRM, rx.torch.RSVRG, rx.torch.RSRG):
        with pytest.raises(TypeError, match=rf"{make.__name__} needs the gradient at two points.*step\(closure\)"):
            make([torch.nn.Parameter(torch.zeros(2))], lr=0.1).step()


@pytest.mark.parametrize("make", [rx.torch.RSRM, rx.torch.RSGD])
def test_a_closure_that_returns_none(make):
    parameter = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(TypeError, match="the closure returned None"):
        make([parameter], lr=0.1).step(lambda: parameter.sum().backward())


def test_sparse_gradients():
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    optimizer = rx.torch.RSGD(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(RuntimeError, match="RSGD does not support sparse gradients"):
        optimizer.step()


@pytest.mark.parametrize(
    ("manifold", "shape", "initialiser"),
    [
        (rx.Stiefel(8, 3), (8, 3), "orthogonal_"),
        (rx.Grassmann(8, 3), (8, 3), "orthogonal_"),
        (rx.Sphere(4), (4,), "unit_"),
        (rx.SPD(4), (4, 4), "positive_definite_"),
    ],
)
def test_a_parameter_off_its_manifold_is_named_with_the_remedy(manifold, shape, initialiser):
    parameter = torch.nn.Parameter(-2 * torch.ones(shape))
    message = rf"group 0, parameter 0 is not on .*rx\.torch\.{initialiser}\(parameter\)"
    with pytest.raises(ValueError, match=message):
        rx.torch.RSRM([{"params": [parameter], "manifold": manifold}], lr=0.1)
    getattr(rx.torch, initialiser)(parameter)
    rx.torch.RSRM([{"params": [parameter], "manifold": manifold}], lr=0.1)


def test_named_parameters_are_called_by_name():
    module = torch.nn.Linear(3, 8)
    named = [{"params": [("weight", module.weight)], "manifold": rx.Stiefel(8, 3)}]
    with pytest.raises(ValueError, match=r"^weight is not on Stiefel\(8, 3"):
        rx.torch.RSRM(named, lr=0.1)
    rx.torch.orthogonal_(module.weight)
    assert list(rx.torch.violation(rx.torch.RSRM(named, lr=0.1))) == ["weight"]


def test_a_shape_that_does_not_fit_names_both_shapes():
    with pytest.raises(ValueError, match=r"has shape \(3, 8\), but a point on Stiefel\(8, 3.* has shape \(8, 3\)"):
        rsrm(torch.nn.Parameter(torch.zeros(3, 8)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rho": 2.0}, ValueError, "rho must lie between 0 and 1"),
        ({"rho": "large"}, (TypeError, ValueError), "rho|number"),
        ({"rho": rx.schedules.constant(0.5)}, TypeError, "rho must be a number, so that it can be saved"),
        ({"decay": "none"}, ValueError, "decay must be True or False"),
        ({"maximize": 1}, ValueError, "maximize must be True or False"),
        ({"foreach": 0}, ValueError, "foreach must be True or False or None"),
        ({"weight_decay": "large"}, ValueError, "weight_decay must be a finite number"),
        ({"nesterov": True}, TypeError, "nesterov"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        rsrm(orthonormal(), **options)


@pytest.mark.parametrize("lr", [-0.1, float("nan"), float("inf"), "0.1", True, None])
def test_bad_learning_rates(lr):
    with pytest.raises(ValueError, match="lr must be a finite number"):
        rx.torch.RSGD([orthonormal()], lr=lr)


def test_an_unknown_key_in_a_group_is_not_ignored():
    with pytest.raises(ValueError, match=r"RSRM has no option 'manifolds'; a group may set lr, manifold, decay"):
        rx.torch.RSRM([{"params": [orthonormal()], "manifolds": rx.Stiefel(8, 3)}], lr=0.1)


def test_a_refused_group_is_not_added():
    optimizer = rsrm(orthonormal())
    with pytest.raises(ValueError, match="has shape"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))], "manifold": rx.Sphere(3)})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("manifold", "error", "message"),
    [
        ("stiefel", TypeError, "manifold must be a retrax manifold"),
        (rx.Product((rx.Stiefel(8, 3),)), ValueError, "give each factor .* a group of its own"),
    ],
)
def test_what_is_no_manifold_for_a_parameter(manifold, error, message):
    with pytest.raises(error, match=message):
        rx.torch.RSGD([{"params": [orthonormal()], "manifold": manifold}], lr=0.1)


def test_complex_parameters():
    with pytest.raises(TypeError, match="real floating-point"):
        rx.torch.RSGD([torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))], lr=0.1)


def test_a_nan_gradient_on_stiefel_says_what_may_be_wrong():
    parameter = orthonormal()
    optimizer = rx.torch.RSGD([{"params": [parameter], "manifold": rx.Stiefel(8, 3)}], lr=0.1)
    parameter.grad = torch.full_like(parameter, torch.nan)
    before = parameter.detach().clone()
    with pytest.raises(
        RuntimeError, match=r"group 0, parameter 0.*gradient holds NaN or infinite entries.*no parameter has moved"
    ):
        optimizer.step()
    assert torch.equal(parameter, before)


def test_a_closure_that_fails_at_the_second_point_leaves_everything_in_place():
    parameter = orthonormal()
    optimizer = rsrm(parameter)
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("batch")
        loss = parameter[0].sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    before = parameter.detach().clone()
    state = optimizer.state[parameter]
    calls.append(1)
    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert torch.equal(parameter, before)
    assert optimizer.state[parameter] is state


# --- initialisers and violation ------------------------------------------------------------------------------


def test_initialisers_follow_their_generator_and_keep_dtype_and_identity():
    cases = (
        (rx.torch.orthogonal_, (2, 6, 3), rx.Stiefel(6, 3)),
        (rx.torch.positive_definite_, (2, 4, 4), rx.SPD(4)),
        (rx.torch.unit_, (2, 5), rx.Sphere(5)),
    )
    for fill, shape, manifold in cases:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            tensor = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
            assert fill(tensor, torch.Generator().manual_seed(1)) is tensor
            again = fill(torch.zeros(shape, dtype=dtype), torch.Generator().manual_seed(1))
            other = fill(torch.zeros(shape, dtype=dtype), torch.Generator().manual_seed(2))
            assert tensor.dtype == dtype
            assert torch.equal(tensor, again)
            assert not torch.equal(again, other)
            if dtype != torch.bfloat16:
                assert float(manifold.violation(again).max()) < 20 * torch.finfo(dtype).eps


def test_points_of_any_manifold():
    for manifold in (rx.PoincareBall(4), rx.Lorentz(3), rx.FixedRank(5, 4, 2), rx.Simplex(5), rx.SpecialOrthogonal(3)):
        tensor = torch.zeros(2, *manifold.ambient_shape, dtype=torch.float64)
        assert rx.torch.point_(tensor, manifold, torch.Generator().manual_seed(1)) is tensor
        manifold.check_point(tensor)
    with pytest.raises(ValueError, match="the tensor has shape"):
        rx.torch.point_(torch.zeros(3), rx.PoincareBall(4))
    with pytest.raises(ValueError, match="one by one"):
        rx.torch.point_(torch.zeros(3), rx.Product((rx.Sphere(3), rx.Sphere(3))))


def test_initialisers_refuse_shapes_that_cannot_be():
    with pytest.raises(ValueError, match="is empty: r must be at most d"):
        rx.torch.orthogonal_(torch.zeros(3, 8))
    with pytest.raises(ValueError, match="needs square matrices"):
        rx.torch.positive_definite_(torch.zeros(3, 8))
    with pytest.raises(ValueError, match="needs matrices"):
        rx.torch.orthogonal_(torch.zeros(3))
    with pytest.raises(ValueError, match="at least one axis"):
        rx.torch.unit_(torch.tensor(1.0))


def test_violation_of_a_module():
    module = torch.nn.Linear(3, 8, dtype=torch.float64)
    rx.torch.orthogonal_(module.weight)
    manifolds = {"weight": rx.Stiefel(8, 3)}
    assert rx.torch.violation(module, manifolds)["weight"] < 1e-14
    with torch.no_grad():
        module.weight[0] += 0.5
    assert rx.torch.violation(module, manifolds)["weight"] > 1e-2
    with pytest.raises(ValueError, match="no parameter 'wieght'; it has weight, bias"):
        rx.torch.violation(module, {"wieght": rx.Stiefel(8, 3)})
    with pytest.raises(ValueError, match="give manifolds="):
        rx.torch.violation(module)
    with pytest.raises(TypeError, match="knows no manifolds"):
        rx.torch.violation(torch.optim.SGD(module.parameters(), lr=0.1))
    with pytest.raises(TypeError, match="goes with a module"):
        rx.torch.violation(torch.optim.SGD(module.parameters(), lr=0.1), manifolds)
