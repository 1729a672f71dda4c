"""Checkpoints: all that a run carries, in one file that is either whole or not there.

A file holds a magic word, a SHA-256 of all that follows, a JSON header and raw arrays; no pickle. It is written under
another name, flushed to the disk and then renamed.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from retrax._arguments import integer
from retrax._files import TEMPORARY, write_atomically
from retrax.drivers.devices import largest
from retrax.fingerprint import Fingerprint
from retrax.plan import Position
from retrax.settings import Settings

_MAGIC = b"RETRAX CHECKPOINT\n"
_VERSION = 2
_OTHER_VERSIONS = {1: "Retrax before 0.1.0"}
"""Who wrote files of other versions of the format."""
_NAME = re.compile(r"step-(\d{9,})\.ckpt")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Write a checkpoint into `directory` every so many steps and at the end of the run; keep the last `keep`."""

    directory: str | os.PathLike[str]
    every: int
    keep: int = 3

    def __post_init__(self) -> None:
        integer(self.every, "Checkpoint: every", least=1)
        integer(self.keep, "Checkpoint: keep", least=1)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds: arrays in a fixed order, and JSON for the rest."""

    arrays: list[np.ndarray]
    facts: dict[str, Any]


class RefusedError(ValueError):
    """A checkpoint that cannot be used, and why."""


def encode(snapshot: Snapshot) -> bytes:
    """A snapshot as the content of a file."""
    arrays = [np.asarray(array, order="C") for array in snapshot.arrays]
    kinds = [{"dtype": array.dtype.str, "shape": list(array.shape)} for array in arrays]
    versions = {"jax": jax.__version__, "numpy": np.__version__}
    header = json.dumps({"version": _VERSION, "versions": versions, "arrays": kinds, **snapshot.facts}).encode()
    content = b"".join([len(header).to_bytes(8, "little"), header, *(array.tobytes() for array in arrays)])
    return _MAGIC + hashlib.sha256(content).digest() + content


def decode(content: bytes) -> Snapshot:
    """The snapshot in a file's content; RefusedError if it is not one, or damaged."""
    if not content.startswith(_MAGIC):
        raise RefusedError("it is not a Retrax checkpoint" if content else "it is empty")
    start = len(_MAGIC) + hashlib.sha256().digest_size
    body = memoryview(content)[start:]
    if hashlib.sha256(body).digest() != content[len(_MAGIC) : start]:
        raise RefusedError("it is damaged: its checksum does not match")
    try:
        return _parsed(body)
    except RefusedError:
        raise
    # A file can have a right checksum and a wrong content: somebody may have made it by hand.
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise RefusedError(f"its content makes no sense ({type(error).__name__}: {str(error)[:200]})") from None


def _parsed(body: memoryview) -> Snapshot:
    length = int.from_bytes(body[:8], "little")
    facts = json.loads(bytes(body[8 : 8 + length]))
    version = facts.pop("version")
    if version != _VERSION:
        writer = _OTHER_VERSIONS.get(version, "a later version of Retrax") if isinstance(version, int) else "another"
        raise RefusedError(f"it was written by another version of Retrax: format {version}, by {writer}")
    arrays, offset = [], 8 + length
    for kind in facts.pop("arrays"):
        dtype, shape = np.dtype(kind["dtype"]), tuple(integer(size, "a size", least=0) for size in kind["shape"])
        if dtype.kind not in "fiub":
            raise RefusedError(f"it holds {dtype}, which are no numbers")
        count = math.prod(shape)
        if count * dtype.itemsize > len(body) - offset:
            raise RefusedError("it is shorter than its header says")
        arrays.append(np.frombuffer(body, dtype, count, offset).reshape(shape).copy())
        offset += count * dtype.itemsize
    if offset != len(body):
        raise RefusedError("it is longer than its header says")
    return Snapshot(arrays, facts)


def write(path: str | os.PathLike[str], snapshot: Snapshot) -> None:
    """Write a file that is either whole or not there."""
    write_atomically(Path(path), lambda file: file.write(encode(snapshot)))


