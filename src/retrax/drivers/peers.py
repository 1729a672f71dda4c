"""Processes that take the same steps wait for each other in every message: when one dies, the others must end too.

JAX notices a lost process after 100 seconds, and one that only stands still not at all. Here each process writes a
count into JAX's key-value store twice a second and looks at the others'. One that stands still for ten seconds ends
the rest, each with one line: a thread that waits in a message cannot be woken by an exception. Where a message itself
fails, because the process at its other end is gone, that line comes at once; if that was the first process, JAX ends
this one in the same moment, and `LastWords` has the line all the same.
"""

import contextlib
import os
import threading
import time
from typing import Any

import jax

from retrax.drivers.last_words import LastWords

BEAT, PATIENCE = 0.5, 10.0
"""Seconds between two counts, and until a process whose count stands still is given up."""

_DONE = "done"
_runs = 0
"""Runs so far; the same in all processes, which start the same runs."""


class Peers:
    """Watches the other processes of a run, as a context manager; nothing where there is only one."""

    def __init__(self, several: bool) -> None:
        self._client: Any = _client() if several else None

    def __enter__(self) -> None:
        global _runs
        if self._client is None:
            return
        _runs += 1
        self._prefix, self._me = f"retrax/run-{_runs}/", jax.process_index()
        now = time.monotonic()
        self._heard = {i: now for i in range(jax.process_count()) if i != self._me}
        self._counts: dict[int, str] = {}
        self._stopped = threading.Event()
        self._last_words = LastWords(_line(f"process {self._me} was killed, or ended by JAX because process 0 is gone"))
        for work in (self._beat, self._look):
            threading.Thread(target=work, name="retrax-peers", daemon=True).start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._client is None:
            return
        if _is_failed_message(error):
            self._end(f"a message from another process failed ({_first_line(error)})")
        self._last_words.done()
        if isinstance(error, jax.errors.JaxRuntimeError):  # The watch goes on: Python's end would wait for the others.
            return
        self._stopped.set()
        if kind is None:
            with contextlib.suppress(Exception):  # the first process, which holds the store, may have ended before
                self._tell(_DONE)

    def _tell(self, count: str) -> None:
        self._client.key_value_set(f"{self._prefix}{self._me}", count, allow_overwrite=True)

    def _beat(self) -> None:
        """Count, and hear the others; where the first process, which holds the store, is gone, nobody is heard."""
        count = 0
        while not self._stopped.wait(BEAT):
            count += 1
            try:
                self._tell(str(count))
                found = self._client.key_value_dir_get(self._prefix)
            except Exception:  # whatever it is, the others are not heard
                continue
            for key, value in found:
                self._hear(int(key.rsplit("/", 1)[1]), value)

    def _hear(self, process: int, count: str) -> None:
        if process in self._heard and (count == _DONE or self._counts.get(process) != count):
            self._heard[process] = float("inf") if count == _DONE else time.monotonic()
            self._counts[process] = count

    def _look(self) -> None:
        while not self._stopped.wait(BEAT):
            for process, heard in self._heard.items():
                if process in self._counts and time.monotonic() - heard > PATIENCE:
                    self._end(f"process {process} has not been heard of for {PATIENCE:g} seconds")

    def _end(self, reason: str) -> None:
        self._last_words.say(_line(f"{reason}, so process {self._me} ends"))
        os._exit(1)


def _line(what: str) -> str:
    return f"retrax: {what}; start all processes again with resume=True to go on from the last checkpoint"


def _is_failed_message(error: Any) -> bool:
    """Whether an exception comes from a message between processes; JAX gives those of gloo as ValueError."""
    return "Gloo" in str(error)


def _first_line(error: Any) -> str:
    return str(error).splitlines()[0].rsplit("] ", 1)[-1]


def _client() -> Any:
    """JAX's key-value store; None where this version of JAX keeps it elsewhere."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    return getattr(global_state, "client", None)
