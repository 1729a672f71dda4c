"""What the torch tests share: a small network with Stiefel weights, its batches and closures."""

import torch

import retrax as rx
import retrax.torch

OPTIMIZERS = [
    rx.torch.RSRM,
    rx.torch.RSGD,
    rx.torch.CSGDM,
    rx.torch.MARS,
    rx.torch.CRMSProp,
    rx.torch.RAMSGrad,
    rx.torch.RADAM,
    rx.torch.RASA,
    rx.torch.RSVRG,
    rx.torch.RSRG,
]
TWO_POINT = [rx.torch.RSRM, rx.torch.RSVRG, rx.torch.RSRG]


def orthonormal(d=8, r=3, seed=0, dtype=torch.float64):
    tensor = torch.empty(d, r, dtype=dtype)
    return torch.nn.Parameter(rx.torch.orthogonal_(tensor, torch.Generator().manual_seed(seed)))


class Network(torch.nn.Module):
    """Stiefel weights, a Euclidean layer, and dropout."""

    def __init__(self, dropout=0.0, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first = orthonormal(8, 4, seed)
        self.second = orthonormal(8, 4, seed + 1)
        self.dropout = torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(8, 2, dtype=torch.float64)

    def forward(self, x):
        hidden = torch.cat([x @ self.first, x @ self.second], dim=-1)
        return self.last(self.dropout(torch.relu(hidden)))

    def groups(self):
        return [
            {"params": [self.first, self.second], "manifold": rx.Stiefel(8, 4)},
            {"params": self.last.parameters(), "lr": 0.02},
        ]


def closure_of(model, optimizer, batch, **zero_grad):
    inputs, targets = batch

    def closure():
        optimizer.zero_grad(**zero_grad)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    return closure


def batches(count, seed=5):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 16, 8, dtype=torch.float64, generator=generator)
    return [(one, (one[:, 0] * one[:, 1] > 0).long()) for one in inputs]


def train(model, optimizer, data, **zero_grad):
    return [optimizer.step(closure_of(model, optimizer, batch, **zero_grad)) for batch in data]


def bits(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
