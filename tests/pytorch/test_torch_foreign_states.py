"""State dicts of another method, manifold or model are refused at load, with both named, and nothing is changed."""

import itertools

import pytest
import torch
from small_network import OPTIMIZERS

import retrax as rx
import retrax.torch


def optimizer_of(make, *shape):
    """An optimizer of one matrix that has taken two steps."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(*shape, dtype=torch.float64))
    optimizer = make([weight], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return optimizer, closure


def test_every_other_method_is_refused_by_name():
    made = {make: optimizer_of(make, 5, 3)[0] for make in OPTIMIZERS}
    for one, other in itertools.permutations(OPTIMIZERS, 2):
        with pytest.raises(ValueError, match=f"saved by {one.__name__}, but this optimizer is {other.__name__}"):
            made[other].load_state_dict(made[one].state_dict())


@pytest.mark.parametrize("make", OPTIMIZERS, ids=lambda make: make.__name__)
def test_states_without_a_name_are_refused_by_what_they_hold(make):
    """As files have them that were written before the name was."""
    optimizer, closure = optimizer_of(make, 5, 3)
    own = optimizer.state_dict()
    del own["param_groups"][0]["method"]
    optimizer.load_state_dict(own)
    optimizer.step(closure)
    smaller = optimizer_of(make, 1, 3)[0].state_dict()
    if make is not rx.torch.RSGD:  # it keeps nothing but a counter
        with pytest.raises(ValueError, match=r"group 0 holds .*for a parameter of shape \(5, 3\)"):
            optimizer.load_state_dict(smaller)


def test_what_is_not_a_state_of_ours_is_refused():
    optimizer, closure = optimizer_of(rx.torch.RSRM, 5, 3)
    before = optimizer.state_dict()
    for foreign in ({}, [], {"state": {}, "param_groups": []}, torch.optim.SGD([torch.zeros(1)], lr=1.0).state_dict()):
        with pytest.raises(ValueError, match=r"state_dict of an optimizer|groups were saved|not Retrax's"):
            optimizer.load_state_dict(foreign)
    assert str(optimizer.state_dict()) == str(before)
    optimizer.step(closure)
