"""A background thread that prepares what is needed next while the device works."""

import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_LOOK = 0.05
"""Seconds between two looks at whether to stop."""
_PATIENCE = 0.5
"""Seconds to wait for a thread that is inside the user's iterator."""


class Prefetch(Generic[T]):
    """Iterates over `items` one ahead, on a thread; an exception there is raised here. Close it when done.

    `stop` is asked while waiting; if true, the iteration ends.
    """

    def __init__(self, items: Iterator[T], stop: Callable[[], bool] = lambda: False) -> None:
        self._ready: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._stop, self._closed, self._finished = stop, threading.Event(), False
        self._thread = threading.Thread(target=self._work, args=(items,), name="retrax-prefetch", daemon=True)
        self._thread.start()

    def _work(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if not self._put((item, None)):
                    return
                del item
            self._put((None, StopIteration()))
        except BaseException as error:  # handed to the thread that asked
            self._put((None, error))

    def _put(self, entry: tuple[Any, BaseException | None]) -> bool:
        while not self._closed.is_set():
            try:
                self._ready.put(entry, timeout=_LOOK)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> "Prefetch[T]":
        return self

    def __next__(self) -> T:
        while not self._finished:
            try:
                item, error = self._ready.get(timeout=_LOOK)
            except queue.Empty:
                if self._stop():
                    self.close()
                continue
            if error is None:
                return item
            self.close()
            if not isinstance(error, StopIteration):
                raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        if self._closed.is_set():
            return
        self._finished = True
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)
            if self._thread.is_alive():
                warnings.warn(
                    "the stream did not return in time; its thread is left behind", RuntimeWarning, stacklevel=2
                )
