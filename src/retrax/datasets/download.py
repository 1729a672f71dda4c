"""Downloading the official files and checking what is there; the only part of the package that uses the network."""

from __future__ import annotations

import errno
import logging
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from retrax._extras import optional
from retrax._files import write_atomically

from .checksums import check_published, check_recorded, record_path, sha256
from .errors import DataError
from .formats import reading
from .loading import Progress, load
from .registry import REGISTRY, Archive, RegistryEntry, advice, data_directory, find_source, is_there, require_files

TIMEOUT = 30  # seconds without a byte from the server
DEADLINE = 3600.0  # seconds for one file, however steadily it drips
LARGEST_DOWNLOAD = 1 << 30  # bytes; no official file comes near it


def fetch(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | bool | None = False,
    base_url: str | None = None,
    registry: Mapping[str, RegistryEntry] = REGISTRY,
) -> list[Path]:
    """Download the official files of a data set that are not there yet, and check them all.

    A file with a published checksum must match it. One without is taken as it comes, its checksum is recorded beside
    it (`FILE.sha256`), and later reads are compared with that. A download that fails leaves nothing behind.

    Args:
        name: the data set, in any case.
        directory: where to put the files; else the folder RETRAX_DATA names, else the user's cache folder.
        progress: called as progress(bytes, total) for each file; True shows a progress bar.
        base_url: a mirror, from which each file is taken by its official name.
        registry: the data sets known.

    Returns:
        The paths of the files.
    """
    source = find_source(name, registry)
    folder = data_directory(directory)
    paths = []
    for archive in source.archives:
        path = folder / archive.file
        if is_there(path):
            _ = check_published(path, archive) or check_recorded(path)
        else:
            url = f"{base_url.rstrip('/')}/{archive.file}" if base_url else archive.url
            with _reporting(progress, archive.file) as report:
                _download(archive, url, path, report, advice(source, folder))
        paths.append(path)
    return paths


def verify(name: str, directory: str | os.PathLike[str] | None = None) -> str:
    """Check a data set against its checksums and read it completely; returns in words what was checked."""
    source = find_source(name)
    paths = require_files(source, data_directory(directory))
    archives = {archive.file: archive for archive in source.archives}
    checks = []
    for path in paths:
        if path.name in archives and check_published(path, archives[path.name]):
            checks.append("published checksum")
        elif check_recorded(path):
            checks.append("checksum recorded at download")
        else:
            checks.append("no checksum known")
    dataset = load(source.name, directory)
    how = ", ".join(dict.fromkeys(checks))
    first = next(iter(dataset.data.values())) if isinstance(dataset.data, dict) else dataset.data
    return "; ".join(filter(None, (f"{len(first)} {source.unit} read, {how}", dataset.note)))


def _download(archive: Archive, url: str, path: Path, report: Progress | None, help_text: str) -> None:
    pooch = optional("pooch")

    def downloader(url: str, target: str, _: object) -> None:
        _receive(url, Path(target), report)

    expected = None if archive.of_content else archive.sha256
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(dir=path.parent, prefix=".retrax-", ignore_cleanup_errors=True)
        with place as temporary, _quiet_pooch():
            partial = Path(pooch.retrieve(url, expected, fname=path.name, path=temporary, downloader=downloader))
            _check_arrived(partial, archive)
            digest = sha256(partial)
            write_atomically(record_path(path), lambda file: file.write(f"{digest}  {path.name}\n".encode()))
            partial.chmod(record_path(path).stat().st_mode)  # pooch's temporary file is private to the user
            os.replace(partial, path)
    except OSError as error:
        raise DataError(f"could not download {url} ({_reason(error)}): {help_text}") from error
    except ValueError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno is not None:  # the disk's fault, found in reading it again
            raise DataError(f"could not download {url} ({_reason(cause)}): {help_text}") from error
        raise DataError(
            f"{url} sent something else than {path.name}: {_complaint(archive)}; nothing was kept"
        ) from error


def _receive(url: str, path: Path, report: Progress | None) -> None:
    """Write what the server sends. (Pooch's own downloader leaves an interrupted connection open.)"""
    requests = optional("requests")
    # The identity encoding keeps a server from sending a .gz that arrives unzipped.
    headers = {"Accept-Encoding": "identity"}
    with requests.get(url, stream=True, timeout=TIMEOUT, headers=headers) as response, path.open("wb") as file:
        response.raise_for_status()
        announced = response.headers.get("Content-Length", "")
        total = int(announced) if announced.isdecimal() else 0
        end = time.monotonic() + DEADLINE
        for chunk in response.iter_content(1 << 16):
            if max(total, file.tell() + len(chunk)) > LARGEST_DOWNLOAD:
                raise OSError(errno.EFBIG, f"more than {LARGEST_DOWNLOAD} bytes, which no official file has")
            if time.monotonic() > end:
                raise OSError(errno.ETIMEDOUT, f"not finished after {DEADLINE:g} seconds")
            file.write(chunk)
            if report:
                report(file.tell(), total)


def _check_arrived(path: Path, archive: Archive) -> None:
    """What pooch's own check of the file's checksum does not cover: content checksums, and files that have none."""
    if archive.of_content:
        check_published(path, archive)
    elif archive.sha256 is None:
        # Without this an error page or a cut-off file would be recorded as genuine.
        if archive.file.endswith(".gz"):
            sha256(path, of_content=True)  # reads to the end, where gzip compares its own checksum
            return
        with reading(path), zipfile.ZipFile(path) as file:
            if file.testzip() is not None:
                raise DataError(f"{path} is damaged")


def _complaint(archive: Archive) -> str:
    return "not an intact archive" if archive.sha256 is None else "wrong checksum"


def _reason(error: OSError) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status:
        return f"HTTP status {status}"
    # An error of the network library quotes its whole inner chain; its name says enough.
    return error.strerror or type(error).__name__


@contextmanager
def _reporting(progress: Progress | bool | None, label: str) -> Iterator[Progress | None]:
    if progress is True:
        from .progress_display import reporting

        with reporting(label) as report:
            yield report
    else:
        yield progress or None


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    logger = optional("pooch").get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
