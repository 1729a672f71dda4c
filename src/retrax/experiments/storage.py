"""Result files: JSON, written at once or not at all; and the finished parts that an interrupted run leaves behind."""

import contextlib
import dataclasses
import hashlib
import json
import uuid
from pathlib import Path
from typing import Any, TypeVar

from retrax._files import write_atomically
from retrax.experiments.encoding import UnreadableError, from_json, to_json
from retrax.experiments.results import ExperimentResult, Part
from retrax.experiments.specs import UsageError

FORMAT = 2
T = TypeVar("T")


def fingerprint(content: Any) -> str:
    """A short digest of settings."""
    text = json.dumps(to_json(content), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_json(path: Path, content: Any) -> None:
    """Create or replace a file; a crash leaves the old one or none, never half of one."""
    text = json.dumps(to_json(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
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


def read_json(path: Path) -> Any:
    """The content of a file; FileNotFoundError where there is none, UnreadableError where it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError):
        raise UnreadableError("it is damaged") from None


def read(kind: type[T], path: Path) -> T | None:
    """What a file holds, or None where there is none or it does not hold that."""
    try:
        return from_json(kind, read_json(path))
    except (FileNotFoundError, UnreadableError):
        return None


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

    def result(self, name: str) -> ExperimentResult | None:
        """An experiment's result, if there is one; UsageError, naming the file, where it cannot be used."""
        path = self.result_path(name)
        try:
            content = read_json(path)
            written = content.get("format") if isinstance(content, dict) else None
            if isinstance(written, int) and written != FORMAT:
                raise UnreadableError(f"it has format {written}, and this version reads format {FORMAT}")
            return from_json(ExperimentResult, content)
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            raise UsageError(f"{path} cannot be used: {error}; delete it and run {name} again") from error

    def part(self, kind: type[T], name: str, key: str, digest: str) -> T | None:
        """A finished part with the same settings."""
        return read(kind, self.part_path(name, key, digest))

    def save_part(self, name: str, key: str, digest: str, content: Part) -> None:
        """Keep a finished part."""
        write_json(self.part_path(name, key, digest), content)

    def save_result(self, name: str, content: ExperimentResult) -> None:
        """Write the result; the parts in it are no longer needed."""
        write_json(self.result_path(name), content)
        folder = self.out / ".parts" / name
        with contextlib.suppress(OSError):  # Parts that stay, or another experiment's in the folder above, do no harm.
            for path in list(folder.iterdir()):
                path.unlink(missing_ok=True)
            folder.rmdir()
            folder.parent.rmdir()
