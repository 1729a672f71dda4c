"""The wheel and the source archive, built and tried: `python -m tests.package DIRECTORY`, or `make package`.

Each is installed into an empty environment in a folder with a space in its name, where Retrax is imported, runs, and
answers on the command line. Dependencies come from wherever pip is set up to find them.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

SMOKE = """
import pathlib, sys
import numpy as np
import retrax as rx
assert pathlib.Path(sys.prefix) in pathlib.Path(rx.__file__).parents, rx.__file__
X = np.random.default_rng(0).standard_normal((500, 8)) * np.linspace(3, 1, 8)
result = rx.minimize(rx.problems.PCA(X, 2), rx.rsrm(), steps=300)
assert result.history["gap"][-1] < 0.1 * result.history["gap"][0], result
print(rx.__version__, result.status)
"""


def build(directory: Path) -> list[Path]:
    """The wheel and the source archive."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [next(directory.glob("*.whl")), next(directory.glob("*.tar.gz"))]


def try_out(package: Path) -> str:
    """What the smoke test prints in an empty environment, with `package` and the extra of the command line."""
    with tempfile.TemporaryDirectory(prefix="with a space ") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        constraints = str(ROOT / "constraints.txt")
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-c", constraints]
        subprocess.run([*install, f"{package.resolve()}[experiments]"], check=True)
        done = subprocess.run([str(python), "-c", SMOKE], check=True, capture_output=True, text=True, cwd=folder)
        listed = subprocess.run(
            [str(python.parent / "retrax"), "list"], check=True, capture_output=True, text=True, cwd=folder
        )
        assert "pca-syn1" in listed.stdout, listed.stdout
        return done.stdout.strip()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for old in [*target.glob("retrax-*.whl"), *target.glob("retrax-*.tar.gz")]:
        old.unlink()
    for package in build(target):
        print(f"{package.name}: {try_out(package)}")
