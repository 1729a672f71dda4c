"""Readers of data sets that are tables rather than images: hierarchies, ratings, recordings, several views."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError
from .formats import read_npz, reading, tar_members, zip_members

Table = dict[str, NDArray[Any]]

_VIEWS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}
_MEMBERS = {
    "wordnet": ("names", "hypernym_edges"),
    "movielens": ("user", "item", "rating", "timestamp"),
    "emg": ("channels", "time", "label", "label_names", "session", "session_names"),
    "mfeat": (*_VIEWS, "labels"),
}
"""The arrays of each data set; one array for each sample, except for edges and names."""


def read_table(name: str, paths: list[Path]) -> Table:
    """The arrays of a data set from its official files or from its compact form, checked."""
    if paths[0].suffix == ".npz":
        table = dict(zip(_MEMBERS[name], read_npz(paths[0], _MEMBERS[name]), strict=True))
    else:
        table = _READERS[name](paths)
    _CHECKS[name](paths[0], table)
    return table


def transitive_closure(edges: NDArray[Any]) -> NDArray[np.int32]:
    """All pairs (node, ancestor) of a hierarchy, direct or not, from its edges (child, parent), in order.

    A node may have several parents; a circle is refused.
    """
    parents: dict[int, list[int]] = {}
    for child, parent in np.asarray(edges).tolist():
        parents.setdefault(child, []).append(parent)
    ancestors: dict[int, set[int]] = {}
    for start in parents:
        path = [start]
        on_path = {start}
        while path:
            node = path[-1]
            missing = [p for p in parents.get(node, ()) if p not in ancestors]
            if missing:
                if missing[0] in on_path:
                    raise ValueError(f"the hierarchy has a circle through node {missing[0]}")
                path.append(missing[0])
                on_path.add(missing[0])
            else:
                above = parents.get(node, [])
                ancestors[node] = set(above).union(*(ancestors[p] for p in above))
                on_path.discard(path.pop())
    pairs = [(node, ancestor) for node in sorted(ancestors) for ancestor in sorted(ancestors[node])]
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def descendants(closure: NDArray[Any], root: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The pairs of a closure within the part of a hierarchy that lies under `root`, numbered anew, and its nodes."""
    nodes = np.append(closure[closure[:, 1] == root, 0], root)
    nodes = np.unique(nodes).astype(np.int64)
    number = np.full(max(int(closure.max()), root) + 1, -1, dtype=np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    pairs = number[closure]
    return pairs[(pairs >= 0).all(axis=1)], nodes


def _read_wordnet(paths: list[Path]) -> Table:
    if paths[0].suffix == ".zip":
        found = [content for _, content in zip_members(paths, re.compile(r"data\.noun"))]
        content = found[0] if found else b""
    else:
        content = tar_members(paths[0], ("data.noun",))["data.noun"]
    with reading(paths[0]):
        synsets = [_synset(line) for line in content.splitlines() if line and not line.startswith(b" ")]
        number = {offset: i for i, (offset, _, _) in enumerate(synsets)}
        edges = [(number[offset], number[parent]) for offset, _, parents in synsets for parent in parents]
    names = [word + b"#" + offset for offset, word, _ in synsets]
    return {
        "names": np.array(names, dtype=np.bytes_),
        "hypernym_edges": np.array(edges, dtype=np.int32).reshape(-1, 2),
    }


def _synset(line: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """(offset, first word, offsets of the hypernyms) from a line of data.noun; wndb(5WN) describes the format."""
    fields = line.split(b" | ")[0].split()
    pointers = 4 + 2 * int(fields[3], 16)
    count = int(fields[pointers])
    hypernyms = [
        fields[at + 1] for at in range(pointers + 1, pointers + 1 + 4 * count, 4) if fields[at] in (b"@", b"@i")
    ]
    return fields[0], fields[4], hypernyms


def _read_movielens(paths: list[Path]) -> Table:
    found = [content for _, content in zip_members(paths, re.compile(r"ratings\.csv"))]
    if not found:
        raise DataError(f"{paths[0]} does not contain ratings.csv")
    with reading(paths[0]):
        rows = _csv_rows(found[0], ["userId", "movieId", "rating", "timestamp"])
        user, item, rating, timestamp = zip(*rows, strict=True)
    return {
        "user": np.unique(np.array(user, dtype=np.int64), return_inverse=True)[1].astype(np.int32),
        "item": np.unique(np.array(item, dtype=np.int64), return_inverse=True)[1].astype(np.int32),
        "rating": np.array(rating, dtype=np.float32),
        "timestamp": np.array(timestamp, dtype=np.int64),
    }


def _read_emg(paths: list[Path]) -> Table:
    channels = [f"c{i}" for i in range(8)]
    with reading(paths[0]):
        columns = list(zip(*_csv_rows(paths[0].read_bytes(), ["time", *channels, "label", "exp"]), strict=True))
        label_names, label = np.unique(np.array(columns[9], dtype=np.bytes_), return_inverse=True)
        session_names, session = np.unique(np.array(columns[10], dtype=np.bytes_), return_inverse=True)
        return {
            "channels": np.stack([np.array(column, dtype=np.uint8) for column in columns[1:9]], axis=1),
            "time": np.array(columns[0], dtype=np.int32),
            "label": label.astype(np.uint8),
            "label_names": label_names,
            "session": session.astype(np.uint8),
            "session_names": session_names,
        }


def _csv_rows(content: bytes, header: list[str]) -> Iterator[list[str]]:
    rows = csv.reader(io.StringIO(content.decode("ascii")))
    found = next(rows, [])
    if found != header:
        raise ValueError(f"its first line is {','.join(found)[:60]!r} instead of {','.join(header)!r}")
    return rows


def _read_mfeat(paths: list[Path]) -> Table:
    views: Table = {}
    for match, content in zip_members(paths, re.compile("mfeat-(" + "|".join(_VIEWS) + ")")):
        with reading(paths[0]):
            views[match[1]] = np.loadtxt(io.BytesIO(content), dtype=np.float32, ndmin=2)
    missing = [view for view in _VIEWS if view not in views]
    if missing:
        raise DataError(f"{paths[0]} does not contain mfeat-{missing[0]}")
    # The rows are sorted by digit, ten blocks of the same length.
    count = len(views["fac"])
    return {**views, "labels": np.repeat(np.arange(10, dtype=np.uint8), -(-count // 10))[:count]}


def _check_wordnet(path: Path, table: Table) -> None:
    names, edges = table["names"], table["hypernym_edges"]
    fits = names.ndim == 1 and names.dtype.kind == "S" and edges.ndim == 2 and edges.shape[-1] == 2
    if not (fits and len(edges) and edges.dtype.kind in "iu" and 0 <= edges.min() <= edges.max() < len(names)):
        raise DataError(f"{path}: names {names.shape} and hypernym_edges {edges.shape} are not a hierarchy of names")


def _check_movielens(path: Path, table: Table) -> None:
    _check_lengths(path, table, tuple(table))
    user, item, rating = table["user"], table["item"], table["rating"]
    if user.dtype.kind not in "iu" or item.dtype.kind not in "iu" or user.min() < 0 or item.min() < 0:
        raise DataError(f"{path}: users and items must be numbers from 0 on")
    if rating.dtype.kind != "f" or not 0.5 <= rating.min() <= rating.max() <= 5:
        raise DataError(f"{path}: ratings must lie between 0.5 and 5")


def _check_emg(path: Path, table: Table) -> None:
    _check_lengths(path, table, ("channels", "time", "label", "session"))
    if table["channels"].ndim != 2 or table["channels"].shape[1] != 8 or table["channels"].dtype != np.uint8:
        raise DataError(f"{path}: channels of shape {table['channels'].shape} are not bytes of eight channels")
    if table["label"].max() >= len(table["label_names"]) or table["session"].max() >= len(table["session_names"]):
        raise DataError(f"{path}: a label or session has no name")


def _check_mfeat(path: Path, table: Table) -> None:
    _check_lengths(path, table, tuple(table))
    for view, width in _VIEWS.items():
        if table[view].ndim != 2 or table[view].shape[1] != width or not np.isfinite(table[view]).all():
            raise DataError(f"{path}: the view {view!r} has shape {table[view].shape}, not {width} finite columns")


def _check_lengths(path: Path, table: Table, names: tuple[str, ...]) -> None:
    lengths = {name: len(table[name]) for name in names}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise DataError(f"{path} holds arrays of different lengths, or none: {lengths}")


_READERS: dict[str, Callable[[list[Path]], Table]] = {
    "wordnet": _read_wordnet,
    "movielens": _read_movielens,
    "emg": _read_emg,
    "mfeat": _read_mfeat,
}
_CHECKS: dict[str, Callable[[Path, Table], None]] = {
    "wordnet": _check_wordnet,
    "movielens": _check_movielens,
    "emg": _check_emg,
    "mfeat": _check_mfeat,
}
TABLES = frozenset(_READERS)
