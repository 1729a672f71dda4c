"""Settings for every test. Warnings are errors (pyproject.toml); examples are the same in every run.

`HYPOTHESIS_PROFILE=thorough pytest tests/laws` looks for new examples, and for many more of them.
"""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

COMPILED = pytest.StashKey[str]()

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("default", max_examples=6, derandomize=True, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=200, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep what JAX compiles until the tests have ended: most of their time is compiling, a third of it once more.

    The workers share it. The programs that tests start do not: they are to see what a user's would.
    """
    import jax

    folder = getattr(config, "workerinput", {}).get("compiled")
    if folder is None:
        folder = tempfile.mkdtemp(prefix="retrax-compiled-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.stash[COMPILED] = folder
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where compiled programs are kept."""
    node.workerinput["compiled"] = node.config.stash[COMPILED]


@pytest.fixture(autouse=True, scope="module")
def _forgotten_programs() -> Iterator[None]:
    """Compiled programs stay mapped into memory, and a process may have 65 530 maps: thousands of tests need more."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
