"""PCA on a file larger than memory against PCA on an array: step rate and resident memory, in one process.

    python benchmarks/memory_mapped.py [--gigabytes 10] [--filled 2.5] [--steps 40000] [--directory /tmp]

The first file is sparse (it takes no room on the disk), the second is filled with numbers. The array in memory has
rows of the same width. Steps are RSRM's, on Gr(100, 10) with batches of 5, as in the paper.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import retrax as rx

WIDTH, RANK = 100, 10


def resident() -> dict[str, float]:
    """Resident memory now and at its highest, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) / 2**20 for name in ("VmRSS", "VmHWM")}


def sparse_file(path: Path, rows: int) -> np.memmap:
    """A .npy file of zeros that takes no room."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, WIDTH))


def filled_file(path: Path, rows: int) -> np.memmap:
    """A .npy file of random numbers, written past the map, so that no page of it becomes resident."""
    file = sparse_file(path, rows)
    generator = np.random.default_rng(0)
    spectrum = np.linspace(1, 3, WIDTH, dtype=np.float32)
    with open(path, "r+b") as out:
        out.seek(file.offset)
        for first in range(0, rows, 2**18):
            block = generator.standard_normal((min(2**18, rows - first), WIDTH), dtype=np.float32)
            out.write((block * spectrum).tobytes())
    return file


def run(data: np.ndarray, steps: int) -> float:
    """Steps per second, by the run's own clock, which excludes compiling and measuring."""
    record = rx.Record(every=max(1, steps // 10), samples=10_000)
    result = rx.minimize(rx.problems.PCA(data, RANK), rx.rsrm(1e-3), steps=steps, record=record, progress=False)
    return steps / result.seconds


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--filled", type=float, default=2.5)
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        array = np.random.default_rng(1).standard_normal((200_000, WIDTH), dtype=np.float32)
        rows = int(arguments.gigabytes * 1e9) // (4 * WIDTH)
        files = {f"sparse, {arguments.gigabytes:g} GB": sparse_file(Path(folder) / "sparse.npy", rows)}
        if arguments.filled:
            rows = int(arguments.filled * 1e9) // (4 * WIDTH)
            files[f"filled, {arguments.filled:g} GB"] = filled_file(Path(folder) / "filled.npy", rows)
        run(array, 2000)
        print(f"{'data':20} {'steps/s':>9} {'of the array':>13} {'resident GB':>12} {'highest GB':>11}")
        for _ in range(arguments.rounds):
            in_memory = run(array, arguments.steps)
            report("array, 0.08 GB", in_memory, in_memory)
            for name, data in files.items():
                report(name, run(data, arguments.steps), in_memory)


def report(name: str, rate: float, reference: float) -> None:
    """One line."""
    memory = resident()
    share = f"{100 * rate / reference:.0f} %"
    print(f"{name:20} {rate:9.0f} {share:>13} {memory['VmRSS']:12.2f} {memory['VmHWM']:11.2f}", flush=True)


if __name__ == "__main__":
    main()
