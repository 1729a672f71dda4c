"""Importing Retrax changes nothing and loads little; each check runs in a fresh interpreter."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path


def python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_is_cheap_and_first_use_loads_jax():
    script = """
import sys
import retrax as rx
print("jax" in sys.modules, "numpy" in sys.modules)
print(rx.Grassmann.__name__, "jax" in sys.modules, "retrax.datasets" in sys.modules)
"""
    assert python(script) == "False False\nGrassmann True False\n"


def test_functions_keep_their_names_when_their_modules_are_imported_first():
    for module in ("minimizing", "sweeping", "problems.pca", "checkpoint", "drivers.jax", "methods", "sources"):
        script = f"import retrax.{module}, retrax as rx; print(callable(rx.minimize), callable(rx.sweep))"
        assert python(script) == "True True\n", module


OPTIONAL = ("matplotlib", "PIL", "platformdirs", "pooch", "requests", "rich")


def test_base_dependencies_are_few():
    """Read from the project's own file, because an installed development copy has every extra."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names_of = lambda requirements: {re.split("[^a-z-]", one)[0] for one in requirements}  # noqa: E731
    assert names_of(project["dependencies"]) == {"array-api-compat", "jax", "numpy", "scipy", "threadpoolctl"}
    experiments = names_of(project["optional-dependencies"]["experiments"])
    assert experiments == {"pillow" if name == "PIL" else name for name in OPTIONAL}


WITHOUT = f"""
import sys
for name in {OPTIONAL!r}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
"""


def test_a_run_needs_no_extra():
    script = (
        WITHOUT
        + """
import numpy as np, retrax as rx
problem = rx.problems.PCA(np.random.default_rng(0).standard_normal((10, 3)), 1)
print(rx.minimize(problem, rx.rsrm(0.1), steps=2, batch_size=1).status)
try:
    rx.datasets.fetch("mnist", "nowhere")
except ImportError as error:
    print(error)
"""
    )
    shown = python(script)
    assert shown.startswith("max_steps\n")
    assert 'pip install "retrax[experiments]"' in shown


def test_the_command_says_in_one_line_which_extra_is_missing(tmp_path):
    script = f"""{WITHOUT}
from retrax.cli import main
sys.exit(main(["data", "fetch", "mnist", "--data", {str(tmp_path)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "retrax[experiments]"' in done.stderr


HEAVY = ("torch", "matplotlib", "scipy", "pandas", "sklearn", "rich", "pooch", "geoopt", "pyriemann", "requests")


def test_importing_loads_no_heavy_library_that_jax_does_not():
    script = f"""
import sys
import jax, jax.numpy
before = set(sys.modules)
import retrax, retrax._public
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(sorted(new & set({HEAVY!r})))
"""
    assert python(script) == "[]\n"


def test_importing_changes_no_global_setting():
    script = """
import os, random, signal
import jax, numpy as np
def settings():
    state = np.random.get_state()
    return (
        {name: value for name, value in jax.config.values.items()}, dict(os.environ), random.getstate(),
        state[1].tobytes(), np.geterr(), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),
    )
before = settings()
import retrax, retrax._public
assert settings() == before
print(jax.config.jax_enable_x64)
"""
    assert python(script) == "False\n"


def test_importing_starts_no_backend_and_a_double_precision_run_leaves_the_switch_alone():
    script = """
import jax, numpy as np, retrax as rx, retrax._public
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized())
problem = rx.problems.PCA(np.random.default_rng(0).standard_normal((10, 3)), 1)
result = rx.minimize(problem, rx.rsrm(0.1), steps=2, batch_size=1, dtype="float64")
print(result.x.dtype, jax.config.jax_enable_x64, jax.numpy.ones(1).dtype)
state = np.random.get_state()[1].tobytes()
np.random.seed(3); first = np.random.get_state()[1].tobytes()
rx.minimize(problem, rx.rsrm(0.1), steps=2, batch_size=1)
print(first == np.random.get_state()[1].tobytes())
"""
    assert python(script) == "False\nfloat64 False float32\nTrue\n"


def test_public_names_exist():
    script = """
import retrax as rx
assert all(hasattr(rx, name) for name in rx.__all__)
names = "rsgd csgd_m crmsprop ramsgrad radam rasa rsrm rsvrg rsrg rspider minimize Problem Record Result Status History"
names += " rdog rdowg nrdog storm_plus"
print(sorted(set(names.split()) - set(rx.__all__)))
"""
    assert python(script) == "[]\n"
