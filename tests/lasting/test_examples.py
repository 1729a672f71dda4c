"""The examples of lasting runs do what they say."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_streaming():
    assert "status=stream_ended" in run("streaming.py", "--samples", 20_000)


def test_resume(tmp_path):
    output = run("resume.py", "--directory", tmp_path)
    assert "stopped after step 7000" in output
    assert "to the last bit: True" in output
    assert "on the way: True" in output
