"""Large d: the time of a step and the memory of a run on Gr(d, 10), on one device and with its rows on two."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.sizes import Sizes

SCRIPT = """
import json, sys
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from benchmarks import machine
import retrax as rx

d, devices = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
small = rng.standard_normal((64, 100), dtype=np.float32)
rx.minimize(rx.problems.PCA(small, 10), rx.rsrm(1e-3), steps=10, dtype="float32", progress=False)  # what any run holds
rows = rng.standard_normal((64, d), dtype=np.float32)
if devices > 1:
    mesh = jax.make_mesh((devices,), ("data",))
    rows = jax.device_put(rows, NamedSharding(mesh, PartitionSpec(None, "data")))
loss = lambda x, batch: -jax.numpy.mean(jax.numpy.sum((batch @ x) ** 2, axis=-1))
problem = rx.Problem(loss, rx.Grassmann(d, 10), rows)
x0 = np.linalg.qr(rng.standard_normal((d, 10), dtype=np.float32))[0]
before = machine.resident_bytes()
steps = max(200, 20_000_000 // (d * 10))  # enough to leave the start of a run behind
best = float("inf")
for _ in range(3):
    result = rx.minimize(problem, rx.rsrm(1e-3), steps=steps, batch_size=4, first_batch_size=4, record=steps,
                         dtype="float32", x0=x0, progress=False)
    best = min(best, result.seconds / result.steps)
print(json.dumps([best, (machine.resident_bytes() - before) / x0.nbytes]))
"""


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """One row for each d, each in processes of their own."""
    rows = []
    for d in sizes.scale_rows:
        one, memory = _measure(d, 1)
        two, _ = _measure(d, 2)
        rows.append({"d": d, "one": one * 1e3, "two": two * 1e3, "ratio": two / one, "memory": memory})
        say(f"scale: {rows[-1]}")
    note = (
        "Two devices hold half of the features each, and with them half of the rows of the point; of a step they "
        "exchange 10 × 28 inner products and the lengths of 10 columns."
    )
    return {"label": "Gr(d,10), float32, b = 4, a user's loss", "rows": rows, "note": note}


def _measure(d: int, devices: int) -> list[float]:
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    command = [sys.executable, "-c", SCRIPT, str(d), str(devices)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)
