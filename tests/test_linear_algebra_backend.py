"""The linear algebra that JAX calls: it must not deadlock (see `retrax._lapack`), nor use threads."""

import json
import subprocess
import sys

import pytest

from retrax import _lapack

PROGRAM = """
import jax, jax.numpy as jnp
from retrax import _linalg

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


def test_which_releases_of_jaxlib_deadlock():
    """Those whose LAPACK calls wait in the thread pool, as the symbols in each release's library say."""
    versions = ["0.8.0", "0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1", "0.12.0.1", "1.0.0"]
    assert [version for version in versions if _lapack.deadlocks(version)] == ["0.10.0", "0.10.2", "0.11.0"]


MATRIX_BY_MATRIX = """
import jax, jax.numpy as jnp, numpy as np
from retrax import _lapack

jax.config.update("jax_enable_x64", True)
_lapack.call_with_single_matrices()
generator = np.random.default_rng(0)
a = generator.standard_normal((3, 4, 5, 5))
s = a @ a.swapaxes(-1, -2) + np.eye(5)
b = generator.standard_normal((3, 4, 5, 2))
lower = np.linalg.cholesky(s)
close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)

close(jax.jit(jnp.linalg.cholesky)(s), lower)
close(jnp.linalg.eigh(s)[0], np.linalg.eigvalsh(s))
close(jnp.linalg.svd(a)[1], np.linalg.svd(a)[1])
close(jnp.linalg.solve(a, b), np.linalg.solve(a, b))
close(jax.lax.linalg.triangular_solve(lower, b, left_side=True, lower=True), np.linalg.solve(lower, b))
close(jnp.matmul(*jnp.linalg.qr(b)), b)
close(jax.vmap(jax.vmap(jax.grad(lambda m: jnp.linalg.slogdet(m)[1])))(s), np.linalg.inv(s))
below, diagonal, above = (generator.standard_normal((4, 6)) + shift for shift in (0, 5, 0))
below[:, 0] = above[:, -1] = 0
full = np.stack([np.diag(d) + np.diag(l[1:], -1) + np.diag(u[:-1], 1) for l, d, u in zip(below, diagonal, above)])
right = generator.standard_normal((4, 6, 2))
close(jax.lax.linalg.tridiagonal_solve(below, diagonal, above, right), np.linalg.solve(full, right))
assert jnp.linalg.cholesky(jnp.zeros((0, 3, 3))).shape == (0, 3, 3)
text = jax.jit(jnp.linalg.cholesky).lower(s).as_text()
assert "tensor<3x4x5x5xf64>" in text and "while" in text
assert "while" not in jax.jit(jnp.linalg.cholesky).lower(s[0, 0]).as_text()
"""


def test_factorisations_matrix_by_matrix_give_what_numpy_gives():
    done = subprocess.run([sys.executable, "-c", MATRIX_BY_MATRIX], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


THREADS = """
import jax, jax.numpy as jnp
from threadpoolctl import threadpool_info
from retrax import _programs
from retrax._precision import precision

with precision("float64"):
    jax.block_until_ready(_programs.call(jnp.linalg.cholesky, (), jnp.eye(4)))
    print([library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"])
"""


def test_every_blas_library_has_one_thread_in_a_run():
    """A thread that must be waited for makes a step 30 times slower on a busy machine."""
    shown = subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=120, capture_output=True, text=True)
    counts = json.loads(shown.stdout)
    assert counts
    assert set(counts) == {1}
