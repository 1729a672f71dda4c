"""Readers of the file formats: idx, PGM, PNG, npz, and members of zip and tar archives.

Archives are read in memory and never unpacked to disk; pickles are never opened.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrax._extras import optional

from .errors import DataError
from .memory import read_array

# No member of these data sets comes near this; a larger one is a mistake or a decompression bomb.
LARGEST_MEMBER = 1 << 30
# The largest, Kylberg's textures, has 1.5 GB of pixels.
LARGEST_TOTAL = 2 << 30
# Pixels of one image; those of these sets have at most 576×576.
LARGEST_IMAGE = 1 << 22
# What a tar says of a member beyond its fixed header (a long name, attributes): read at once, before anything else.
LARGEST_TAR_HEADER = 1 << 16


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes the standard readers raise into one DataError."""
    try:
        yield
    except DataError:
        raise
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        OSError,
        RuntimeError,
        SyntaxError,  # Pillow's word for a broken PNG
        ValueError,
        csv.Error,
        tarfile.TarError,
        tokenize.TokenError,  # NumPy's word for a broken npy header
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
            raise DataError(f"{path} cannot be opened ({reason})") from error
        raise DataError(f"{path} is damaged or incomplete ({reason}): remove it and fetch it again") from error


def read_gzip(path: Path) -> bytes:
    """What a gzipped file holds, up to a bound."""
    with reading(path), gzip.open(path, "rb") as file:
        content = file.read(LARGEST_MEMBER + 1)
        _check_size(path, path.stem, len(content))
    return content


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the gzipped idx format of MNIST."""
    with reading(path), gzip.open(path, "rb") as file:
        header = file.read(4)
        if len(header) < 4 or header[:3] != b"\x00\x00\x08" or not 1 <= header[3] <= 4:
            raise DataError(f"{path} is not an idx file of bytes")
        shape = tuple(int(size) for size in np.frombuffer(file.read(4 * header[3]), dtype=">u4"))
        size = int(np.prod(shape, dtype=object))
        if len(shape) != header[3] or size > LARGEST_MEMBER:
            raise DataError(f"{path} has an impossible idx header: shape {shape}")
        # One byte more than announced: reading past the end is also what makes gzip compare its checksum.
        content = file.read(size + 1)
    if len(content) != size:
        raise DataError(f"{path} does not hold the {size} bytes its idx header announces: fetch it again")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def read_pgm(content: bytes, label: str = "image") -> NDArray[np.uint8]:
    """A binary (P5) portable graymap of 8 bits."""
    header = re.match(rb"P5" + 3 * rb"(?:\s|#[^\n]*\n)+(\d{1,6})" + rb"\s", content)
    if header is None:
        raise DataError(f"{label} is not a binary PGM (P5) image")
    width, height, largest = (int(number) for number in header.groups())
    pixels = content[header.end() :]
    if not 0 < largest < 256 or width * height == 0 or len(pixels) < width * height:
        raise DataError(f"{label} is a damaged PGM: {width}×{height}, maximum {largest}, {len(pixels)} bytes")
    return np.frombuffer(pixels, dtype=np.uint8, count=width * height).reshape(height, width)


def read_png(content: bytes, mode: str) -> NDArray[np.uint8]:
    """A PNG image as grey (`mode` "L") or colour ("RGB")."""
    Image = optional("PIL.Image")

    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            if image.width * image.height > LARGEST_IMAGE:
                raise DataError(f"an image claims {image.width}×{image.height} pixels, more than any of these sets has")
            return np.asarray(image.convert(mode))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from error


def read_npz(path: Path, members: tuple[str, ...]) -> list[NDArray[Any]]:
    """Named arrays of an npz file, pickles refused."""
    with reading(path), zipfile.ZipFile(path) as archive:
        _check_names(path, archive.namelist())
        missing = [name for name in members if f"{name}.npy" not in archive.namelist()]
        if missing:
            raise DataError(f"{path} has no array {missing[0]!r}: it needs {' and '.join(members)}")
        _check_total(path, [archive.getinfo(f"{name}.npy").file_size for name in members])
        return [_read_npy(path, archive, name) for name in members]


def _read_npy(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    size = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as file:
        array = read_array(file, size, f"the array {name!r}")
        file.read(1)  # Past the end: only there is the checksum compared.
    return array


def zip_members(
    paths: list[Path], wanted: re.Pattern[str], progress: Callable[[int, int], None] | None = None
) -> Iterator[tuple[re.Match[str], bytes]]:
    """The members of zip files whose base name matches `wanted`, in order of that name, with their content."""
    chosen = []
    for path in paths:
        with reading(path), zipfile.ZipFile(path) as archive:
            _check_names(path, archive.namelist())
            for info in archive.infolist():
                match = wanted.fullmatch(PurePosixPath(info.filename).name)
                if match and not info.is_dir():
                    _check_size(path, info.filename, info.file_size)
                    chosen.append((match, path, info))
    if chosen:
        _check_total(chosen[0][1], [info.file_size for _, _, info in chosen])
    chosen.sort(key=lambda member: member[0].string)
    current: zipfile.ZipFile | None = None
    try:
        for done, (match, path, info) in enumerate(chosen, 1):
            if current is None or current.filename != str(path):
                if current is not None:
                    current.close()
                current = zipfile.ZipFile(path)
            with reading(path):
                content = current.read(info)
            yield match, content
            if progress:
                progress(done, len(chosen))
    finally:
        if current is not None:
            current.close()


_TAR_HEADERS = frozenset(
    (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
)


class _Member(tarfile.TarInfo):
    """A member of a tar whose extra headers are of a sane size; tarfile itself reads them whole, however long."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _TAR_HEADERS and self.size > LARGEST_TAR_HEADER:
            raise DataError(f"{archive.name!s} is refused: one of its headers claims {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


def tar_members(path: Path, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The content of the members of a gzipped tar whose base names are `wanted`; all must be there."""
    found = {}
    with reading(path), gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:", tarinfo=_Member) as archive:
        for member in archive:
            _check_names(path, [member.name])
            if not (member.isfile() or member.isdir()):
                raise DataError(f"{path} is refused: its member {member.name!r} is a link or a device")
            name = PurePosixPath(member.name).name
            if member.isfile() and name in wanted:
                _check_size(path, member.name, member.size)
                file = archive.extractfile(member)
                assert file is not None
                found[name] = file.read()
        # A tar ends before its gzip layer does, and only at the very end is the checksum compared.
        while stream.read(1 << 20):
            pass
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DataError(f"{path} does not contain {missing[0]}")
    return found


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if parts[0] == "" or ".." in parts or ":" in parts[0]:
            raise DataError(f"{path} is refused: its member {name!r} points outside the archive")


def _check_size(path: Path, name: str, size: int) -> None:
    if size > LARGEST_MEMBER:
        raise DataError(f"{path} is refused: its member {name!r} claims {size} bytes")


def _check_total(path: Path, sizes: list[int]) -> None:
    if sum(sizes) > LARGEST_TOTAL:
        raise DataError(f"{path} is refused: its members claim {sum(sizes)} bytes together")
