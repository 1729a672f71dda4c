"""`python -m tests.fuzz.losses --calls 1000`: as many runs, each with a loss of its own, and what memory they take."""

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import retrax as rx
from retrax import _programs as programs

MOST_GROWTH = 100.0
"""MB between the moment when all programs that are kept have been made, and the end."""

X = np.random.default_rng(0).standard_normal((20, 3))


def megabytes() -> float:
    """What the process holds in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def call(factor: float) -> None:
    """A run whose loss nobody else has."""

    def loss(x: Any, batch: Any) -> Any:
        return -factor * jnp.mean((batch @ x) ** 2)

    rx.minimize(rx.Problem(loss, rx.Sphere(3), X), rx.rsgd(0.1), steps=3, record=3)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.losses", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    start, base, number = time.monotonic(), 0.0, 0
    while number < arguments.calls and time.monotonic() - start < arguments.seconds:
        call(1 + number)
        number += 1
        if number == programs.MOST:
            base = megabytes()
        if number % 20 == 0:
            print(f"{number} calls: {megabytes():.0f} MB", flush=True)
    growth = megabytes() - base
    print(f"{number} calls with a loss each: {growth:.0f} MB more than after {programs.MOST}")
    return 0 if growth <= MOST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
