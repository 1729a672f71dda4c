"""The examples of lasting runs do what they say."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments):
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_streaming():
    """The figures are all of the same patches, so they can be compared, and the best possible is the largest."""
    output = run("streaming.py", "--samples", 20_000)
    assert "status=stream_ended" in output
    rsrm, incremental, everything, best = (float(part) for part in re.findall(r"(0\.\d+) of the variance", output))
    assert 0.9 * best < rsrm < best
    assert max(incremental, everything) <= best


def test_streaming_refuses_too_few_samples():
    command = [sys.executable, str(EXAMPLES / "streaming.py"), "--samples", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 2
    assert "--samples must be at least 1000, not 0" in done.stderr


def test_resume(tmp_path):
    output = run("resume.py", "--directory", tmp_path)
    assert "stopped after step 3500" in output
    assert "to the last bit: True" in output
    assert "on the way: True" in output


def test_resume_survives_ctrl_c(tmp_path):
    """As its text invites: stop it, start it again, and it says the same at the end."""
    command = [sys.executable, str(EXAMPLES / "resume.py"), "--directory", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "MPLBACKEND": "agg"}
    )
    try:
        while process.poll() is None and not list(tmp_path.glob("undisturbed/*.ckpt")):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "interrupted after step" in output
    assert "Traceback" not in errors
    again = run("resume.py", "--directory", tmp_path)
    assert "to the last bit: True" in again
    assert "on the way: True" in again
