"""An experiment on real data runs from files put into the data folder, with no change to the code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.slow
def test_coil100_runs_from_a_file_in_the_data_folder(tmp_path):
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (40, 8, 8, 3))
    images = coarse.repeat(4, axis=1).repeat(4, axis=2).astype(np.uint8)
    np.savez(tmp_path / "coil100.npz", images=images, labels=np.arange(1, 41))
    script = (
        "import dataclasses, sys; from retrax.experiments.specs import EXPERIMENTS; from retrax.cli import main; "
        # One method is enough here: each costs two compilations.
        "spec = EXPERIMENTS['ica-coil100']; "
        "EXPERIMENTS['ica-coil100'] = dataclasses.replace(spec, series=spec.series[:1], claims=()); "
        "sys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "out"
    arguments = ["run", "ica-coil100", "--quick", "--seeds", "1", "--epochs", "8", "--data", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, "--cache", str(tmp_path / "cache"), "--out", str(out)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "RETRAX_DATA": ""},
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((out / "ica-coil100.json").read_text())
    panel = result["panels"][0]
    assert (panel["samples"], panel["shape"], panel["manifold"]) == (40, [43, 43], "Stiefel")
    assert "part: 40 of 7200 images" in panel["data_note"]
    gap = result["series"][0]["runs"]["gap"][0]
    assert gap[-1] < gap[0]
    assert list((tmp_path / "cache").glob("coil100-gabor-*.npy"))
