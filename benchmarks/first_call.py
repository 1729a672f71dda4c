"""What a user waits for at the first call of a process: without a cache, filling one, and with it filled."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.sizes import Sizes

PROBLEMS = {
    "PCA on Gr(100,10)": "cases.pca(100, 10, 10_000)",
    "centroid on SPD(10)": "cases.centroid(10, 2000)",
    "centroid on SPD(43)": "cases.centroid(43, 500)",
    "joint diagonalization on St(43,43)": "cases.joint_diagonalization(500, 42)",
}
SCRIPT = """
import sys, time
from benchmarks import cases
import retrax as rx

case = {problem}
case.problem.optimum
if sys.argv[1]:
    rx.cache(sys.argv[1])
start = time.perf_counter()
rx.minimize(case.problem, rx.rsrm(0.01), steps=10, batch_size=5, record=10, progress=False)
print(time.perf_counter() - start)
"""
KINDS = ("no cache", "filling a cache", "next process, cache on")


def run(sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of the first call, each in a process of its own; importing, data and their optimum are outside."""
    results: dict[str, Any] = {}
    for label, problem in list(PROBLEMS.items())[: sizes.first_calls]:
        say(f"first call: {label}")
        with tempfile.TemporaryDirectory(prefix="retrax-bench-") as directory:
            seconds = {kind: _seconds(problem, directory if k else "") for k, kind in enumerate(KINDS)}
            seconds[KINDS[2]] = min(seconds[KINDS[2]], _seconds(problem, directory))
        results[label] = seconds
        say(f"  {seconds}")
    return results


def _seconds(problem: str, directory: str) -> float:
    command = [sys.executable, "-c", SCRIPT.format(problem=problem), directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)
