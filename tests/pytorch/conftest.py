"""One thread for torch: the matrices here are small, and the test processes share the machine."""

import torch

torch.set_num_threads(1)
