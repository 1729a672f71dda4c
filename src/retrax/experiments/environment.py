"""What a result was computed with: versions and the kind of machine. No names of people, machines or folders."""

import functools
import hashlib
import os
import platform
from importlib import metadata
from pathlib import Path

from retrax.experiments.results import Environment, Machine

SINGLE_THREADED = "--xla_cpu_multi_thread_eigen=false"


def single_threaded_operations() -> None:
    """Have XLA use one thread per operation; to be called before JAX computes anything.

    The commands set it for their own process: the operations here are small (it is 10-15 % faster), and on machines
    with two cores XLA's pool has been seen to wait for itself for ever when many decompositions run at once.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {SINGLE_THREADED}".strip()


@functools.lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """The versions that numbers may depend on."""
    packages = ("retrax", "jax", "jaxlib", "numpy", "scipy")
    found = {name: _version(name) for name in packages}
    return {"python": platform.python_version(), **found, "code": code_digest()}


def _version(name: str) -> str:
    if name == "retrax":
        import retrax

        return retrax.__version__
    return metadata.version(name)


def machine() -> Machine:
    """The processor, its cores and the system."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        xla_flags=os.environ.get("XLA_FLAGS", ""),
    )


def current() -> Environment:
    """The environment of this process."""
    return Environment(versions(), machine())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def code_digest() -> str:
    """A digest of the source that numbers depend on, so that parts of a run never mix two states of the code."""
    root = Path(__file__).resolve().parent.parent
    names = [path for path in sorted(root.rglob("*.py")) if _matters(path.relative_to(root))]
    digest = hashlib.sha256()
    for path in names:
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _matters(path: Path) -> bool:
    if path.parts[0] == "experiments":
        return path.name in ("workloads.py", "tuning.py", "timing.py", "complexity.py")
    return path.parts[0] not in ("torch", "cli.py", "__main__.py", "progress.py")
