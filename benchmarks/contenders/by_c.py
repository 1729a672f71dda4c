"""The C program: compiled here and now with the system's compiler and BLAS, loaded into this process."""

import contextlib
import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

from benchmarks.cases import Case
from benchmarks.timing import Run, UnavailableError, timed

SOURCE = pathlib.Path(__file__).parent / "rsrm.c"
LIBRARIES = (
    ["-lopenblas"],
    ["-l:libopenblas.so.0"],
    ["-lmkl_rt"],
    ["-llapack", "-lblas"],
    ["-framework", "Accelerate"],
)


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled program; UnavailableError where there is no compiler or no BLAS."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnavailableError("no C compiler here")
    target = pathlib.Path(tempfile.mkdtemp(prefix="retrax-bench-")) / "rsrm.so"
    for blas in LIBRARIES:
        command = [compiler, "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", str(SOURCE), "-o", str(target)]
        if subprocess.run([*command, *blas, "-lm"], capture_output=True, check=False).returncode == 0:
            try:
                loaded = ctypes.CDLL(str(target))
            except OSError:
                continue
            loaded.blas = " ".join(blas)  # type: ignore[attr-defined]
            _one_thread(loaded)
            return loaded
    raise UnavailableError("no BLAS to link with (Debian: libopenblas-dev)")


def _one_thread(loaded: ctypes.CDLL) -> None:
    """These products are too small to share among threads."""
    with contextlib.suppress(AttributeError):
        loaded.openblas_set_num_threads(1)


def rsrm(case: Case, steps: int, batch: int, retraction: str = "polar") -> Run:
    """Repetitions of `steps` steps."""
    library()
    start, indices = case.start, case.indices(steps, batch)
    return timed(lambda: trajectory(case, start, indices, retraction), steps)


def trajectory(case: Case, x: np.ndarray, indices: np.ndarray, retraction: str = "polar") -> np.ndarray:
    """The point after one step for each row of indices, from d = 0 at step 1."""
    d, r = x.shape
    points = np.zeros((2, r, d))
    points[0] = x.T
    data = np.ascontiguousarray(case.data, dtype=np.float64)
    indices = np.ascontiguousarray(indices, dtype=np.int32)
    double, integer = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int32)
    failed = library().rsrm_pca(
        d, r, indices.shape[1], len(indices),
        data.ctypes.data_as(double), indices.ctypes.data_as(integer), points.ctypes.data_as(double),
        ctypes.c_double(case.step_size), ctypes.c_double(0.1), int(retraction == "polar"),
    )  # fmt: skip
    if failed:
        raise RuntimeError("the C program failed")
    return points[0].T.copy()
