"""The real data, where RETRAX_DATA names a folder that has them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from retrax.datasets import available, descendants, features, load, pca_matrix, transitive_closure, verify

pytestmark = pytest.mark.skipif(not os.environ.get("RETRAX_DATA"), reason="RETRAX_DATA names no folder of real data")


def need(name: str) -> None:
    if not available()[name]:
        pytest.skip(f"{name} is not in the folder that RETRAX_DATA names")


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mnist", (60_000, 28, 28)), ("covtype", (581_012, 54)), ("cifar100", (60_000, 32, 32))],
)
def test_complete(name, shape):
    need(name)
    dataset = load(name)
    assert dataset.data.shape == shape
    assert dataset.note == ""


def test_wordnet_has_the_relations_that_nickel_and_kiela_count():
    need("wordnet")
    wordnet = load("wordnet")
    closure = transitive_closure(wordnet.data["hypernym_edges"])
    mammal = wordnet.data["names"].tolist().index(b"mammal#01861778")
    mammals, nodes = descendants(closure, mammal)
    assert (wordnet.note, len(closure), len(mammals), len(nodes)) == ("", 743_241, 6_542, 1_182)


@pytest.mark.parametrize("name", ["movielens", "emg", "mfeat"])
def test_complete_tables(name):
    need(name)
    assert load(name).note == ""


def test_mnist_has_its_published_content():
    need("mnist")
    assert verify("mnist") == "60000 images read, published checksum"


@pytest.mark.parametrize("name", ["mnist", "covtype"])
def test_pca_matrices_are_centred(name):
    need(name)
    x, _ = pca_matrix(name)
    assert np.abs(x.mean(axis=0)).max() < 1e-10
    assert np.ptp(x, axis=0).max() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", features.KINDS)
def test_yaleb_covariances_are_positive_definite(kind, tmp_path):
    need("yaleb")
    covariances, note = features.load_covariances("yaleb", kind, cache=tmp_path)
    assert len(covariances) == 2414
    assert np.linalg.eigvalsh(covariances).min() > 0.9 * features.RIDGE
    assert "part" not in note
