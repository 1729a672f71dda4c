"""Online PCA: samples arrive in a stream, are used once and are never stored. There is no n.

python examples/streaming.py [--samples 500000]

RSRM needs no restarts and no pass over the data, so it fits; RSVRG would need a large batch again and again.
"""

import argparse
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

import retrax as rx

DIMENSION, RANK = 50, 5


def loss(U: jnp.ndarray, batch: jnp.ndarray) -> jnp.ndarray:
    """Minus the variance along the columns of U."""
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))


def sensor(samples: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Readings as they come in, a different number each time."""
    generator = np.random.default_rng(seed)
    spectrum = np.geomspace(3, 0.3, DIMENSION).astype(np.float32)
    while samples > 0:
        count = min(samples, int(generator.integers(1, 200)))
        samples -= count
        yield generator.standard_normal((count, DIMENSION), dtype=np.float32) * spectrum


def main() -> None:
    """Run until the stream ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=500_000)
    samples = parser.parse_args().samples

    problem = rx.Problem(loss, rx.Grassmann(DIMENSION, RANK), data=sensor(samples))
    result = rx.minimize(
        problem,
        rx.rsrm(0.02),
        steps=10**9,  # more than the stream will give
        batch_size=20,
        first_batch_size=500,
        record=rx.Record(every=2000, samples=2000),  # measured on the first 2000 samples
        on_record=lambda step, row: print(f"step {step:6d}: loss {row['loss']:.4f}"),
    )
    print(result)
    best = -float(np.sum(np.geomspace(3, 0.3, DIMENSION)[:RANK] ** 2))
    print(f"loss on the first samples {result.history['loss'][-1]:.4f}; the best in expectation is {best:.4f}")


if __name__ == "__main__":
    main()
