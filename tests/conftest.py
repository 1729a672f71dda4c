"""Settings for every test. Warnings are errors (pyproject.toml); examples are the same in every run.

`HYPOTHESIS_PROFILE=thorough pytest tests/laws` looks for new examples, and for many more of them.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("default", max_examples=6, derandomize=True, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=200, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every program they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _forgotten_programs() -> Iterator[None]:
    """Compiled programs stay mapped into memory, and a process may have 65 530 maps: thousands of tests need more."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
