"""One thread for torch: the matrices here are small, and the test processes share the machine."""

from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _gradients_on_again() -> Iterator[None]:
    """A test that interrupts a step at every line also does so inside torch's own `no_grad`, on its way out."""
    yield
    torch.set_grad_enabled(True)
