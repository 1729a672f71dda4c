"""The benchmark suite runs at tiny sizes, and what it writes can be read."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
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
    import benchmarks.arenas
    import benchmarks.racers
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


def arena(benchmarks, value=lambda x: float(x[0]), kind="centroid"):
    """F is the first entry; it starts at 1, and 0 is the optimum."""
    bank = np.arange(12, dtype=np.float32).reshape(4, 3)
    sums = lambda rows, x: (float(np.sum(rows @ x)), np.sum(rows, axis=0))  # noqa: E731
    return benchmarks.arenas.Arena(kind, "a problem", bank, None, np.ones(3), value, 0.0, sums, 5)


def test_times_are_those_of_the_first_value_at_each_goal_within_the_limit(benchmarks):
    trace = [(0.1, 9.0), (0.2, 0.005), (0.3, 4.0), (0.9, 0.0005), (1.1, 0.0)]
    found = arena(benchmarks).times(iter([(seconds, [value]) for seconds, value in trace]), 1.0)
    assert found == [0.2, 0.9, None]


def test_a_point_off_the_manifold_gains_nothing(benchmarks):
    entered = arena(benchmarks, lambda x: 2 - float(np.sum(x**2)), "pca")
    entered = dataclasses.replace(entered, start=np.zeros((3, 1)), optimum=1.0)
    assert entered.value(np.full((3, 1), 9.0)) < entered.optimum
    exact = entered._measured(np.full((3, 1), 9.0))
    assert exact == pytest.approx(1.0, abs=1e-12)


def test_samples_are_equally_many_copies_of_each_in_memory_and_in_a_file(benchmarks, tmp_path):
    bank = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    mapped = benchmarks.arenas.drawn(bank, 20, tmp_path / "samples.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, benchmarks.arenas.drawn(bank, 20, None))
    rows, counts = np.unique(mapped, axis=0, return_counts=True)
    np.testing.assert_array_equal(rows, np.unique(bank, axis=0))
    assert set(counts) == {5}


def test_a_file_larger_than_half_of_the_free_disk_is_not_written(benchmarks, tmp_path):
    bank = np.zeros((1, 1000), dtype=np.float32)
    assert benchmarks.arenas.too_large(bank, 10, tmp_path / "samples.npy") == ""
    assert "more than half" in benchmarks.arenas.too_large(bank, 10**15, tmp_path / "samples.npy")


def test_a_rate_that_breaks_down_is_not_chosen(benchmarks):
    def run(rate):
        if rate > 0.05:
            raise FloatingPointError
        yield 1 - rate, [0.0]

    assert arena(benchmarks).rate("theirs", run, 2.0) == 0.03


def test_a_call_without_a_clock_is_given_up(benchmarks):
    begin = time.perf_counter()
    with benchmarks.racers._given_up_after(0.1):
        while time.perf_counter() - begin < 20:
            pass
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("kind", ["pca", "robust", "centroid", "joint"])
def test_gradients_for_full_passes_are_the_differences_of_f(benchmarks, kind):
    from benchmarks import arenas

    found = {"pca": (30, 6, 2), "robust": (30, 6, 2), "centroid": (30, 3), "joint": (30, 3)}[kind]
    entered = getattr(arenas, kind)(*found)
    entered = dataclasses.replace(entered, data=entered.bank.astype(float))
    x = entered.start.astype(float)
    u = np.random.default_rng(0).standard_normal(x.shape)
    if kind == "centroid":  # along a symmetric direction; its gradient is the Riemannian one, paired by x⁻¹·x⁻¹
        u = u + u.T
    value, gradient = entered.full(x)
    if kind == "centroid":
        inverse = np.linalg.inv(x)
        gradient = inverse @ gradient @ inverse
    assert value == pytest.approx(entered.value(x), rel=1e-6)
    step = 1e-6
    difference = (entered.full(x + step * u)[0] - entered.full(x - step * u)[0]) / (2 * step)
    assert np.sum(gradient * u) == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_a_race_tells_from_which_n_on_stochastic_methods_and_each_of_ours_win(benchmarks):
    race = {
        "targets": (0.1, 0.01, 0.001),
        "limit": 5.0,
        "passes": ["theirs"],
        "notes": ["n = 10000 was left out: too large"],
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
    assert "| first | a stochastic method | retrax | retrax, x | at the largest n |" in text
    assert "| to 0.1 | n = 100 | n = 1000 | at no n shown | retrax |" in text
    assert "| to 0.01 | n = 100 | n = 100 | at no n shown | retrax |" in text
    assert "| to 0.001 | at no n shown | at no n shown | at no n shown | nobody |" in text
    assert text.endswith("n = 10000 was left out: too large.")
