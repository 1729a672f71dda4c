"""PCA on the Grassmann manifold in PyTorch: RSRM against RSGD at the same number of gradients.

python examples/torch_pca.py [--samples 5000] [--gradients N]

The leading 5-dimensional subspace of a 50-dimensional cloud, found from mini-batches of 5. RSRM evaluates every
mini-batch at two points, so it takes half as many steps for the same number of gradients. Each has the best lr of
{0.2, 0.1, 0.05, 0.02}. The gap is F(x) - min F, known from an eigendecomposition.
"""

import argparse

import torch

import retrax as rx
import retrax.torch

DIMENSION, RANK, BATCH, FIRST_BATCH = 50, 5, 5, 100


def make_samples(count: int, generator: torch.Generator) -> torch.Tensor:
    """Gaussian samples whose spectrum decays, with a gap after the leading directions."""
    scales = 0.9 ** torch.arange(DIMENSION, dtype=torch.float64)
    scales[RANK:] *= 0.5
    return torch.randn(count, DIMENSION, dtype=torch.float64, generator=generator) * scales


def loss(basis: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    """f_S(U) = -mean ‖Uᵀx‖² over the batch."""
    return -(batch @ basis).square().sum(-1).mean()


def fit(make: type[rx.torch.RiemannianOptimizer], lr: float, samples: torch.Tensor, gradients: int) -> torch.Tensor:
    """Spend so many gradients on finding the subspace, and return a basis of it."""
    generator = torch.Generator().manual_seed(1)
    basis = torch.nn.Parameter(torch.empty(DIMENSION, RANK, dtype=torch.float64))
    rx.torch.orthogonal_(basis, generator)
    optimizer = make([{"params": [basis], "manifold": rx.Grassmann(DIMENSION, RANK)}], lr=lr)
    points = 2 if make is rx.torch.RSRM else 1
    size, spent = FIRST_BATCH, 0
    while spent < gradients:
        batch = samples[torch.randint(len(samples), (size,), generator=generator)]

        def closure(batch: torch.Tensor = batch) -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(basis, batch)
            value.backward()
            return value

        optimizer.step(closure)
        spent += size if size == FIRST_BATCH else points * size
        size = BATCH
    assert max(rx.torch.violation(optimizer).values()) < 1e-12
    return basis.detach()


def main() -> None:
    """Compare the two methods."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--gradients", type=int, default=20_000, help="gradient evaluations that each method may spend")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are too small to share
    samples = make_samples(arguments.samples, torch.Generator().manual_seed(0))
    optimum = -torch.linalg.eigvalsh(samples.mT @ samples / len(samples))[-RANK:].sum()
    for make, lr in ((rx.torch.RSRM, 0.05), (rx.torch.RSGD, 0.1)):
        gap = loss(fit(make, lr, samples, arguments.gradients), samples) - optimum
        print(f"{make.__name__}: gap {gap:.2e} after {arguments.gradients} gradients")


if __name__ == "__main__":
    main()
