"""A short run of the fuzzer; `make fuzz` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_some_generated_calls():
    command = [sys.executable, "-m", "tests.fuzz", "--calls", "5000"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "\n5000 calls in " in ended.stdout
