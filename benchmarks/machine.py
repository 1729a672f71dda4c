"""What the figures were measured on: the machine and the versions."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
from typing import Any

PACKAGES = (
    "retrax", "jax", "jaxlib", "numpy", "scipy", "torch", "geoopt", "pymanopt", "geojax", "pyriemann", "scikit-learn",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """Processor, memory, load and versions."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def resident_bytes() -> int:
    """Memory that this process holds at the moment."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _processor() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
