"""Memory stays flat, however long the stream and however large the file. RETRAX_SAMPLES sets the stream's length."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = int(os.environ.get("RETRAX_SAMPLES", "2_000_000"))

STREAM = """
import sys, numpy as np, psutil
import retrax as rx
from tests.lasting.runs import problem
total, size = int(sys.argv[1]), 4096
def endless():
    generator = np.random.default_rng(0)
    scale = np.linspace(1, 3, 12, dtype=np.float32)
    for _ in range(0, total, size):
        yield generator.standard_normal((size, 12), dtype=np.float32) * scale
memory = []
def watch(step, _):
    memory.append(psutil.Process().memory_info().rss / 2**20)
every = rx.Record(every=total // 1000)
result = rx.minimize(problem(endless()), rx.rsrm(0.001), steps=10**9, batch_size=20, record=every,
                     on_record=watch)
assert result.status is rx.Status.STREAM_ENDED, result
start = memory[len(memory) // 5]
print(f"{result.steps} steps on {total} samples in {result.seconds:.1f} s; resident {start:.0f} MB after a fifth, "
      f"{memory[-1]:.0f} MB at the end, {max(memory):.0f} MB at most")
assert max(memory[len(memory) // 5:]) < start + 30
"""

FILE = """
import pathlib, re, sys, numpy as np
import retrax as rx
def peak_memory():  # in GB; not getrusage's, which starts at the parent process's
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 2**20
file = np.lib.format.open_memmap(sys.argv[1], mode="w+", dtype=np.float32, shape=(20_000_000, 100))
before = peak_memory()
settings = {"steps": 3000, "record": rx.Record(every=1000)}
rx.minimize(rx.problems.PCA(file, 10), rx.rsrm(0.001), **settings)
method = rx.rsvrg(0.001, restart_every=1500)
rx.minimize(rx.problems.PCA(file, 10), method, first_batch_size=200_000, **settings)
peak = peak_memory()
print(f"an 8 GB file: {before:.2f} GB resident before, {peak:.2f} GB at most")
assert peak < 1.5
"""


def run(script, *arguments):
    """A script in a process of its own; what it prints is shown."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False, cwd=ROOT)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3100)
def test_a_long_stream_runs_in_flat_memory():
    run(STREAM, SAMPLES)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory where Linux shows it")
def test_a_file_larger_than_memory_stays_out_of_it(tmp_path):
    run(FILE, tmp_path / "large.npy")
