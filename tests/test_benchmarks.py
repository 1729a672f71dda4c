"""The benchmark suite runs at tiny sizes, and what it writes can be read."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


def run(*arguments, cwd=ROOT):
    environment = {name: value for name, value in os.environ.items() if name != "RETRAX_DATA"}
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    done = run("--tiny", "--only", "steps", "--only", "growth", "--out", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_results_are_valid_json_with_every_repetition(results):
    found = json.loads((results / "benchmarks.json").read_text(encoding="utf-8"))
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["versions"]["jax"]
    assert set(found["suites"]) == {"steps", "growth"}
    for label, result in found["suites"]["steps"].items():
        names = {row["name"] for row in result["rows"]}
        assert {"retrax RSRM", "retrax RSGD", "plain JAX scan, RSRM", "NumPy, RSRM"} <= names, label
        for row in result["rows"]:
            assert len(row["repetitions_us"]) == 2
            assert row["median_us"] > 0
            assert row["ratio"] > 0
        assert result["agreement"]["retrax"] <= 1e-10


@pytest.mark.slow
def test_pictures_and_tables_are_written(results):
    for axis in "nbdr":
        assert (results / f"step-time-{axis}.png").stat().st_size > 1000
    text = (results / "benchmarks.md").read_text(encoding="utf-8")
    assert "| retrax RSRM |" in text
    assert "### Growth" in text


@pytest.mark.slow
def test_tables_go_between_the_markers_of_a_page(results, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import docs

    page = tmp_path / "performance.md"
    page.write_text(f"before\n{docs.BEGIN}\nlast year's\n{docs.END}\nafter\n", encoding="utf-8")
    docs.write(json.loads((results / "benchmarks.json").read_text(encoding="utf-8")), results, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "last year's" not in text
    assert "| retrax RSRM |" in text
    assert (tmp_path / "images" / "performance" / "step-time-n.png").exists()


def test_an_unknown_suite_is_refused():
    done = run("--only", "nonsense")
    assert done.returncode == 2
    assert "invalid choice" in done.stderr


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import benchmarks
    import benchmarks.races
    import benchmarks.report
    import benchmarks.timing

    return benchmarks


def test_one_contender_that_fails_does_not_end_the_others(benchmarks):
    def broken():
        raise FloatingPointError("as some do")

    contenders = [
        benchmarks.timing.Contender("broken", broken),
        benchmarks.timing.Contender("sound", lambda: lambda: 2e-6, baseline=True),
    ]
    found = benchmarks.timing.measure(contenders, 3, lambda text: None)
    assert found["skipped"] == {"broken": "as some do"}
    assert [(row["name"], row["median_us"], row["ratio"]) for row in found["rows"]] == [("sound", 2.0, 1.0)]


def test_times_are_those_of_the_first_value_at_each_goal_within_the_limit(benchmarks):
    trace = iter([(0.1, 9.0), (0.2, 0.5), (0.3, 4.0), (0.9, 0.05), (1.1, 0.0)])
    assert benchmarks.races._times(trace, [1.0, 0.1, 0.01], 1.0) == [0.2, 0.9, None]


def test_a_race_tells_from_which_n_on_each_of_ours_wins(benchmarks):
    race = {
        "targets": (0.1, 0.01, 0.001),
        "limit": 5.0,
        "rows": [
            {
                "n": 100,
                "seconds": {"retrax": [1.0, 2.0, None], "retrax, x": [0.2, 9.0, 9.0], "theirs": [0.5, 3.0, 4.0]},
            },
            {"n": 1000, "seconds": {"retrax": [1.0, 2.0, None], "theirs": "failed: ValueError"}},
        ],
    }
    text = benchmarks.report._race("a problem", race)
    assert "| 100 | retrax | 1 | 2 | not within 5 s |" in text
    assert "|  | theirs | failed: ValueError |  |  |" in text
    assert "retrax is first: to 0.1 from n = 1000 on; to 0.01 from n = 100 on; to 0.001 at no n shown." in text
    assert "retrax, x is first: to 0.1 at no n shown" in text
