"""Checkpoints: all that a run carries, in one file that is either whole or not there.

A file holds a magic word, a SHA-256 of all that follows, a JSON header and raw arrays; no pickle. It is written under
another name, flushed to the disk and then renamed.
"""

import dataclasses
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from retrax._checks import integer
from retrax._files import TEMPORARY, write_atomically
from retrax.drivers.devices import largest
from retrax.settings import Settings

_MAGIC = b"RETRAX CHECKPOINT\n"
_VERSION = 1
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
    header = json.dumps({"version": _VERSION, "arrays": kinds, **snapshot.facts}).encode()
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
    length = int.from_bytes(body[:8], "little")
    facts = json.loads(bytes(body[8 : 8 + length]))
    if facts.pop("version") != _VERSION:
        raise RefusedError("it was written by another version of Retrax")
    arrays, offset = [], 8 + length
    for kind in facts.pop("arrays"):
        dtype, shape = np.dtype(kind["dtype"]), tuple(kind["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(body, dtype, count, offset).reshape(shape).copy())
        offset += count * dtype.itemsize
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


def check_snapshot(snapshot: Snapshot, ours: Mapping[str, str], steps: int | None) -> None:
    """Refuse a snapshot of another run, or from beyond the planned end."""
    compare(snapshot.facts["fingerprint"], ours)
    if steps is not None and snapshot.facts["position"]["step"] > steps:
        raise RefusedError(f"its step lies beyond steps={steps}")


class Folder:
    """The checkpoints in a directory."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path, self.keep = Path(checkpoint.directory), checkpoint.keep

    def prepare(self) -> None:
        """Make the directory, and remove what an interrupted write has left."""
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in self.path.glob(TEMPORARY):
            leftover.unlink()

    def steps(self) -> list[int]:
        """The steps for which there are files, rising."""
        if not self.path.is_dir():
            return []
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, os.listdir(self.path)) if match)

    def file(self, step: int) -> Path:
        """The file of a step."""
        return self.path / f"step-{step:09d}.ckpt"

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write a file that is either whole or not there, then remove those that are no longer to be kept."""
        write(self.file(step), snapshot)
        for old in [other for other in self.steps() if other <= step][: -self.keep]:
            self.file(old).unlink()

    def newest(self, usable: Callable[[Snapshot], None]) -> Snapshot | None:
        """The newest checkpoint that can be read and that `usable` does not refuse; None if there are no files."""
        reasons = []
        for step in reversed(self.steps()):
            path = self.file(step)
            try:
                snapshot = decode(path.read_bytes())
                usable(snapshot)
            except RefusedError as refusal:
                reasons.append(f"{path}: {refusal}")
                continue
            for reason in reasons:
                warnings.warn(f"checkpoint not used: {reason}; resuming from {path.name}", RuntimeWarning, stacklevel=2)
            return snapshot
        if reasons:
            raise ValueError("no checkpoint can be resumed from: " + "; ".join(reasons))
        return None


class Keeper:
    """The checkpoints of one run. Of several processes on one run, the first writes and all read."""

    def __init__(self, checkpoint: Checkpoint, settings: Settings) -> None:
        self.folder, self.settings = Folder(checkpoint), settings
        self.fingerprint = fingerprint(settings)
        self.writes = not settings.several_processes or jax.process_index() == 0
        self.last_step: int | None = None

    def open(self, resume: bool) -> Snapshot | None:
        """The checkpoint to go on from, if there is one; refuses to mix a new run with the files of another."""
        if not resume and self.folder.steps():
            raise ValueError(
                f"{self.folder.path} holds checkpoints already; continue with resume=True, or choose another directory"
            )
        if self.writes:
            self.folder.prepare()
        saved = self.folder.newest(self._check) if resume else None
        self.last_step = None if saved is None else saved.facts["position"]["step"]
        step = self.last_step or 0
        if self.settings.several_processes and largest(step, -step) != (step, -step):
            raise ValueError(f"the processes see different checkpoints: {self.folder.path} must be shared by all")
        return saved

    def _check(self, snapshot: Snapshot) -> None:
        check_snapshot(snapshot, self.fingerprint, self.settings.plan.steps)

    def save(self, step: int, snapshot: Callable[[], Snapshot]) -> None:
        """Write, unless it has been written; no process goes on before."""
        if self.writes and step != self.last_step:
            self.folder.save(step, snapshot())
        if self.settings.several_processes:
            largest(step)
        self.last_step = step


def fingerprint(settings: Settings) -> dict[str, str]:
    """What must be the same for a run to be the continuation of another. `steps` is not among it."""
    plan, source = settings.plan, settings.problem.source
    objective = settings.problem.objective
    template = jax.tree.map(lambda a: f"{a.shape[1:]} {a.dtype}", source.template)
    x0 = b"".join(np.asarray(leaf, dtype=np.float64).tobytes() for leaf in jax.tree.leaves(settings.x0))
    sizes = (1, 2, 10, 100, 1000, 10_000)
    return {
        "seed": str(settings.seeds or settings.seed),
        "dtype": settings.dtype,
        "loss": describe(objective.loss),
        "manifold": repr(objective.manifold),
        "method": describe(settings.methods or settings.method),
        "x0": hashlib.sha256(x0).hexdigest()[:16],
        "data": f"{source.size} samples of {template}",
        "samples": source.digest(),
        "driver": settings.driver,
        "batch sizes": str([plan.batch_size(t) for t in sizes]),
        "large batch sizes": str([plan.large_batch_size(t) for t in sizes]),
        "restart_every": str(plan.restart_every),
    }


def compare(theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Refuse a checkpoint of another run, naming what differs."""
    for name, value in ours.items():
        if theirs.get(name) != value:
            raise RefusedError(f"it belongs to another run, whose {name} is {theirs.get(name)} and not {value}")


def describe(value: Any) -> str:
    """A method or function in words that are the same in every process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f"{field.name}={describe(getattr(value, field.name))}" for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    if callable(value):
        inner = getattr(value, "func", value)
        return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(describe, value))}]"
    if hasattr(value, "dtype"):
        return repr(np.asarray(value).tolist())
    return repr(value)
