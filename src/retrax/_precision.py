"""The settings that computations run under, scoped to them: nothing global changes for the user."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

import jax


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """64 bits without changing the user's global switch, and one BLAS thread.

    LAPACK calls on the small matrices of a step are several times slower where BLAS hands them to other threads.
    """
    _refuse_forked()
    with jax.enable_x64(dtype == "float64"), _one_blas_thread:
        yield


class _OneBlasThread:
    """One BLAS thread while anybody is inside; runs in several threads may overlap, and the last one out restores."""

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                _take_over()
                self._limit = _blas().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_over()
                self._limit.restore_original_limits()  # type: ignore[attr-defined]
                _take_over()


def _take_over() -> None:
    """From threadpoolctl 3.8 on, OpenBLAS obeys the thread that limited it first, and no other until that one lets go.

    Here the last thread out restores what the first one in has set, and neither keeps the hold afterwards.
    """
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_one_blas_thread = _OneBlasThread()
_process: list[int] = []
"""The process in which the first computation ran."""


def _refuse_forked() -> None:
    """A forked child has none of the threads that JAX runs on, and would wait for them for ever."""
    if not _process:
        _process.append(os.getpid())
    if _process[0] != os.getpid():
        raise RuntimeError(
            "this process was forked from one in which JAX was at work, whose threads it lacks; start processes with "
            "multiprocessing.get_context('spawn'), or fork before the first run"
        )


@functools.cache
def _blas() -> Any:
    """A handle on the BLAS libraries of this process, SciPy's among them: JAX's factorisations call that one."""
    import scipy.linalg.cython_lapack  # noqa: F401  A library is seen only once it is loaded.
    from threadpoolctl import ThreadpoolController  # Not above: importing it sets an environment variable.

    return ThreadpoolController()
