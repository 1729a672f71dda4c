"""A run that is interrupted and goes on as if nothing had happened: the same bits at the end.

python examples/resume.py [--directory FOLDER]

The data are a file, of which only the rows that are drawn are read. Stop the script with Ctrl-C, or kill it, and start
it again with the same --directory: it continues from the last checkpoint, and says the same at the end.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import retrax as rx


def make_file(path: Path) -> Path:
    """100 000 samples; imagine more than fit into memory."""
    if not path.exists():
        samples = np.random.default_rng(0).standard_normal((100_000, 50), dtype=np.float32)
        np.save(path, samples * np.geomspace(3, 0.3, 50, dtype=np.float32))
    return path


def run(folder: Path, name: str, **others: object) -> rx.Result:
    """The run, which continues where an earlier one with this name ended."""
    return rx.minimize(
        rx.problems.PCA(make_file(folder / "samples.npy"), rank=5),
        rx.rsrm(0.02),
        steps=20_000,
        record=1000,
        checkpoint=rx.Checkpoint(folder / name, every=1500, keep=2),
        resume=True,
        **others,
    )


def main() -> None:
    """Run once undisturbed, once with a stop in the middle, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path)
    directory = parser.parse_args().directory
    with tempfile.TemporaryDirectory() as temporary:
        folder = directory or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        undisturbed = run(folder, "undisturbed")
        stopped = run(folder, "stopped", on_record=lambda step, row: step == 7000)
        print(f"stopped after step {stopped.steps}: {stopped.detail}")
        resumed = run(folder, "stopped")
        print(f"resumed to step {resumed.steps}: {resumed.detail}")
        print("same point, to the last bit:", np.array_equal(undisturbed.x, resumed.x))
        print("same losses on the way:", np.array_equal(undisturbed.history["loss"], resumed.history["loss"]))


if __name__ == "__main__":
    try:
        main()
    except rx.InterruptedRun as interrupted:
        print(f"{interrupted.result.detail}; start again with the same --directory to go on")
        sys.exit(130)  # as the shell reports a program that Ctrl-C has ended
