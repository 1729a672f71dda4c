"""The examples of lasting runs do what they say."""

import signal
import subprocess
import sys
import time
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


def test_resume_survives_ctrl_c(tmp_path):
    """As its text invites: stop it, start it again, and it says the same at the end."""
    command = [sys.executable, str(EXAMPLES / "resume.py"), "--directory", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
