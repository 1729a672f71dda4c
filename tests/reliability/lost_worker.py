"""One of two processes on one run: python lost_worker.py PROCESS PORT CHECKPOINTS STEPS; the first prints x."""

import sys

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import retrax as rx


def loss(x, batch):
    """A quadratic form."""
    return -((batch @ x) ** 2).mean()


def main(process: int, port: int, checkpoints: str, steps: int) -> None:
    """Run, going on from the last checkpoint."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", 2, process)
    X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    split = NamedSharding(jax.make_mesh((2,), ("data",)), PartitionSpec("data"))
    data = jax.make_array_from_callback(X.shape, split, lambda index: X[index])
    result = rx.minimize(
        rx.Problem(loss, rx.Sphere(3), data),
        rx.rsgd(0.01),
        steps=steps,
        record=steps,
        checkpoint=rx.Checkpoint(checkpoints, every=200),
        resume=True,
    )
    print(result.x.tolist(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
