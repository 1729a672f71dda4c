"""Hierarchies, ratings, recordings and views: official and compact form, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

from retrax.datasets import DataError, descendants, load, transitive_closure, verify

NAMES = ["wordnet", "movielens", "emg", "mfeat"]
LABELS = ("label", "labels")


def same(dataset, expected):
    for name, array in expected.items():
        found = dataset.labels if name in LABELS else dataset.data[name]
        if array.dtype.kind == "S":
            assert found.tolist() == array.tolist()
        else:
            np.testing.assert_allclose(found, array, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_official_and_compact_form(archives, name):
    expected = getattr(archives, name)()
    dataset = load(name, archives.folder)
    same(dataset, expected)
    assert dataset.note.startswith("part: ")
    assert "read, no checksum known; part" in verify(name, archives.folder) if name != "emg" else True
    official = archives.folder / dataset.source
    named = (
        {"label_names": np.array([b"ok", b"rock"]), "session_names": np.array([b"a", b"b"])} if name == "emg" else {}
    )
    archives.npz(name, **(expected | named))
    official.unlink()
    if name == "emg":
        archives.npz(name, **(expected | named | {"label": expected["label"].astype(np.uint8)}))
    same(load(name, archives.folder), expected)
    assert load(name, archives.folder).source == f"{name}.npz"


def test_wordnet_as_nltk_has_it(archives):
    expected = archives.wordnet()
    import tarfile

    with tarfile.open(archives.folder / "WNdb-3.0.tar.gz") as archive:
        content = archive.extractfile("dict/data.noun").read()
    (archives.folder / "WNdb-3.0.tar.gz").unlink()
    archives.zip("wordnet.zip", {"wordnet/data.noun": content})
    same(load("wordnet", archives.folder), expected)


def test_a_later_edition_is_called_one(archives):
    rows = np.zeros(100_005, dtype=np.int32)
    archives.npz("movielens", user=rows, item=rows, rating=rows + np.float32(1), timestamp=rows)
    assert load("movielens", archives.folder).note.startswith("another edition: 100005 ratings instead of 100004")


@pytest.mark.parametrize(
    ("name", "arrays", "words"),
    [
        ("wordnet", {"names": np.array([b"a"]), "hypernym_edges": np.array([[0, 1]])}, "not a hierarchy"),
        ("movielens", {"rating": np.array([7.0])}, "between 0.5 and 5"),
        ("movielens", {"user": np.array([-1])}, "from 0 on"),
        ("movielens", {"user": np.array([1, 2])}, "different lengths"),
        ("mfeat", {"fac": np.zeros((1, 3))}, "'fac' has shape"),
        ("emg", {"channels": np.zeros((1, 8))}, "bytes of eight channels"),
        ("emg", {"label": np.array([9])}, "has no name"),
    ],
)
def test_what_the_arrays_cannot_be(archives, name, arrays, words):
    one = np.zeros(1, dtype=np.int32)
    good = {
        "wordnet": {},
        "movielens": {"user": one, "item": one, "rating": one + 1.0, "timestamp": one},
        "emg": {
            "channels": np.zeros((1, 8), np.uint8),
            "time": one,
            "label": one,
            "session": one,
            "label_names": np.array([b"ok"]),
            "session_names": np.array([b"s"]),
        },
        "mfeat": {
            "labels": one,
            **{
                k: np.zeros((1, n))
                for k, n in zip(("fac", "fou", "kar", "mor", "pix", "zer"), (216, 76, 64, 6, 240, 47), strict=True)
            },
        },
    }[name]
    archives.npz(name, **(good | arrays))
    with pytest.raises(DataError, match=words):
        load(name, archives.folder)


def test_transitive_closure_by_matrix_powers():
    random = np.random.default_rng(0)
    edges = np.array([(i, p) for i in range(1, 30) for p in random.choice(i, min(i, 2), replace=False)])
    direct = np.zeros((30, 30), dtype=int)
    direct[tuple(edges.T)] = 1
    reached = sum(np.linalg.matrix_power(direct, k) for k in range(1, 30)) > 0
    assert transitive_closure(edges).tolist() == np.argwhere(reached).tolist()
    pairs, nodes = descendants(transitive_closure(edges), 3)
    under = np.append(np.flatnonzero(reached[:, 3]), 3)
    assert sorted(under) == nodes.tolist()
    assert pairs.tolist() == np.argwhere(reached[np.ix_(nodes, nodes)]).tolist()
    with pytest.raises(ValueError, match="circle"):
        transitive_closure([(0, 1), (1, 2), (2, 0)])
