"""Files after a power failure: whatever the disk had not been told to keep may be lost, or kept in any order."""

import io
import itertools
from pathlib import Path

import pytest

from retrax import _files

BLOCK = 4
OLD, NEW = b"the old content", b"and the new one, which is longer"


class Disk:
    """Writes down what a program asks of the system, and shows what may be left after the power fails."""

    def __init__(self, path):
        self.path, self.done = path, []

    def open(self, path, mode):
        assert mode == "xb"
        self.done.append(("create", path.name))
        return File(self, path.name)

    def replace(self, source, target):
        self.done.append(("rename", source.name, target.name))

    def fsync(self, handle):
        self.done.append(("keep", handle))

    def left_after(self, count):
        """Every content that the target may have if the power fails after `count` operations."""
        done = self.done[:count]
        kept = set()
        for i, (kind, *rest) in enumerate(done):
            if kind == "keep":
                wanted = ("create", "rename") if rest[0] == "folder" else ("write",)
                kept |= {j for j in range(i) if done[j][0] in wanted and rest[0] in ("folder", done[j][1])}
        open_ends = [i for i in range(count) if done[i][0] != "keep" and i not in kept]
        for chosen in itertools.product([False, True], repeat=len(open_ends)):
            lost = {i for i, stays in zip(open_ends, chosen, strict=True) if not stays}
            yield self._content([operation for i, operation in enumerate(done) if i not in lost])

    def _content(self, operations):
        contents = {self.path.name: OLD}
        written = {}
        for kind, *rest in operations:
            if kind == "write":
                name, place, block = rest
                room = written.setdefault(name, bytearray())
                room.extend(bytes(max(0, place + len(block) - len(room))))
                room[place : place + len(block)] = block
        for kind, *rest in operations:
            if kind == "rename":
                contents[rest[1]] = bytes(written.get(rest[0], b""))
        return contents[self.path.name]


class File(io.BytesIO):
    """A file whose blocks reach the disk one by one."""

    def __init__(self, disk, name):
        super().__init__()
        self.disk, self.name = disk, name

    def write(self, content):
        for start in range(0, len(content), BLOCK):
            self.disk.done.append(("write", self.name, start, content[start : start + BLOCK]))
        return len(content)

    def fileno(self):
        return self.name


@pytest.fixture
def disk(monkeypatch, tmp_path):
    disk = Disk(tmp_path / "file")
    monkeypatch.setattr(Path, "open", lambda path, mode: disk.open(path, mode))
    monkeypatch.setattr(_files.os, "replace", disk.replace)
    monkeypatch.setattr(_files.os, "fsync", disk.fsync)
    monkeypatch.setattr(_files.os, "open", lambda folder, flags: "folder")
    monkeypatch.setattr(_files.os, "close", lambda handle: None)
    return disk


def test_after_a_power_failure_a_file_is_the_old_or_the_new_one(disk):
    _files.write_atomically(disk.path, lambda file: file.write(NEW))
    for count in range(len(disk.done) + 1):
        assert set(disk.left_after(count)) <= {OLD, NEW}
    assert set(disk.left_after(len(disk.done))) == {NEW}  # and once the call has returned, the new one


def test_the_simulation_sees_a_missing_fsync(disk, monkeypatch):
    monkeypatch.setattr(_files.os, "fsync", lambda handle: None)
    _files.write_atomically(disk.path, lambda file: file.write(NEW))
    left = {content for count in range(len(disk.done) + 1) for content in disk.left_after(count)}
    assert not left <= {OLD, NEW}
