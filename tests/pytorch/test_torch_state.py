"""Saving and resuming: the same bits as without an interruption, in files that torch loads without trusting anyone."""

import copy
import pickle

import pytest
import torch
from small_network import OPTIMIZERS, Network, batches, bits, closure_of, same, train

import retrax as rx
import retrax.torch


class MatrixNetwork(Network):
    """For RASA: matrices only."""

    def __init__(self, **options):
        super().__init__(**options)
        self.last = torch.nn.Linear(8, 2, bias=False, dtype=torch.float64)


def model_for(make):
    return MatrixNetwork(dropout=0.2) if make is rx.torch.RASA else Network(dropout=0.2)


def everything(model, optimizer, scheduler):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "random": torch.get_rng_state(),
    }


def parts(make, foreach):
    model = model_for(make)
    optimizer = make(model.groups(), lr=0.05, foreach=foreach)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)


def run(model, optimizer, scheduler, data):
    for batch in data:
        optimizer.step(closure_of(model, optimizer, batch))
        scheduler.step()


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("make", OPTIMIZERS, ids=lambda m: m.__name__)
def test_resumed_training_gives_the_same_bits(make, foreach, tmp_path):
    data = batches(12)
    torch.manual_seed(0)
    model, optimizer, scheduler = parts(make, foreach)
    run(model, optimizer, scheduler, data[:7])
    torch.save(everything(model, optimizer, scheduler), tmp_path / "checkpoint.pt")
    run(model, optimizer, scheduler, data[7:])

    resumed, new_optimizer, new_scheduler = parts(make, foreach)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    resumed.load_state_dict(saved["model"])
    new_optimizer.load_state_dict(saved["optimizer"])
    new_scheduler.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["random"])
    run(resumed, new_optimizer, new_scheduler, data[7:])
    assert same(bits(model), bits(resumed))
    assert optimizer.param_groups[0]["lr"] == new_optimizer.param_groups[0]["lr"]


def test_a_state_dict_keeps_its_numbers_while_training_goes_on():
    model = Network()
    optimizer = rx.torch.RSRM(model.groups(), lr=0.05)
    train(model, optimizer, batches(3))
    saved = optimizer.state_dict()
    before = copy.deepcopy(saved)
    train(model, optimizer, batches(3))
    for key in ("point", "vector"):
        assert torch.equal(saved["state"][0]["last"][key], before["state"][0]["last"][key])


def test_a_loaded_state_round_trips_exactly():
    model = Network()
    optimizer = rx.torch.RASA(model.groups()[:1], lr=0.05)
    train(model, optimizer, batches(3))
    saved = optimizer.state_dict()
    other = rx.torch.RASA(Network().groups()[:1], lr=0.5)
    other.load_state_dict(saved)
    again = other.state_dict()
    assert again["param_groups"] == saved["param_groups"]
    first, second = saved["state"][0]["scaling"], again["state"][0]["scaling"]
    assert all(torch.equal(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))
    assert other.param_groups[0]["manifold"] == rx.Stiefel(8, 4)


def test_the_manifold_is_saved_as_its_description_and_compared():
    model = Network()
    saved = rx.torch.RSRM(model.groups(), lr=0.05).state_dict()
    assert saved["param_groups"][0]["manifold"] == "Stiefel(8, 4, retraction='qr', transport='projection')"
    assert saved["param_groups"][1]["manifold"] == "None"
    other = model.groups()
    other[0]["manifold"] = rx.Stiefel(8, 4, transport="rotation")
    optimizer = rx.torch.RSRM(other, lr=0.05)
    with pytest.raises(ValueError, match=r"group 0 was saved with manifold Stiefel\(8, 4.*projection.*rotation"):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_of_an_optimizer_go_on_alike(copied):
    model = Network()
    optimizer = rx.torch.RSRM(model.groups(), lr=0.05)
    data = batches(6)
    train(model, optimizer, data[:3])
    other, other_optimizer = copied((model, optimizer))
    train(model, optimizer, data[3:])
    train(other, other_optimizer, data[3:])
    assert same(bits(model), bits(other))
