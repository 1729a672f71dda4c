"""SHA-256 of files, and the checksum recorded beside a download."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from .errors import DataError
from .formats import reading
from .registry import Archive, is_there


def sha256(path: Path, *, of_content: bool = False) -> str:
    """The SHA-256 of a file or, with `of_content`, of what its gzip layer holds."""
    with reading(path), gzip.open(path) if of_content else path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record_path(path: Path) -> Path:
    """Where the checksum of a downloaded file is recorded."""
    return path.with_name(path.name + ".sha256")


def check_recorded(path: Path) -> bool:
    """Compare a file with the checksum recorded at its download; False where none was recorded."""
    record = record_path(path)
    if not is_there(record):
        return False
    with reading(record):
        words = record.read_text(encoding="ascii").split()
    _compare(path, sha256(path), words[0] if words else "nothing", f"recorded in {record.name}")
    return True


def check_published(path: Path, archive: Archive) -> bool:
    """Compare an official file with its published checksum; False where there is none."""
    if archive.sha256 is None:
        return False
    _compare(path, sha256(path, of_content=archive.of_content), archive.sha256, "published")
    return True


def _compare(path: Path, actual: str, expected: str, origin: str) -> None:
    if actual != expected:
        raise DataError(
            f"{path} has the wrong checksum (sha256 {actual[:12]}..., {origin} {expected[:12]}...): "
            "remove it and fetch it again"
        )
