"""The examples for torch run as a user would run them, with a small budget."""

import os
import pathlib
import re
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(name, *arguments, folder):
    environment = {key: value for key, value in os.environ.items() if key != "RETRAX_DATA"}
    environment["PYTHONWARNINGS"] = "error::UserWarning,error::RuntimeWarning"
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_pca(tmp_path):
    output = run("torch_pca.py", "--samples", "500", "--gradients", "6000", folder=tmp_path)
    gaps = dict(re.findall(r"(\w+): gap (\S+) after 6000 gradients", output))
    assert set(gaps) == {"RSRM", "RSGD"}
    assert all(0 < float(gap) < 0.05 for gap in gaps.values())


def test_no_epochs_are_refused(tmp_path):
    command = [sys.executable, str(EXAMPLES / "torch_mnist.py"), "--epochs", "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 2
    assert "--epochs must be at least 1, not 0" in result.stderr


def test_mnist_on_small_digits(tmp_path):
    output = run("torch_mnist.py", "--epochs", "4", "--out", "figure.png", folder=tmp_path)
    errors = [float(error) for error in re.findall(r"test error (\S+)%", output)]
    assert len(errors) == 3
    assert all(error < 40 for error in errors)
    (violation,) = re.findall(r"violation of the constraint: (\S+)", output)
    assert float(violation) < 1e-5
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_recurrent_on_small_digits(tmp_path):
    options = [
        "--epochs",
        "8",
        "--seeds",
        "1",
        "--rates",
        "8e-3",
        "--shares",
        "1",
        "--width",
        "32",
        "--out",
        "runs.jsonl",
    ]
    output = run("torch_recurrent.py", *options, "--only", "AdamW, usual", "retrax", folder=tmp_path)
    found = dict(re.findall(r"(.+): test error (\S+) %", output))
    assert set(found) == {"AdamW, usual start", "retrax RADAM on Stiefel"}
    assert float(found["retrax RADAM on Stiefel"]) < 80  # guessing makes 90 %
    smallest, largest = re.findall(r"singular values of W in \[(\S+), (\S+)\]", output)[-1]
    assert smallest == largest == "1.0000"
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 6
