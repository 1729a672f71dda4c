"""The linear algebra that JAX calls: it must not deadlock (see the bound on jax in pyproject.toml), nor use threads."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import jax, jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

@jax.jit
def factorise(a, b):
    shift = 50 * jnp.eye(a.shape[-1])
    for _ in range(2):
        x, y = jnp.sin(a) * a, jnp.cos(b) * b
        v, w = jnp.linalg.cholesky(x @ x.mT + shift), jnp.linalg.cholesky(y @ y.mT + shift)
        a, b = a + 1e-3 * w @ v, b + 1e-3 * v @ w
    return a, b

a = jax.random.normal(jax.random.key(0), (400, 30, 30))
b = a[::-1]
for _ in range(40):
    a, b = jax.block_until_ready(factorise(a, b))
"""


def test_independent_batched_factorisations_do_not_deadlock():
    try:
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120, capture_output=True)
    except subprocess.TimeoutExpired:
        pytest.fail("this jaxlib deadlocks on concurrent batched LAPACK calls; centroid runs would hang")


THREADS = """
import jax, jax.numpy as jnp
from threadpoolctl import threadpool_info
from retrax._precision import precision

with precision("float64"):
    jax.block_until_ready(jax.jit(jnp.linalg.cholesky)(jnp.eye(4)))
    print([library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"])
"""


def test_every_blas_library_has_one_thread_in_a_run():
    """A thread that must be waited for makes a step 30 times slower on a busy machine."""
    shown = subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=120, capture_output=True, text=True)
    counts = json.loads(shown.stdout)
    assert counts
    assert set(counts) == {1}
