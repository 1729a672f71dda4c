"""Result files: whole or absent, never damaged; fingerprints tell settings apart."""

import dataclasses
import json
import os

import numpy as np
import pytest

from retrax.experiments import problems, storage, units
from retrax.experiments.specs import UsageError
from retrax.experiments.storage import Store
from retrax.experiments.units import Asked


def test_arrays_become_lists_and_nan_becomes_null():
    made = storage.plain({"a": np.array([1.0, np.nan, np.inf]), "b": (np.float32(0.1), np.int64(3)), "c": "x"})
    assert made == {"a": [1.0, None, None], "b": [0.1, 3], "c": "x"}
    json.dumps(made, allow_nan=False)


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


@pytest.mark.parametrize("content", [b"", b'{"half": ', b"[1, 2]", b"\xff\xfe"])
def test_a_damaged_part_counts_as_missing(tmp_path, content):
    store = Store(tmp_path)
    path = store.part_path("tiny", "rsrm", "0")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert store.part("tiny", "rsrm", "0") is None


def test_a_result_of_another_format_counts_as_missing(tmp_path):
    storage.write_json(tmp_path / "tiny.json", {"format": storage.FORMAT + 1})
    assert Store(tmp_path).result("tiny") is None


def test_saving_a_result_clears_its_parts_only(tmp_path):
    store = Store(tmp_path)
    store.save_part("tiny", "rsrm", "0", {})
    store.save_part("other", "rsrm", "0", {})
    store.save_result("tiny", {"format": storage.FORMAT})
    assert not (tmp_path / ".parts" / "tiny").exists()
    assert store.part("other", "rsrm", "0") == {}


def test_an_unwritable_folder_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        storage.prepare(tmp_path / "file" / "results")


def test_fingerprints_depend_on_settings_data_and_code(tiny, monkeypatch):
    place = problems.Place()

    def digest(asked=Asked(), experiment=tiny):  # noqa: B008
        return units.fingerprint(units.units_of(experiment, asked, place)[0])

    first = digest()
    assert digest() == first
    changed = [digest(Asked(quick=True)), digest(Asked(seeds=4)), digest(Asked(epochs=1.0))]
    changed.append(digest(experiment=dataclasses.replace(tiny, grid=(0.5, 0.1))))
    monkeypatch.setattr(units.environment, "versions", lambda: {"code": "other"})
    changed.append(digest())
    monkeypatch.undo()
    monkeypatch.setitem(problems.SYNTHETIC, "tiny", lambda: (np.ones((50, 6)), ""))
    problems.samples.cache_clear()
    changed.append(digest())
    problems.samples.cache_clear()
    assert len({first, *changed}) == 7
