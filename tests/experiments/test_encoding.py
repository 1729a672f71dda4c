"""Typed results to JSON and back: nothing changes on the way, and what does not fit is refused with its place."""

import dataclasses
import json
import math

import numpy as np
import pytest

from retrax.experiments.encoding import UnreadableError, from_json, to_json
from retrax.experiments.results import ExperimentResult


@dataclasses.dataclass(frozen=True)
class Inner:
    """A part."""

    rate: float
    note: str | None = None


@dataclasses.dataclass(frozen=True)
class Outer:
    """A whole."""

    count: int
    flag: bool
    pairs: tuple[tuple[str, float | str], ...]
    parts: tuple[Inner, ...]
    sizes: dict[str, int]


WHOLE = Outer(3, True, (("rho", 0.1), ("sides", "L")), (Inner(0.5), Inner(math.inf, "x")), {"b": 5})


def test_arrays_become_lists_and_what_is_not_finite_becomes_null():
    made = to_json({"a": np.array([1.0, np.nan, np.inf]), "b": (np.float32(0.1), np.int64(3)), "c": "x"})
    assert made == {"a": [1.0, None, None], "b": [0.1, 3], "c": "x"}
    json.dumps(made, allow_nan=False)


def test_there_and_back():
    content = json.loads(json.dumps(to_json(WHOLE)))
    assert content["parts"] == [{"rate": 0.5, "note": None}, {"rate": None, "note": "x"}]
    back = from_json(Outer, content)
    assert dataclasses.replace(back, parts=()) == dataclasses.replace(WHOLE, parts=())
    assert back.parts[0] == Inner(0.5)
    assert math.isnan(back.parts[1].rate)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": 3.5}, "count should be a whole number, not float"),
        ({"count": True}, "count should be a whole number, not bool"),
        ({"flag": None}, "flag should be true or false, not null"),
        ({"pairs": [["rho"]]}, r"pairs\[0\] should be a list of 2, not a list"),
        ({"pairs": [["rho", [1]]]}, r"pairs\[0\]\[1\] should be a number, not a list"),
        ({"parts": {}}, "parts should be a list, not dict"),
        ({"parts": [{"note": "x"}]}, r"parts\[0\] lacks rate"),
        ({"parts": [{"rate": "0.1", "note": None}]}, r"parts\[0\]\.rate should be a number, not str"),
        ({"sizes": {"b": "5"}}, r"sizes\.b should be a whole number, not str"),
        ({"colour": 1}, "it has an unknown colour"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(change, reason):
    with pytest.raises(UnreadableError, match=f"^{reason}$"):
        from_json(Outer, {**to_json(WHOLE), **change})


@pytest.mark.parametrize("content", [[[1, 2], [3]], ["a"], [{}], 3])
def test_a_ragged_or_foreign_array_is_refused(paper_like, content):
    whole = to_json(paper_like)
    whole["series"][0]["runs"]["gap"] = content
    with pytest.raises(UnreadableError, match=r"series\[0\]\.runs\.gap"):
        from_json(ExperimentResult, whole)


def test_a_result_comes_back_as_it_was(paper_like):
    back = from_json(ExperimentResult, json.loads(json.dumps(to_json(paper_like))))
    assert to_json(back) == to_json(paper_like)
    assert back.series[0].series == paper_like.series[0].series
    np.testing.assert_allclose(back.series[0].runs.gap, paper_like.series[0].runs.gap, rtol=1e-6)


def test_removing_any_field_of_a_result_is_noticed(paper_like):
    for name in to_json(paper_like):
        content = to_json(paper_like)
        del content[name]
        with pytest.raises(UnreadableError, match=f"it lacks {name}"):
            from_json(ExperimentResult, content)
