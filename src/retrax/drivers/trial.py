"""Loops in one kernel for losses that nobody has tried: another process compiles them first, and its result is loaded.

XLA's CPU compiler may end the process over a program that it is not prepared for in a kernel. So a process of its own
compiles it; if that process dies, hangs or refuses, the ordinary form runs instead. Nothing is compiled twice.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax

from retrax import _cache, _machine_code, _names
from retrax.drivers import kernel

LONGEST_WAIT = 20
"""Seconds that the other process may take; a step that compiles longer is compiled in its ordinary form."""

SCRIPT = pathlib.Path(__file__).with_name("trial_process.py")

_CRASHES = frozenset(
    getattr(signal, name) for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE") if hasattr(signal, name)
)
"""How XLA's compiler ends a process over a program. After any other end the next process tries the program again."""

_refused: set[str] = set()
"""The names of programs that did not come back from a trial in this process."""


def compiled(lower: Callable[[], Any], options: dict[str, Any]) -> Callable[..., Any] | None:
    """The program that `lower()` gives, as another process has compiled it; None where it could or should not."""
    if not is_possible():
        return None
    try:
        with _process() as process:  # It starts while we lower.
            lowered = lower()
            text = lowered.as_text()
            if kernel.objection(text, kernel.LONGEST_LOOP) is not None:
                return None
            return _tried(process, lowered, text, options)
    except OSError:  # There is no such interpreter, no more processes, or no memory for one.
        return None


def is_possible() -> bool:
    """Whether a process like this one can be started, as far as that was tested, and its machine code be loaded."""
    return (
        sys.platform == "linux"
        and not getattr(sys, "frozen", False)
        and pathlib.Path(sys.executable or "").name.startswith("python")  # An application would start itself.
        and _machine_code.is_possible()
    )


def _tried(process: Any, lowered: Any, text: str, options: dict[str, Any]) -> Callable[..., Any] | None:
    name = f"trial-{_names.of_text(text, options)}"
    if name in _refused:
        return None
    machine_code = _cache.read(name)
    if machine_code is None:
        machine_code = _answer(process, _request(lowered, text, options))
        if machine_code is not None:
            _cache.write(name, machine_code)
    program = _loaded(machine_code, lowered) if machine_code else None
    if program is None:
        _refused.add(name)
    return program


def _request(lowered: Any, text: str, options: dict[str, Any]) -> bytes:
    arguments = [(leaf.shape, leaf.dtype.name) for leaf in jax.tree.leaves(lowered.args_info)]
    shardy = bool(getattr(jax.config, "jax_use_shardy_partitioner", True))
    request = {"options": options, "shardy": shardy, "arguments": arguments}
    return f"{json.dumps(request)}\n{text}".encode()


def command() -> list[str]:
    """What starts the other process: an interpreter without anybody's settings, which imports what we would."""
    places = os.pathsep.join(place for place in sys.path if place)
    return [sys.executable, "-I", "-S", str(SCRIPT), places, str(LONGEST_WAIT)]


@contextlib.contextmanager
def _process() -> Iterator[Any]:
    """The other process, which is gone afterwards. Ctrl-C is for us, and what it says is for nobody."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):
                stream.close()


def _answer(process: Any, request: bytes) -> bytes | None:
    """The machine code; none at all if the program ended the compiler.

    None if other processes are to try again: this one may have been too slow, or short of something.
    """
    try:
        answer, _ = process.communicate(request, timeout=LONGEST_WAIT)
    except subprocess.TimeoutExpired:
        return None
    if process.returncode == 0:
        return answer
    return b"" if -process.returncode in _CRASHES else None


def _loaded(machine_code: bytes, lowered: Any) -> _machine_code.Loaded | None:
    dtypes = [leaf.dtype for leaf in jax.tree.leaves(lowered.args_info)]
    return _machine_code.loaded(machine_code, dtypes, jax.tree.structure(lowered.out_info))
