"""One line on how a process ended, even where it cannot say so itself.

A process that loses its connection to the first one is ended by JAX, in C++, at once and with some lines of its own;
whether Python gets a word in is chance. So a small process stands by: it is told the line, or finds that it was told
nothing before the end, and prints it. JAX's lines are held back meanwhile, unless TF_CPP_MIN_LOG_LEVEL=0 asks for them.
"""

import contextlib
import os
import subprocess
import sys
from typing import Any

import jax

_STAND_BY = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM):  # sent to all processes of a job; the run itself ends in order
    signal.signal(number, signal.SIG_IGN)
line = sys.stdin.readline()
if line != "done\\n":
    print(line.rstrip() or sys.argv[1], file=sys.stderr)
"""
_NOTHING, _AS_SET = 4, "TF_CPP_MIN_LOG_LEVEL"
"""A level of importance that no line of C++ has, and where JAX itself reads which ones to show."""
_LEVELS = {"DEBUG": 0, "INFO": 0, "WARN": 1, "WARNING": 1, "ERROR": 2, "CRITICAL": 3, "FATAL": 3}


class LastWords:
    """From its making until `done`, the end of this process leaves one line: the one given to `say`, else `unsaid`."""

    def __init__(self, unsaid: str) -> None:
        self._pipe: Any = None
        command = [sys.executable, "-I", "-S", "-c", _STAND_BY, unsaid]
        with contextlib.suppress(OSError):  # no room for another process: this one speaks for itself
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
            self._pipe = self._process.stdin
            _show_from(_NOTHING if _level() > 0 else 0)

    def say(self, line: str) -> None:
        """Leave this line; for the end of the process, which is to follow."""
        if not self._told(line):
            print(line, file=sys.stderr, flush=True)

    def done(self) -> None:
        """Nothing needs to be said any more, except by this process itself."""
        if self._told("done"):
            self._process.wait()
            self._pipe.close()
            _show_from(_level())
        self._pipe = None

    def _told(self, line: str) -> bool:
        try:
            return self._pipe is not None and os.write(self._pipe.fileno(), f"{line}\n".encode()) > 0
        except OSError:  # it was killed
            return False


def _level() -> int:
    """The least important lines of C++ that are shown: as JAX's setting says, else as the environment does."""
    said = _LEVELS.get(getattr(jax.config, "jax_logging_level", None) or "")
    with contextlib.suppress(ValueError):
        return int(os.environ.get(_AS_SET, "1")) if said is None else said
    return 1


def _show_from(level: int) -> None:
    try:
        from jaxlib.utils import absl_set_min_log_level
    except ImportError:  # this version of jaxlib has it elsewhere
        return
    absl_set_min_log_level(level)
