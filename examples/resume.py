"""
A crash, and on as if nothing had happened
==========================================

A run that is killed in the middle ends with the same bits as one that was left alone.

As a script, ``python examples/resume.py --directory FOLDER`` may be stopped with Ctrl-C, or killed, and started again
with the same folder: it continues from the last checkpoint, and says the same at the end.
"""

# %%
# The data are a file, of which only the rows that are drawn are read: patches of two photographs. Imagine more than
# fit into memory.
import argparse
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images
from sklearn.feature_extraction.image import extract_patches_2d

import retrax as rx


def make_file(path: Path) -> Path:
    """50 000 patches of 8×8 pixels."""
    if not path.exists():
        images = [image.mean(axis=-1) / 255 for image in load_sample_images().images]
        patches = [extract_patches_2d(image, (8, 8), max_patches=25_000, random_state=0) for image in images]
        rows = np.concatenate(patches).reshape(50_000, 64)
        unfinished = path.with_suffix(".part.npy")
        np.save(unfinished, (rows - rows.mean(axis=1, keepdims=True)).astype(np.float32))
        unfinished.replace(path)
    return path


def run(folder: Path, name: str, **others: object) -> rx.Result:
    """The run, which continues where an earlier one with this name ended."""
    return rx.minimize(
        rx.problems.PCA(make_file(folder / "patches.npy"), rank=5),
        rx.rsrm(),
        steps=10_000,
        record=500,
        checkpoint=rx.Checkpoint(folder / name, every=750, keep=2),
        resume=True,
        **others,
    )


# %%
# Once undisturbed, once with a stop in the middle, and once more to the end. Killing the process instead of stopping
# it gives the same; the tests of Retrax do so, many times.
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--directory", type=Path)
directory = parser.parse_args().directory
temporary = tempfile.TemporaryDirectory()
folder = directory or Path(temporary.name)
folder.mkdir(parents=True, exist_ok=True)
try:
    undisturbed = run(folder, "undisturbed")
    stopped = run(folder, "stopped", on_record=lambda step, row: step == 3500)
    print(f"stopped after step {stopped.steps}: {stopped.detail}")
    resumed = run(folder, "stopped")
except rx.InterruptedRun as interrupted:
    print(f"{interrupted.result.detail}; start again with the same --directory to go on")
    sys.exit(130)  # as the shell reports a program that Ctrl-C has ended
finally:
    temporary.cleanup()

# %%
# The comparison, to the last bit.
print(f"resumed to step {resumed.steps}: {resumed.detail}")
print("same point, to the last bit:", np.array_equal(undisturbed.x, resumed.x))
print("same losses on the way:", np.array_equal(undisturbed.history["loss"], resumed.history["loss"]))

# %%
axes = undisturbed.plot("loss", against="step", label="undisturbed", linewidth=5, alpha=0.3)
stopped.plot("loss", against="step", axes=axes, label="stopped", linewidth=2)
after = resumed.history["step"] >= stopped.steps
axes.plot(resumed.history["step"][after], resumed.history["loss"][after], "--", label="resumed")
axes.legend()
axes.set_title("Three runs, one curve")
plt.show()
