"""The examples with estimators run, on a small part of made-up data in the files' own format."""

import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, folder, *arguments):
    """What an example prints, with the data in `folder`."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, "RETRAX_DATA": str(folder), "MPLBACKEND": "agg"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mnist_in_less_memory_than_it_takes(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("train", "t10k"):
        images = generator.integers(0, 255, (1200, 28, 28), dtype=np.uint8)
        with gzip.open(tmp_path / f"{name}-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
            file.write(struct.pack(">IIII", 0x803, len(images), 28, 28) + images.tobytes())
    output = run("sklearn_mnist.py", tmp_path, "--out", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert "60000 images do not fit into 64 MB" in output
    assert "1200 images read once, solver covariance" in output


def test_gestures_in_one_pass(tmp_path):
    generator = np.random.default_rng(0)
    label = np.repeat(np.tile(np.arange(5, dtype=np.uint8), 4), 900)
    channels = 127 + (2 + label[:, None] * np.arange(8)) * generator.standard_normal((len(label), 8)) / 3
    names = np.array([b"ok", b"paper", b"rest", b"rock", b"scissors"])
    np.savez(
        tmp_path / "emg.npz",
        channels=channels.clip(0, 255).astype(np.uint8),
        time=np.arange(len(label), dtype=np.int32),
        label=label,
        label_names=names,
        session=np.zeros(len(label), dtype=np.uint8),
        session_names=np.array([b"one"]),
    )
    output = run("sklearn_emg.py", tmp_path)
    assert float(output.split("accuracy ")[1].split(";")[0]) > 0.9


def test_ratings(tmp_path):
    generator = np.random.default_rng(0)
    places = generator.permutation(60 * 50)[:1500]
    user, item = (part.astype(np.int32) for part in np.divmod(places, 50))
    rating = np.clip(3 + np.sin(user) * np.cos(item), 0.5, 5).astype(np.float32)
    arrays = {"user": user, "item": item, "rating": rating, "timestamp": np.arange(1500, dtype=np.int64)}
    np.savez(tmp_path / "movielens.npz", **arrays)
    output = run("sklearn_movielens.py", tmp_path)
    errors = [float(line.split("RMSE ")[1].split()[0]) for line in output.splitlines() if line.startswith("rank")]
    assert len(errors) == 12
    assert min(errors) < 0.3
