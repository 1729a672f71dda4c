"""Result files: whole or absent, never damaged; fingerprints tell settings apart."""

import dataclasses
import json
import os

import numpy as np
import pytest

from retrax.experiments import storage, units, workloads
from retrax.experiments.results import SeriesResult
from retrax.experiments.specs import UsageError
from retrax.experiments.storage import Store
from retrax.experiments.units import Asked

from .conftest import made_result, made_series


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    storage.write_json(path, {"old": 1})

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="No space left"):
        storage.write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize("content", [b"", b'{"half": ', b"[1, 2]", b"\xff\xfe", b"{}"])
def test_a_damaged_part_counts_as_missing(tmp_path, content):
    store = Store(tmp_path)
    path = store.part_path("tiny", "rsrm", "0")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert store.part(SeriesResult, "tiny", "rsrm", "0") is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is damaged"),
        (b"[1, 2]", "it should be an object, not a list"),
        (b'{"format": 1, "title": "old"}', f"it has format 1, and this version reads format {storage.FORMAT}"),
        (f'{{"format": {storage.FORMAT}}}'.encode(), "it lacks fingerprint, experiment"),
    ],
)
def test_a_result_that_cannot_be_used_is_refused_by_name(tmp_path, content, reason):
    (tmp_path / "tiny.json").write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        Store(tmp_path).result("tiny")
    assert str(refusal.value).startswith(f"{tmp_path / 'tiny.json'} cannot be used: {reason}")
    assert "\n" not in str(refusal.value)


def test_no_result_is_no_mistake(tmp_path):
    assert Store(tmp_path).result("tiny") is None


def test_saving_a_result_clears_its_parts_only(tmp_path):
    store, part = Store(tmp_path), made_series("rsrm", [0.1])
    store.save_part("tiny", "rsrm", "0", part)
    store.save_part("other", "rsrm", "0", part)
    store.save_result("tiny", made_result(part))
    assert not (tmp_path / ".parts" / "tiny").exists()
    assert store.part(SeriesResult, "other", "rsrm", "0") is not None


def test_an_unwritable_folder_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        storage.prepare(tmp_path / "file" / "results")


def test_fingerprints_depend_on_settings_data_and_code(tiny, monkeypatch):
    place = workloads.Place()

    def digest(asked=Asked(), experiment=tiny):  # noqa: B008
        return units.fingerprint(units.units_of(experiment, asked, place)[0])

    first = digest()
    assert digest() == first
    changed = [digest(Asked(quick=True)), digest(Asked(seeds=4)), digest(Asked(epochs=1.0))]
    changed.append(digest(experiment=dataclasses.replace(tiny, grid=(0.5, 0.1))))
    monkeypatch.setattr(units.environment, "versions", lambda: {"code": "other"})
    changed.append(digest())
    monkeypatch.undo()
    monkeypatch.setitem(workloads.SYNTHETIC, "tiny", lambda: (np.ones((50, 6)), ""))
    workloads.forget()
    changed.append(digest())
    workloads.forget()
    assert len({first, *changed}) == 7
