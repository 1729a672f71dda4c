"""The settings that computations run under, scoped to them: nothing global changes for the user."""

import contextlib
import functools
import os
import sys
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
        self._lock, self._inside = threading.Lock(), 0
        self._limits: list[tuple[Any, Any]] = []
        """Each handle on libraries with what it has to restore."""

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit()

    def look_again(self) -> None:
        """Include what has been loaded meanwhile."""
        with self._lock:
            if self._limits and self._limits[-1][0] is not _blas():
                self._limit()

    def _limit(self) -> None:
        _take_over()
        self._limits.append((_blas(), _blas().limit(limits=1, user_api="blas")))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_over()
                while self._limits:
                    self._limits.pop()[1].restore_original_limits()
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


def _blas() -> Any:
    """A handle on the BLAS libraries of this process: NumPy's, and once it is loaded SciPy's."""
    return _libraries("scipy.linalg.cython_lapack" in sys.modules)


@functools.cache
def _libraries(with_scipy: bool) -> Any:
    from threadpoolctl import ThreadpoolController  # Not above: importing it sets an environment variable.

    return ThreadpoolController()


def lowered(program: Any, *arguments: Any) -> Any:
    """`program.lower(*arguments)`. For the first factorisation JAX loads SciPy, whose BLAS it calls."""
    found = program.lower(*arguments)
    _one_blas_thread.look_again()
    return found


def setting(name: str) -> Any:
    """JAX reads settings that hold within a context in one way, and others in another."""
    return getattr(jax.config, name) if hasattr(jax.config, name) else jax.config.read(name)
