"""Two processes on one run, of which one is killed or stands still: the other ends soon, and says why.

RETRAX_LOSSES=all tries every way; `make test` kills either.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrax.drivers.peers import PATIENCE

WORKER = Path(__file__).with_name("lost_worker.py")
ROOT = WORKER.parents[2]
SECONDS = 15
WAYS = [(1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGSTOP), (0, signal.SIGSTOP)]


def start(directory, steps):
    """Both processes."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    commands = [[sys.executable, str(WORKER), str(i), str(port), str(directory), str(steps)] for i in range(2)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command, env=environment, **pipes) for command in commands]


def finished(directory, steps):
    """The result of an undisturbed end."""
    processes = start(directory, steps)
    ends = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ends
    assert [errors for _, errors in ends] == ["", ""]  # nobody is told of an end that is no loss
    return ends[0][0]


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "how"), WAYS if os.environ.get("RETRAX_LOSSES") == "all" else WAYS[:2])
def test_the_other_process_ends_and_the_run_can_be_resumed(lost, how, tmp_path):
    processes = start(tmp_path / "lost", 10**8)
    try:
        while len(list(tmp_path.glob("lost/*.ckpt"))) < 2:
            assert all(process.poll() is None for process in processes), processes[0].communicate()
            time.sleep(0.02)
        processes[lost].send_signal(how)
        moment = time.monotonic()
        _, errors = processes[1 - lost].communicate(timeout=120)
        waited = time.monotonic() - moment
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
    assert processes[1 - lost].returncode != 0
    assert waited < SECONDS, errors
    reason = rf"process {lost} has not been heard of for {PATIENCE:g} seconds|a message from another process failed"
    said = rf"({reason}).*, so process {1 - lost} ends"
    if lost == 0:  # JAX watches the first process too, and may be faster
        said += "|process 1 was killed, or ended by JAX because process 0 is gone"
    assert re.fullmatch(rf"retrax: ({said}); start all .*\n", errors), errors
    print(f"process {lost} lost by {how.name}: the other ended after {waited:.1f} s")
    reached = max(int(path.stem.removeprefix("step-")) for path in tmp_path.glob("lost/*.ckpt"))
    steps = reached + 400
    assert finished(tmp_path / "lost", steps) == finished(tmp_path / "undisturbed", steps)


ENDS = {"os.abort()": "unsaid\n", "words.say('said'); os.abort()": "said\n", "words.done(); os._exit(1)": ""}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_process_leaves_one_line(end):
    code = f"import os\nfrom retrax.drivers.last_words import LastWords\nwords = LastWords('unsaid')\n{end}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert run.stderr == ENDS[end]