def read(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a file; ValueError if it is not one."""
    try:
        return decode(Path(path).read_bytes())
    except RefusedError as refusal:
        raise RefusedError(f"{path} cannot be loaded: {refusal}") from None


def check_snapshot(snapshot: Snapshot, ours: Fingerprint, steps: int | None) -> None:
    """Refuse a snapshot of another run, from beyond the planned end, or without what a run needs."""
    facts = snapshot.facts
    missing = {"fingerprint", "position", "place", "seconds", "history"} - set(facts)
    if missing:
        raise RefusedError(f"it lacks {', '.join(sorted(missing))}")
    position = facts["position"]
    names = {field.name for field in dataclasses.fields(Position)}
    if not isinstance(position, dict) or set(position) != names:
        raise RefusedError("its counters are not those of a run")
    for name, value in position.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
            raise RefusedError(f"its counter {name} is {value!r}")
    seconds = facts["seconds"]
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise RefusedError(f"its clock stands at {seconds!r}")
    columns = facts["history"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise RefusedError("its history has no columns")
    if steps is not None and position["step"] > steps:
        raise RefusedError(f"its step lies beyond steps={steps}")
    compare(facts["fingerprint"], ours.at(position["step"]))


class Folder:
    """The checkpoints in a directory."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path, self.keep = Path(checkpoint.directory), checkpoint.keep

    def prepare(self) -> int | None:
        """Make and lock the directory, see that files can be written there, and remove what a killed run has left."""
        handle = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = lock(self.path)
            for leftover in self.path.glob(TEMPORARY):
                leftover.unlink()
            probe = self.path / TEMPORARY.replace("*", "probe")
            write_atomically(probe, lambda file: file.write(bytes(2**16)))
            probe.unlink()
            return handle
        except OSError as error:
            if handle is not None:
                _close(handle)
            raise ValueError(
                f"no checkpoint can be written into {self.path}: {error.strerror or error}; choose another directory"
            ) from error

    def steps(self) -> list[int]:
        """The steps for which there are files, rising; what only looks like one is passed over."""
        try:
            return self._listed()
        except OSError as error:
            raise ValueError(
                f"the checkpoints in {self.path} cannot be listed: {error.strerror or error}; choose another directory"
            ) from error

    def _listed(self) -> list[int]:
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = [int(match[1]) for match in map(_NAME.fullmatch, names) if match]
        return sorted({step for step in found if _may_be_file(self.file(step))})

    def file(self, step: int) -> Path:
        """The file of a step."""
        return self.path / f"step-{step:09d}.ckpt"

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write a file that is either whole or not there, then remove those that are no longer to be kept."""
        write(self.file(step), snapshot)
        for old in [other for other in self._listed() if other <= step][: -self.keep]:
            self.file(old).unlink(missing_ok=True)

    def newest(self, usable: Callable[[Snapshot], None]) -> Snapshot | None:
        """The newest checkpoint that can be read and that `usable` does not refuse; None if there are no files."""
        reasons = []
        for step in reversed(self.steps()):
            path = self.file(step)
            try:
                snapshot = decode(path.read_bytes())
                usable(snapshot)
            except (RefusedError, OSError) as refusal:
                reasons.append(f"{path}: {refusal}")
                continue
            for reason in reasons:
                warnings.warn(f"checkpoint not used: {reason}; resuming from {path.name}", RuntimeWarning, stacklevel=2)
            return snapshot
        if reasons:
            raise ValueError("no checkpoint can be resumed from: " + "; ".join(reasons))
        return None


class Keeper:
    """The checkpoints of one run, to be closed at its end. Of several processes, the first writes and all read."""

    def __init__(self, checkpoint: Checkpoint, settings: Settings) -> None:
        self.folder, self.settings = Folder(checkpoint), settings
        self.fingerprint = Fingerprint(settings)
        self.writes = not settings.several_processes or jax.process_index() == 0
        self.last_step: int | None = None
        self.trouble: str | None = None
        """Why the last checkpoint could not be written."""
        self._lock: int | None = None

    def open(self, resume: bool, fits: Callable[[Snapshot], None] = lambda snapshot: None) -> Snapshot | None:
        """The checkpoint to go on from, if there is one that `fits`; refuses to mix a new run with another's files."""
        if not resume and self.folder.steps():
            raise ValueError(
                f"{self.folder.path} holds checkpoints already; continue with resume=True, or choose another directory"
            )
        if self.writes:
            self._lock = self.folder.prepare()

        def usable(snapshot: Snapshot) -> None:
            check_snapshot(snapshot, self.fingerprint, self.settings.plan.steps)
            fits(snapshot)

        saved = self.folder.newest(usable) if resume else None
        self.last_step = None if saved is None else saved.facts["position"]["step"]
        step = self.last_step or 0
        if self.settings.several_processes and largest(step, -step) != (step, -step):
            raise ValueError(f"the processes see different checkpoints: {self.folder.path} must be shared by all")
        for unchecked in self.fingerprint.unchecked:
            warnings.warn(
                f"a checkpoint in {self.folder.path} cannot tell {unchecked} from another run's", RuntimeWarning, 4
            )
        return saved

    def close(self) -> None:
        """Let other runs write into the directory."""
        if self._lock is not None:
            _close(self._lock)
            self._lock = None

    def save(self, step: int, snapshot: Callable[[], Snapshot]) -> None:
        """Write, unless it has been written; no process goes on before. A failure is told, and the run goes on."""
        if step != self.last_step:
            self._write(step, snapshot())  # asked for by all processes: each may hold a part of the point
        if self.settings.several_processes:
            largest(step)
        self.last_step = step

    def _write(self, step: int, snapshot: Snapshot) -> None:
        if not self.writes:
            return
        try:
            self.folder.save(step, snapshot)
            self.trouble = None
        except OSError as error:
            self.trouble = f"the checkpoint of step {step} could not be written: {error}"
            warnings.warn(f"{self.trouble}; the run goes on without it", RuntimeWarning, stacklevel=3)


def _may_be_file(path: Path) -> bool:
    """Whether a file is there. One that the disk does not let us look at counts: reading it will say why."""
    try:
        return path.is_file()
    except OSError:
        return True


def _close(handle: int) -> None:
    """The descriptor is free even where closing it reports an error, which is no reason to lose a result."""
    with contextlib.suppress(OSError):
        os.close(handle)


def lock(directory: Path) -> int | None:
    """A hold on a directory until it is closed or the process ends; ValueError if another run has it.

    It is the directory itself that is locked, so that no file is left. None where the system cannot do that.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _close(handle)
        raise ValueError(
            f"another run is writing checkpoints into {directory}; wait for its end, or choose another directory"
        ) from None
    except OSError:  # some network file systems have no locks
        _close(handle)
        return None
    return handle


def compare(theirs: Any, ours: Mapping[str, str]) -> None:
    """Refuse a checkpoint of another run, naming what differs."""
    if not isinstance(theirs, dict):
        raise RefusedError("it does not say which run it belongs to")
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise RefusedError(f"it belongs to another run, whose {name} is {theirs.get(name)} and not {value}")
