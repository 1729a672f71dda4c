"""Data on several devices or in several processes: the single-device result up to rounding."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("parallel_worker.py")
ROOT = WORKER.parents[2]


def start(*arguments):
    """The worker, as a process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(WORKER), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ROOT)


def figures(processes):
    """What the processes print; all are ended, whatever happens."""
    try:
        ends = [process.communicate(timeout=500) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, ends, strict=True):
        assert process.returncode == 0, errors.decode()
    return [json.loads(output.decode().splitlines()[-1]) for output, _ in ends]


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def check(found):
    """Up to rounding, and to the same bits after resuming."""
    print(found)
    assert found.pop("resumed") == 0
    assert max(found.values()) < 1e-10, found


def test_several_devices_give_the_result_of_one(tmp_path):
    check(*figures([start(4, tmp_path)]))


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(tmp_path):
    port = free_port()
    for found in figures([start(2, process, 2, port, tmp_path) for process in range(2)]):
        check(found)
