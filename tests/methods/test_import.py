"""Importing Retrax changes nothing and loads little; each check runs in a fresh interpreter."""

import subprocess
import sys


def python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


HEAVY = ("torch", "matplotlib", "scipy", "pandas", "sklearn", "rich", "pooch", "geoopt", "pyriemann", "requests")


def test_importing_loads_no_heavy_library_that_jax_does_not():
    script = f"""
import sys
import jax, jax.numpy
before = set(sys.modules)
import retrax
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
import retrax
assert settings() == before
print(jax.config.jax_enable_x64)
"""
    assert python(script) == "False\n"


def test_importing_starts_no_backend_and_a_double_precision_run_leaves_the_switch_alone():
    script = """
import jax, numpy as np, retrax as rx
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
print(sorted(set(names.split()) - set(rx.__all__)))
"""
    assert python(script) == "[]\n"
