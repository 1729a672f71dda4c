"""Loading the real data sets from files that are already there; downloading them is `download`'s part."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import formats
from .checksums import check_recorded
from .errors import DataError
from .formats import read_gzip, read_idx, read_npz, read_pgm, read_png, reading, tar_members, zip_members
from .images import area_matrix, grey
from .memory import aligned_empty
from .registry import RegistryEntry, data_directory, find_source, require_files
from .tables import TABLES, read_table

Progress = Callable[[int, int], None]
Arrays = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory: raw `data` (images of bytes, features, or named arrays), one label per sample.

    Ratings and hierarchies have no labels (None). `note` is empty for a complete data set and otherwise says what part
    of it this is; `source` is the file read.
    """

    name: str
    data: Any
    labels: Any
    note: str
    source: str


def load(name: str, directory: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> Dataset:
    """Load a real data set: mnist, covtype, yaleb, cifar100, coil100 or kylberg; wordnet, movielens, emg or mfeat.

    The official files are preferred, `NAME.npz` (arrays `images` or `features`, and `labels`) serves as well. A file
    that `fetch` downloaded is first compared with the checksum recorded then. The last four have several arrays, by
    name: the `names` of WordNet's nouns and its `hypernym_edges` (child, parent); `user`, `item`, `rating` and
    `timestamp` of MovieLens, numbered from 0 on; `channels`, `time` and `session` of the electromyograms; and the
    views `fac`, `fou`, `kar`, `mor`, `pix` and `zer` of the digits.

    Args:
        name: the data set, in any case.
        directory: where the files are; else the folder RETRAX_DATA names, else the user's cache folder.
        progress: called as progress(done, total) where reading takes long.
    """
    source = find_source(name)
    paths = require_files(source, data_directory(directory))
    for path in paths:
        check_recorded(path)
    if source.name in TABLES:
        return _load_table(source, paths)
    compact = paths[0].suffix == ".npz"
    with reading(paths[0]):
        data, labels = _read_compact(source, paths[0]) if compact else _READERS[source.name](paths, progress)
    if len(data) == 0 or len(data) != len(labels):
        raise DataError(f"{paths[0]} holds {len(data)} {source.unit} and {len(labels)} labels")
    note = part_note(source, len(data), len(np.unique(labels)), paths[0])
    return Dataset(source.name, data, labels, note, paths[0].name)


def _load_table(source: RegistryEntry, paths: list[Path]) -> Dataset:
    data: dict[str, Any] = read_table(source.name, paths)
    count = len(next(iter(data.values())))
    labels = data.pop("labels", data.pop("label", None))
    classes = 0 if labels is None else len(np.unique(labels))
    return Dataset(source.name, data, labels, part_note(source, count, classes, paths[0]), paths[0].name)


def part_note(source: RegistryEntry, count: int, classes: int, path: Path) -> str:
    """What to say of a data set that is not complete; empty for one that is."""
    if count == source.count:
        return ""
    if count > source.count:
        return f"another edition: {count} {source.unit} instead of {source.count} ({path.name})"
    of_classes = f", {classes} of {source.classes} classes" if source.classes else ""
    return f"part: {count} of {source.count} {source.unit}{of_classes} ({path.name})"


def pca_matrix(name: str, directory: str | os.PathLike[str] | None = None) -> tuple[NDArray[np.float64], str]:
    """The samples of MNIST or COVTYPE as the rows of a centred float64 matrix, and a note that says how it was made.

    MNIST is divided by 255; each column of COVTYPE is scaled to [0, 1] (the paper does not say which of LibSVM's
    files it used). Both are then centred.
    """
    source = find_source(name)
    if source.name not in ("mnist", "covtype"):
        raise DataError(f"no PCA matrix is defined for {source.name}: choose mnist or covtype")
    dataset = load(source.name, directory)
    rows = dataset.data.reshape(len(dataset.data), -1)
    matrix = aligned_empty(rows.shape)
    matrix[...] = rows
    if source.name == "mnist":
        matrix /= 255
        how = "pixels divided by 255, then centred"
    else:
        smallest = matrix.min(axis=0)
        span = matrix.max(axis=0) - smallest
        matrix -= smallest
        matrix /= np.where(span > 0, span, 1)
        how = "each column scaled to [0, 1], then centred"
    matrix -= matrix.mean(axis=0)
    return matrix, "; ".join(filter(None, (how, dataset.note)))


_COMPACT: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "mnist": ("images", (28, 28)),
    "covtype": ("features", (54,)),
    "yaleb": ("images", (None, None)),
    "cifar100": ("images", (32, 32)),
    "coil100": ("images", (32, 32, 3)),
    "kylberg": ("images", (None, None)),
}


