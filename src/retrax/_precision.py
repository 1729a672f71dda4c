"""The settings that computations run under, scoped to them: nothing global changes for the user."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """64 bits without changing the user's global switch, and one BLAS thread.

    LAPACK calls on the small matrices of a step are several times slower where BLAS hands them to other threads.
    """
    with jax.enable_x64(dtype == "float64"), _blas().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _blas() -> Any:
    """A handle on the BLAS libraries of this process, SciPy's among them: JAX's factorisations call that one."""
    import scipy.linalg.cython_lapack  # noqa: F401  A library is seen only once it is loaded.
    from threadpoolctl import ThreadpoolController  # Not above: importing it sets an environment variable.

    return ThreadpoolController()
