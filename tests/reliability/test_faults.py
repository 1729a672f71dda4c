"""Every input or output call of a checkpointed run, of results and of downloads fails once, in turn."""

import contextlib
import errno
import functools
import http.server
import os
import re
import shutil
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import retrax as rx
from retrax import _files
from retrax.checkpoint import Checkpoint
from retrax.datasets import DataError, fetch, load
from retrax.experiments import storage
from retrax.experiments.specs import UsageError

fcntl = pytest.importorskip("fcntl")  # not on Windows

X = np.random.default_rng(0).standard_normal((50, 3))


CHANGES = ("fsync", "replace", "rename", "mkdir", "rmdir", "chmod", "unlink")
LOOKS = ("open", "close", "stat", "lstat", "listdir", "scandir")
CALLS = {os: (*CHANGES, *LOOKS), fcntl: ("flock",)}
"""Pathlib and tempfile go through os too."""


class Failing:
    """Counts the calls that go to a part of the disk; call number `at` fails."""

    def __init__(self, monkeypatch, number, root):
        self.count, self.at, self.error, self.root = 0, -1, number, str(root)
        for module, names in CALLS.items():
            for name in names:
                monkeypatch.setattr(module, name, self._failing(getattr(module, name)))
        original = Path.open

        def open_(path, *arguments, **options):
            self._step()
            return File(original(path, *arguments, **options), self)

        monkeypatch.setattr(Path, "open", open_)

    def _failing(self, original):
        @functools.wraps(original)
        def call(*arguments, **options):
            if original.__name__ == "close":  # whatever it reports, it is done
                original(*arguments)
                return self._step()
            if isinstance(arguments[0], int) or str(arguments[0]).startswith(self.root):
                self._step()
            return original(*arguments, **options)

        return call

    def _step(self):
        self.count += 1
        if self.count - 1 == self.at:
            raise OSError(self.error, os.strerror(self.error))


class File:
    """A file of which reading, writing and flushing can fail too."""

    def __init__(self, file, failing):
        self.file, self.failing = file, failing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        if name in ("read", "readinto", "write", "flush"):
            self.failing._step()
        return getattr(self.file, name)


REFUSALS = "no checkpoint can be written|checkpoints in .* cannot be listed|no checkpoint can be resumed from"


def run(directory, steps=6):
    problem = rx.Problem(lambda x, b: -((b @ x) ** 2).mean(), rx.Sphere(3), X)
    checkpoint = Checkpoint(directory, every=2, keep=1)
    return rx.minimize(problem, rx.rsgd(0.1), steps=steps, record=3, checkpoint=checkpoint, resume=True, driver="eager")


@pytest.mark.parametrize(("number", "begun"), [(errno.ENOSPC, False), (errno.EIO, True)], ids=["new", "resumed"])
def test_a_run_survives_every_failing_call(number, begun, tmp_path, monkeypatch):
    wanted = run(tmp_path / "good").x
    run(tmp_path / "begun", steps=3)

    def started(name):
        if begun:
            shutil.copytree(tmp_path / "begun", tmp_path / name)
        return tmp_path / name

    failing = Failing(monkeypatch, number, tmp_path)
    counted = started("counted")
    failing.count = 0
    run(counted)
    total = failing.count
    assert total > 20
    for at in range(total):
        directory = started(str(at))
        failing.count, failing.at = 0, at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert np.array_equal(run(directory).x, wanted)
            except ValueError as error:  # refused at the start, before a step was taken
                assert re.search(REFUSALS, str(error))  # noqa: PT017
            failing.at = -1
            assert not directory.exists() or len(list(directory.glob(_files.TEMPORARY))) <= 1  # unlink may have failed
            assert np.array_equal(run(directory).x, wanted)
        assert not list(directory.glob(_files.TEMPORARY))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_result_is_written_or_refused_by_name(number, tmp_path, monkeypatch):
    failing = Failing(monkeypatch, number, tmp_path)
    storage.prepare(tmp_path)
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


def test_a_folder_for_results_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    failing = Failing(monkeypatch, errno.EROFS, tmp_path)
    storage.prepare(tmp_path / "counted")
    for at in range(failing.count):
        failing.count, failing.at = 0, at
        with pytest.raises(UsageError, match=r"cannot write to .*Read-only file system"):
            storage.prepare(tmp_path / str(at))
        failing.at = -1


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Where a small official file is served."""
    monkeypatch.setenv("NO_PROXY", "*")
    served = tmp_path / "served"
    served.mkdir()
    with zipfile.ZipFile(served / "CroppedYale.zip", "w") as archive:
        archive.writestr("yaleB01_P00A+000E+00.pgm", b"P5 2 2 255\n" + bytes(4))
    handler = functools.partial(Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(5)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_download_is_whole_or_not_there(number, address, tmp_path, monkeypatch):
    root = tmp_path / "downloads"
    failing = Failing(monkeypatch, number, root)
    fetch("yaleb", root / "counted", base_url=address)
    total = failing.count
    assert total > 8
    refused = 0
    for at in range(total):
        folder = root / str(at)
        failing.count, failing.at = 0, at
        try:
            fetch("yaleb", folder, base_url=address)
        except DataError as error:
            refused += 1
            assert re.search("could not download|cannot be looked at", str(error))  # noqa: PT017
        failing.at = -1
        left = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        others = left - {"CroppedYale.zip", "CroppedYale.zip.sha256"}
        assert len(others) <= 1  # where removing it was what failed
        assert all(name.startswith(".retrax-") for name in others)
        fetch("yaleb", folder, base_url=address)  # the same again, on a disk that works
        assert len(load("yaleb", folder).data) == 1
    assert refused > 4
