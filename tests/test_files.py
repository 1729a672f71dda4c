"""Files written whole or not at all: whatever call fails, the old content stays and nothing else is left behind."""

import errno
import os

import pytest

from retrax._files import write_atomically


def test_content_and_permissions(tmp_path):
    path = tmp_path / "new" / "file"
    write_atomically(path, lambda file: file.write(b"content"))
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_failing_call_leaves_the_old_file(tmp_path, monkeypatch, call, reason):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*arguments):
        raise OSError(reason, os.strerror(reason))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(OSError, match=os.strerror(reason)):
            write_atomically(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_folder_is_synchronised_after_the_renaming(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    kind = lambda handle: "folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file"  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append(kind(handle)), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("rename"), replace(*paths)))
    write_atomically(tmp_path / "file", lambda file: file.write(b"content"))
    assert calls == ["file", "rename", "folder"]
