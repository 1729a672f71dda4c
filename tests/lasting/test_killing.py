"""SIGKILL at a random moment, SIGTERM and Ctrl-C. RETRAX_KILLS sets how often each run is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import retrax as rx
from retrax._files import TEMPORARY
from retrax.checkpoint import Checkpoint, Folder

from .runs import assert_same, no_thread_left, problem, samples, saved

WORKER = Path(__file__).with_name("worker.py")
KILLS = int(os.environ.get("RETRAX_KILLS", "3"))
STEPS = 60_000


def start(name, file, directory, result):
    """The worker, as a process."""
    arguments = [sys.executable, str(WORKER), name, str(file), str(directory), str(result), str(STEPS)]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process):
    """Its end, which must be a good one."""
    errors = process.communicate(timeout=280)[1].decode()
    assert process.returncode == 0, errors


def assert_nothing_half_written(directory):
    """Besides at most one temporary file of a write under way, every file is whole."""
    folder = Folder(Checkpoint(directory, every=1))
    for step in folder.steps():
        folder.newest(lambda snapshot: None)
        assert folder.file(step).stat().st_size > 0
    names = {path.name for path in Path(directory).iterdir()} - {folder.file(step).name for step in folder.steps()}
    assert all(Path(name).match(TEMPORARY) for name in names)
    assert len(names) <= 1


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", ["rsrm", "rasa", "rsvrg"])
def test_a_killed_run_ends_with_the_same_bits(name, tmp_path):
    file = saved(tmp_path, samples(5000))
    finish(start(name, file, tmp_path / "undisturbed", tmp_path / "undisturbed.npz"))
    moments = random.Random(name)
    directory, result = tmp_path / "killed", tmp_path / "killed.npz"
    folder = Folder(Checkpoint(directory, every=1))
    kills, reached = 0, []
    while kills < KILLS:
        if result.exists():  # it came to its end between two kills: begin again
            result.unlink()
            for step in folder.steps():
                folder.file(step).unlink()
        process = start(name, file, directory, result)
        before = folder.steps()
        while process.poll() is None and folder.steps() == before:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.5))
        if process.poll() is None:
            process.kill()
            kills += 1
            reached.append(folder.steps()[-1])
        process.communicate(timeout=60)
        assert_nothing_half_written(directory)
    finish(start(name, file, directory, result))
    with np.load(tmp_path / "undisturbed.npz") as one, np.load(result) as other:
        assert set(one) == set(other)
        for column in one:
            np.testing.assert_array_equal(one[column], other[column], err_msg=column)
    assert not list(directory.glob(TEMPORARY))
    assert folder.steps()[-1] == STEPS
    print(f"{name}: killed {kills} times, with checkpoints at steps {reached}")


KINDS = {signal.SIGINT: rx.InterruptedRun, signal.SIGTERM: rx.TerminatedRun}


@pytest.mark.parametrize("number", KINDS)
@pytest.mark.parametrize("form", ["array", "file"])
def test_a_signal_ends_the_run_with_a_checkpoint(number, form, tmp_path):
    data = samples() if form == "array" else saved(tmp_path, samples())
    arguments = {"method": rx.rsrm(0.01), "steps": 4000, "record": rx.Record(every=1000, samples=500)}
    checkpoint = Checkpoint(tmp_path / "checkpoints", every=10**6)

    def ask(step, _):
        if step == 2000:
            signal.raise_signal(number)

    before = signal.getsignal(number)
    with no_thread_left(), pytest.raises(KINDS[number]) as caught:
        rx.minimize(problem(data), **arguments, checkpoint=checkpoint, on_record=ask)
    stopped = caught.value.result
    assert stopped.status is rx.Status.INTERRUPTED
    assert stopped.history["step"][-1] == stopped.steps
    assert 2000 <= stopped.steps < 4000
    assert Folder(checkpoint).steps() == [stopped.steps]
    assert signal.getsignal(number) is before
    resumed = rx.minimize(problem(data), **arguments, checkpoint=checkpoint, resume=True)
    assert_same(rx.minimize(problem(data), **arguments), resumed)


def test_a_second_ctrl_c_acts_at_once():
    def ask(step, _):
        if step == 1000:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        rx.minimize(problem(samples()), rx.rsrm(0.01), steps=4000, record=1000, on_record=ask)
    assert not isinstance(caught.value, rx.InterruptedRun)
