"""Every input or output call of a checkpointed run, of results and of downloads fails once, in turn."""

import contextlib
import errno
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import retrax as rx
from retrax import _files
from retrax.checkpoint import Checkpoint
from retrax.experiments import storage
from retrax.experiments.specs import UsageError

X = np.random.default_rng(0).standard_normal((50, 3))


class Failing:
    """Counts the calls that go to the disk; call number `at` fails."""

    def __init__(self, monkeypatch, number):
        self.count, self.at, self.error = 0, -1, number
        for owner, name in ((_files.os, "fsync"), (_files.os, "replace"), (Path, "mkdir"), (Path, "unlink")):
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))
        original = Path.open

        def open_(path, *arguments, **options):
            self._step()
            file = original(path, *arguments, **options)
            if "x" in file.mode:
                file = Written(file, self)
            return file

        monkeypatch.setattr(Path, "open", open_)

    def _failing(self, original):
        def call(*arguments, **options):
            self._step()
            return original(*arguments, **options)

        return call

    def _step(self):
        self.count += 1
        if self.count - 1 == self.at:
            raise OSError(self.error, os.strerror(self.error))


class Written:
    """A file whose writing and flushing can fail too."""

    def __init__(self, file, failing):
        self.file, self.failing = file, failing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        self.failing._step()
        return self.file.write(content)

    def flush(self):
        self.failing._step()
        self.file.flush()

    def fileno(self):
        return self.file.fileno()


def run(directory):
    problem = rx.Problem(lambda x, b: -((b @ x) ** 2).mean(), rx.Sphere(3), X)
    checkpoint = Checkpoint(directory, every=2, keep=1)
    return rx.minimize(problem, rx.rsgd(0.1), steps=6, record=3, checkpoint=checkpoint, resume=True, driver="eager")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_run_survives_every_failing_call(number, tmp_path, monkeypatch):
    wanted = run(tmp_path / "good").x
    failing = Failing(monkeypatch, number)
    run(tmp_path / "counted")
    total = failing.count
    assert total > 20
    for at in range(total):
        directory = tmp_path / str(at)
        failing.count, failing.at = 0, at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert np.array_equal(run(directory).x, wanted)
            except ValueError as error:  # refused at the start, before a step was taken
                assert "no checkpoint can be written" in str(error)  # noqa: PT017
            failing.at = -1
            assert not directory.exists() or len(list(directory.glob(_files.TEMPORARY))) <= 1  # unlink may have failed
            assert np.array_equal(run(directory).x, wanted)
        assert not list(directory.glob(_files.TEMPORARY))


def test_a_result_is_written_or_refused_by_name(tmp_path, monkeypatch):
    failing = Failing(monkeypatch, errno.ENOSPC)
    storage.write_json(tmp_path / "counted.json", {"a": 1})
    total, path = failing.count, tmp_path / "result.json"
    for at in range(total):
        path.write_text("old")
        failing.count, failing.at = 0, at
        with contextlib.suppress(UsageError):
            storage.write_json(path, {"a": 1})
        failing.at = -1
        assert path.read_text() in ("old", '{"a":1}\n')
        assert [one.name for one in tmp_path.iterdir()].count("result.json") == 1
