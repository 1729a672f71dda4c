"""Files that are written whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

TEMPORARY = ".retrax-*.part"
"""What files are called while they are being written; a killed process may leave some."""


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Create or replace a file through `write`; a failure or a crash leaves the old file or none, never half of one.

    The content goes to a new file beside it, whose name cannot be guessed (so nobody can plant a link there), and takes
    the old one's place once it is on the disk. (Not `tempfile`: its files stay private, and folders are often shared.)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(TEMPORARY.replace("*", secrets.token_hex(16)))
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _synchronise(path.parent)


def _synchronise(folder: Path) -> None:
    """Have the renaming survive a power failure, where folders can be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
