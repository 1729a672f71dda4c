"""Compiled programs kept on disk for the next process: `retrax.cache(directory)`. Off until asked for.

An entry is a folder named after its program (`_names`), holding machine code (`_machine_code`) or the file that JAX's
own persistent cache writes, and that file's digest. It appears by renaming, complete or not at all, so that any number
of processes can share a directory without waiting for each other; what does not fit its digest is compiled again. JAX's
cache is on only while one of our programs is compiled or loaded: others' programs neither enter the directory nor are
looked for in it.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from retrax import _names

_DIGESTS = "sha256"
_UNFINISHED = ".new-"
_CONTENT = "program-cache"
_LOADERS = (b"pjrt_executable.cc", b"cpu_aot_loader.cc")
_lock = threading.RLock()


def cache(directory: str | os.PathLike[str] | None, *, megabytes: float = 1000) -> None:
    """Keep compiled programs in `directory`, for runs of this and later processes; None ends it.

    The first run of a process then loads in tenths of a second what compiles in seconds. The directory may be shared by
    processes and machines, and deleted at any time. Above `megabytes`, what was used longest ago is removed. Give only
    a directory that nobody else can write to: what is loaded from it is executed.
    """
    global _place
    if directory is None:
        _place = None
        return
    if isinstance(megabytes, bool) or not isinstance(megabytes, int | float) or not megabytes > 0:
        raise ValueError(
            f"megabytes must be a positive number, the most that the directory may hold; got {megabytes!r}"
        )
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"directory must be a path or None, not {type(directory).__name__}")
    path = pathlib.Path(directory).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=path):
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot keep compiled programs ({error}); give a directory to write to") from error
    _place = _Place(path, int(megabytes * 1e6))


def is_on() -> bool:
    """Whether a directory was given, and is used: processes that compile together agree on what they compile."""
    return _place is not None and jax.process_count() == 1


def compiled(lowered: Any, options: dict[str, Any] | None) -> Any:
    """`lowered.compile()`, from the directory where it is there; `options` are the compiler's."""
    return _place.compiled(lowered, options) if _place is not None and is_on() else lowered.compile()


def read(name: str) -> bytes | None:
    """What `write` was given under this name, by this process or an earlier one, if the directory has it whole."""
    return None if _place is None else _place.read(name)


def write(name: str, content: bytes) -> None:
    """Keep machine code, or nothing at all to say that there is none, where a directory was given."""
    if _place is not None:
        _place.write(name, content)


@dataclasses.dataclass(frozen=True)
class _Place:
    directory: pathlib.Path
    most_bytes: int

    def compiled(self, lowered: Any, options: dict[str, Any] | None) -> Any:
        entry = self.directory / _names.of_text(lowered.as_text(), options)
        if _is_whole(entry):
            _touch(entry)
            with _jax_cache_at(entry), quietly():
                return lowered.compile()
        programs = []

        def fill(fresh: pathlib.Path) -> None:
            with _jax_cache_at(fresh):
                programs.append(lowered.compile())

        self._keep(entry, fill)
        return programs[0] if programs else lowered.compile()

    def read(self, name: str) -> bytes | None:
        entry = self.directory / name
        if not _is_whole(entry):
            return None
        _touch(entry)
        with contextlib.suppress(OSError):  # Another process may remove it at the same time.
            return (entry / _CONTENT).read_bytes()
        return None

    def write(self, name: str, content: bytes) -> None:
        def fill(fresh: pathlib.Path) -> None:
            fresh.mkdir()
            (fresh / _CONTENT).write_bytes(content)

        self._keep(self.directory / name, fill)

    def _keep(self, entry: pathlib.Path, fill: Callable[[pathlib.Path], None]) -> None:
        """Make this entry of what `fill` puts into a folder. A full or vanished disk costs time, never the run."""
        try:
            with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=self.directory) as folder:
                fresh = pathlib.Path(folder) / "entry"
                fill(fresh)
                _replace(entry, fresh, pathlib.Path(folder) / "old")
            self._remove_oldest()
        except OSError as error:
            warnings.warn(f"a compiled program could not be kept in {self.directory}: {error}", stacklevel=2)

    def _remove_oldest(self) -> None:
        sizes: dict[pathlib.Path, int] = {}
        ages: dict[pathlib.Path, float] = {}
        for entry in self.directory.iterdir():
            with contextlib.suppress(OSError):  # Another process may remove it at the same time.
                if entry.is_dir():
                    sizes[entry] = sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
                    ages[entry] = entry.stat().st_mtime
        total = sum(sizes.values())
        for entry in sorted(ages, key=lambda entry: ages[entry])[:-1]:
            if total <= self.most_bytes:
                break
            shutil.rmtree(entry, ignore_errors=True)
            total -= sizes[entry]


_place: _Place | None = None


def _touch(entry: pathlib.Path) -> None:
    """Note that an entry was used just now."""
    with contextlib.suppress(OSError):
        os.utime(entry)


def _digest(file: pathlib.Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is_whole(entry: pathlib.Path) -> bool:
    """Whether all files that an entry had when it was written are as they were."""
    try:
        lines = (entry / _DIGESTS).read_text(encoding="utf-8").splitlines()
        return bool(lines) and all(_digest(entry / line[65:]) == line[:64] for line in lines)
    except (OSError, UnicodeDecodeError):
        return False


def _replace(entry: pathlib.Path, fresh: pathlib.Path, aside: pathlib.Path) -> None:
    """Give what JAX wrote its digests and its name; where another process was faster, its entry stays."""
    files = sorted(fresh.glob("*-cache")) if fresh.is_dir() else []
    if not files:
        return  # JAX does not keep programs with callbacks into Python.
    lines = [f"{_digest(file)} {file.name}" for file in files]
    (fresh / _DIGESTS).write_text("\n".join(lines), encoding="utf-8")
    if entry.exists() and not _is_whole(entry):
        entry.rename(aside)
    with contextlib.suppress(OSError):
        fresh.rename(entry)


@contextlib.contextmanager
def _jax_cache_at(folder: pathlib.Path) -> Iterator[None]:
    """JAX's persistent cache at this folder, and afterwards as it was."""
    chosen = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(folder),
        "jax_compilation_cache_max_size": -1,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
        "jax_persistent_cache_enable_xla_caches": "none",  # They would make the folder a part of a program's name.
    }
    with _lock:
        before = {name: getattr(jax.config, name) for name in chosen}
        _configure(chosen)
        try:
            yield
        finally:
            _configure(before)


def _configure(chosen: dict[str, Any]) -> None:
    for name, value in chosen.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # It looks at its settings once.


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without what XLA writes when it loads a program; one thread at a time, or stderr would be put back wrongly."""
    with _lock, _without_loader_lines():
        yield


@contextlib.contextmanager
def _without_loader_lines() -> Iterator[None]:
    """Drop what XLA writes at each program that it loads; whatever else goes to stderr meanwhile comes after.

    One line says that it does not check versions, which an entry's name does. Another reports instructions that the
    processor lacks: with AVX-512 the compiler notes preferences, against gathers and scatters, among the instructions.
    Both come from C++, past `sys.stderr`.
    """
    sys.stderr.flush()
    try:
        terminal = os.dup(2)
    except OSError:  # There is no stderr.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            held.seek(0)
            for line in held:
                if not any(source in line for source in _LOADERS):
                    os.write(2, line)