def _read_compact(source: RegistryEntry, path: Path) -> Arrays:
    member, shape = _COMPACT[source.name]
    data, labels = read_npz(path, (member, "labels"))
    fits = data.ndim == len(shape) + 1 and all(
        expected in (None, actual) for expected, actual in zip(shape, data.shape[1:], strict=True)
    )
    kind = np.uint8 if member == "images" else np.integer
    if not fits or not np.issubdtype(data.dtype, kind) or labels.ndim != 1:
        raise DataError(
            f"{path}: {member!r} of shape {data.shape} and type {data.dtype}, labels of shape {labels.shape}, "
            f"are not what {source.name} consists of"
        )
    return data, labels


def _read_mnist(paths: list[Path], progress: Progress | None) -> Arrays:
    images, labels = (read_idx(path) for path in paths)
    if images.shape[1:] != (28, 28) or labels.ndim != 1:
        raise DataError(f"{paths[0]} holds an array of shape {images.shape}, not images of 28×28")
    return images, labels


def _read_covtype(paths: list[Path], progress: Progress | None) -> Arrays:
    content = read_gzip(paths[0])
    with reading(paths[0]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty file, which the check below reports
        table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.int16, ndmin=2)
    if table.shape[1] != 55:
        raise DataError(f"{paths[0]} has {table.shape[1]} columns, not 54 features and a label")
    labels = table[:, 54]
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 7:
        raise DataError(f"{paths[0]} has labels from {labels.min()} to {labels.max()}, not from 1 to 7")
    return np.ascontiguousarray(table[:, :54]), labels.astype(np.uint8)


def _read_yaleb(paths: list[Path], progress: Progress | None) -> Arrays:
    # The pattern leaves out the ambient images, the .bad ones and macOS resource forks.
    wanted = re.compile(r"yaleB(\d\d)_P\d\dA[+-]\d+E[+-]\d+\.pgm")
    members = [
        (int(match[1]), read_pgm(content, f"{paths[0]}: {match.string}"))
        for match, content in zip_members(paths, wanted, progress)
    ]
    return _stack(paths[0], members)


def _read_cifar100(paths: list[Path], progress: Progress | None) -> Arrays:
    names = ("train.bin", "test.bin")
    contents = tar_members(paths[0], names)
    images, labels = [], []
    for name in names:
        content = contents.pop(name)
        if len(content) % 3074:
            raise DataError(f"{paths[0]}: {name} has {len(content)} bytes, not a multiple of 3074")
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 3074)
        labels.append(records[:, 1])
        # In pieces, because the float planes of all records at once would need a gigabyte.
        for piece in np.array_split(records[:, 2:], max(1, len(records) // 4096)):
            images.append(grey(piece.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)))
    return np.concatenate(images), np.concatenate(labels)


def _read_coil100(paths: list[Path], progress: Progress | None) -> Arrays:
    reduce: dict[int, NDArray[np.float64]] = {}
    members = []
    for match, content in zip_members(paths, re.compile(r"obj(\d+)__(\d+)\.png"), progress):
        with reading(paths[0]):
            image = read_png(content, "RGB")
        rows, columns = (reduce.setdefault(size, area_matrix(size, 32)) for size in image.shape[:2])
        small = np.einsum("ih,hwc,jw->ijc", rows, image, columns, optimize=True)
        members.append((int(match[1]), int(match[2]), np.rint(small).astype(np.uint8)))
    members.sort(key=lambda member: member[:2])
    return _stack(paths[0], [(label, image) for label, _, image in members])


def _read_kylberg(paths: list[Path], progress: Progress | None) -> Arrays:
    names, images, total = [], [], 0
    for match, content in zip_members(paths, re.compile(r"([a-z]+\d)-[a-z]-p\d+\.png"), progress):
        with reading(paths[0]):
            images.append(read_png(content, "L"))
        names.append(match[1])
        total += images[-1].nbytes
        if total > formats.LARGEST_TOTAL:
            raise DataError(f"{paths[0]} is refused: its images have more than {formats.LARGEST_TOTAL} bytes together")
    codes = {texture: code for code, texture in enumerate(sorted(set(names)))}
    return _stack(paths[0], [(codes[name], image) for name, image in zip(names, images, strict=True)])


def _stack(path: Path, members: list[tuple[int, NDArray[np.uint8]]]) -> Arrays:
    if not members:
        raise DataError(f"{path} contains none of the expected images")
    shapes = {image.shape for _, image in members}
    if len(shapes) > 1:
        raise DataError(f"{path} mixes images of different sizes: {', '.join(map(str, sorted(shapes)))}")
    return np.stack([image for _, image in members]), np.array([label for label, _ in members], dtype=np.uint8)


_READERS: dict[str, Callable[[list[Path], Progress | None], Arrays]] = {
    "mnist": _read_mnist,
    "covtype": _read_covtype,
    "yaleb": _read_yaleb,
    "cifar100": _read_cifar100,
    "coil100": _read_coil100,
    "kylberg": _read_kylberg,
}
