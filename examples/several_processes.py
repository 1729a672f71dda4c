"""
One run over two processes
==========================

Each process holds half of the data, none holds all, and the result is that of one process up to rounding. On a
cluster the processes sit on different machines; here they share this one and talk through its loopback device.
"""

# %%
# What each process runs. ``make_array_from_callback`` asks a process for the rows of its own devices only.
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import retrax as rx

WORKER = """
import sys
import jax
import numpy as np
import retrax as rx
from jax.sharding import NamedSharding, PartitionSpec

port, number, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=number)
X = np.load(f"{folder}/digits.npy", mmap_mode="r")
split = NamedSharding(jax.make_mesh((2,), ("data",)), PartitionSpec("data"))
read = []
def rows(index):
    read.append(X[index])
    return read[-1]
data = jax.make_array_from_callback(X.shape, split, rows)
result = rx.minimize(rx.problems.PCA(data, 5), rx.rsrm(), steps=2000, seed=0)
np.savez(f"{folder}/result{number}.npz", x=result.x, gap=result.history["gap"], sfo=result.history["sfo"])
print(f"process {number}: read {sum(map(len, read))} of {len(X)} rows")
"""

# %%
X = load_digits().data[:1796].astype(np.float32) / 16  # an even number, so that it can be halved
X -= X.mean(axis=0)
with tempfile.TemporaryDirectory() as folder:
    np.save(Path(folder) / "digits.npy", X)
    script = Path(folder) / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(port), str(number), folder], stdout=subprocess.PIPE, text=True
        )
        for number in range(2)
    ]
    for worker in workers:
        print(worker.communicate(timeout=180)[0].strip())
    results = [dict(np.load(Path(folder) / f"result{number}.npz")) for number in range(2)]

# %%
# The comparison: the same run in one process. The batches are the same; sums over halves may round differently, so the
# two agree to rounding, and on some machines to the last bit.
alone = rx.minimize(rx.problems.PCA(X, 5), rx.rsrm(), steps=2000, seed=0)
print("both processes have the same result:", np.array_equal(results[0]["x"], results[1]["x"]))
projections = [x @ x.T for x in (results[0]["x"], np.asarray(alone.x))]
print(f"distance of the two subspaces: {np.linalg.norm(projections[0] - projections[1]):.1e}")

# %%
# For data of this size two processes are slower than one: they pay off for data that no machine can hold, and for
# batches of thousands.
axes = alone.plot("gap", label="one process", linewidth=5, alpha=0.3)
axes.plot(results[0]["sfo"], results[0]["gap"], "--", label="two processes")
axes.legend()
axes.set_title("PCA of digits")
plt.show()
