"""Result files: JSON, written at once or not at all; and the finished parts that an interrupted run leaves behind."""

import dataclasses
import hashlib
import json
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from retrax._files import write_atomically
from retrax.experiments.specs import UsageError

FORMAT = 1


def plain(value: Any) -> Any:
    """Something JSON can hold: arrays as lists with 7 digits, NaN and infinities as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def fingerprint(content: Any) -> str:
    """A short digest of settings."""
    text = json.dumps(plain(content), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_json(path: Path, content: Any) -> None:
    """Create or replace a file; a crash leaves the old one or none, never half of one."""
    text = json.dumps(plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """Create or replace a text file, at once or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Create or replace a file, at once or not at all."""
    try:
        write_atomically(path, lambda file: file.write(content))
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): name another folder by --out") from error


def read_json(path: Path) -> dict[str, Any] | None:
    """The content of a file, or None where there is none or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def prepare(out: Path) -> None:
    """Make the folder for results and see that it can be written to, before anything is computed."""
    probe = out / f".{uuid.uuid4().hex[:8]}.tmp"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {out} ({error.strerror}): name another folder by --out") from error


@dataclasses.dataclass(frozen=True)
class Store:
    """The folder of results."""

    out: Path

    def result_path(self, name: str) -> Path:
        """Where an experiment's result is."""
        return self.out / f"{name}.json"

    def part_path(self, name: str, key: str, digest: str) -> Path:
        """Where a finished part of an unfinished experiment is."""
        return self.out / ".parts" / name / f"{key}-{digest}.json"

    def result(self, name: str) -> dict[str, Any] | None:
        """An experiment's result, if it is there and readable."""
        content = read_json(self.result_path(name))
        return content if content and content.get("format") == FORMAT else None

    def part(self, name: str, key: str, digest: str) -> dict[str, Any] | None:
        """A finished part with the same settings."""
        return read_json(self.part_path(name, key, digest))

    def save_part(self, name: str, key: str, digest: str, content: dict[str, Any]) -> None:
        """Keep a finished part."""
        write_json(self.part_path(name, key, digest), content)

    def save_result(self, name: str, content: dict[str, Any]) -> None:
        """Write the result; the parts in it are no longer needed."""
        write_json(self.result_path(name), content)
        folder = self.out / ".parts" / name
        for path in sorted(folder.glob("*")):
            path.unlink(missing_ok=True)
        for empty in (folder, folder.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
