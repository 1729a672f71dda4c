"""Running: self-describing results, nothing repeated, the same numbers after a kill and with several processes."""

import dataclasses
import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from retrax.experiments import running, series, storage, timing, tuning
from retrax.experiments.encoding import to_json
from retrax.experiments.specs import PanelSpec
from retrax.experiments.storage import Store
from retrax.experiments.units import Asked
from retrax.experiments.workloads import Place

ROOT = Path(__file__).parents[2]


def start(out, *more):
    """The command `retrax run tiny` in a process of its own."""
    command = [sys.executable, "-m", "tests.experiments.tiny_command", "run", "tiny", "--out", str(out), *more]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src")))}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


#: Minutes of steps: a command that a test interrupts must not end by itself.
LONG = ("--epochs", "1000000")


def end(process, timeout=None):
    """(exit code, standard error) of a process that has ended or will."""
    _, errors = process.communicate(timeout=timeout)
    return process.returncode, errors.decode()


def numbers(path):
    """A result without what may differ from run to run: times."""
    timing = ("seconds", "wall_seconds", "load", "others")

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in timing}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(json.loads(path.read_text()))


def run(out, silent, asked=Asked(quick=True)):  # noqa: B008
    return lambda experiment: running.run_experiment(experiment, running.Conditions(Store(out), asked, Place()), silent)


def test_run_times_are_measured_last_and_once(tiny, out, silent, monkeypatch):
    where = running.Conditions(Store(out), Asked(quick=True), Place(), jobs=2)
    assert not running.is_finished(tiny, where)
    result, _ = run(out, silent)(tiny)
    assert not result.timed
    assert not running.is_finished(tiny, where)
    timed, computed = running.time_experiment(tiny, result, where, silent)
    assert running.is_finished(tiny, where)
    assert computed
    assert timed.timed
    assert silent.finished[-3:] == ["timing-rsrm", "timing-rsgd", "timing-rsrm-rho"]
    for before, after in zip(result.series, timed.series, strict=True):
        assert after.timing.seconds.shape == (3, len(before.runs.sfo))
        assert (np.diff(after.timing.seconds, axis=1) > 0).all()
        assert after.timing.others >= 0
        np.testing.assert_array_equal(after.runs.gap, before.runs.gap)
    assert run(out, silent)(tiny)[1] is False
    monkeypatch.setattr(timing, "measure", None)
    again, computed = running.time_experiment(tiny, run(out, silent)(tiny)[0], where, silent)
    assert not computed
    assert again.timed


def test_what_a_home_has_run_is_not_run_again(tiny, out, silent):
    """A panel with a home takes over its budget and its series; only what the home has not is computed."""
    panel = PanelSpec("there", "There", tiny.problem, home="tiny")
    shared, own = (
        dataclasses.replace(one, key=f"there-{one.key}", panel="there") for one in (series.RSGD, series.RIVALS[0])
    )
    guest = dataclasses.replace(
        tiny, name="guest", series=(shared, own), panels=(panel,), claims=(), epochs=77, timed=False
    )
    where = running.Conditions(Store(out), Asked(quick=True), Place())
    home, _ = run(out, silent)(tiny)
    silent.finished.clear()
    result, _ = run(out, silent)(guest)
    assert silent.finished == ["there-rdog"]
    theirs = next(part for part in home.series if part.key == "rsgd")
    ours = next(part for part in result.series if part.key == "there-rsgd")
    np.testing.assert_array_equal(ours.runs.gap, theirs.runs.gap)
    assert ours.series == shared
    assert running.is_finished(guest, where)
    # Not from a home that ran with other settings.
    silent.finished.clear()
    run(out, silent, Asked(quick=True, seeds=2))(guest)
    assert silent.finished == ["there-rsgd", "there-rdog"]


def test_a_result_describes_itself_and_names_no_person_or_folder(tiny, out, silent):
    result, computed = run(out, silent)(tiny)
    text = (out / "tiny.json").read_text()
    assert computed
    assert json.loads(text) == to_json(result)
    assert result.settings.budget.epochs == 2
    assert result.settings.budget.seeds == (0, 1, 2)
    assert result.panels[0].data_note == "tiny <data>"
    assert {"python", "jax", "numpy", "retrax"} <= set(result.environment.versions)
    assert result.environment.machine.cores >= 1
    for part in result.series:
        assert len(part.runs.gap) == 3
        assert len(part.tuning.candidates) >= 3
        assert all(len(candidate.gap) == 2 for candidate in part.tuning.candidates)
        assert not set(part.tuning.seeds) & set(part.runs.seeds)
    for private in (str(Path.home()), str(out), socket.gethostname()):
        assert private not in text
    assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", text)


def test_a_finished_experiment_is_not_repeated(tiny, out, silent, monkeypatch):
    run(out, silent)(tiny)
    monkeypatch.setattr(tuning, "run_series", None)
    _, computed = run(out, silent)(tiny)
    assert not computed


def test_a_result_of_an_older_format_is_named_and_computed_anew(tiny, out, silent):
    out.mkdir()
    (out / "tiny.json").write_text('{"format": 1}')
    _, computed = run(out, silent)(tiny)
    assert computed
    assert silent.said == [
        f"computing anew: {out / 'tiny.json'} cannot be used: it has format 1, and this version reads format "
        f"{storage.FORMAT}; delete it and run tiny again"
    ]


def test_finished_units_are_kept_and_others_are_not_trusted(tiny, out, silent, monkeypatch):
    whole = tuning.run_series
    calls = []

    def until_the_second(problem, series, budget, notify):
        calls.append(series.key)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(problem, series, budget, notify)

    monkeypatch.setattr(tuning, "run_series", until_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(out, silent)(tiny)
    assert not (out / "tiny.json").exists()
    monkeypatch.setattr(tuning, "run_series", whole)
    other = running.Conditions(Store(out), Asked(quick=True, epochs=1.0), Place())
    running.run_experiment(tiny, other, silent)
    assert silent.kept == [0, 0]
    (out / "tiny.json").unlink()


def test_continuing_starts_from_the_kept_units(tiny, out, silent, monkeypatch):
    whole = tuning.run_series
    monkeypatch.setattr(tuning, "run_series", lambda p, s, b, n: whole(p, s, b, n) if s.key == "rsrm" else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(out, silent)(tiny)
    monkeypatch.setattr(tuning, "run_series", lambda p, s, b, n: 1 / 0 if s.key == "rsrm" else whole(p, s, b, n))
    run(out, silent)(tiny)
    assert silent.kept == [0, 1]
    assert silent.finished == ["rsrm", "rsgd", "rsrm-rho"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of one process that ran to its end."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert end(start(out, "--quick"))[0] == 0
    return numbers(out / "tiny.json")


@pytest.mark.slow
def test_killed_half_way_and_run_again_gives_the_same_numbers(tmp_path, undisturbed):
    killed = tmp_path / "killed"
    process = start(killed, "--quick")
    parts = killed / ".parts" / "tiny"
    while process.poll() is None and not (parts.is_dir() and any(parts.glob("r*.json"))):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    end(process)
    assert not (killed / "tiny.json").exists(), "the run had ended before it could be killed"
    code, errors = end(start(killed, "--quick"))
    assert code == 0
    assert "kept from before" in errors
    assert numbers(killed / "tiny.json") == undisturbed


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are found in /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    process = start(tmp_path / "out", "--jobs", "2", *LONG)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while len(workers := children.read_text().split()) < 3 and time.monotonic() < deadline:  # and a resource tracker
        time.sleep(0.05)
    time.sleep(2)
    process.kill()
    assert len(workers) == 3
    while any(alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(worker) for worker in workers)
    end(process)


def alive(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_two_processes_give_the_same_numbers_as_one(tmp_path, undisturbed):
    assert end(start(tmp_path / "out", "--quick", "--jobs", "2"))[0] == 0
    assert numbers(tmp_path / "out" / "tiny.json")["series"] == undisturbed["series"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_says_that_it_continues(tmp_path, jobs):
    process = start(tmp_path / "out", "--jobs", jobs, *LONG)
    line = process.stderr.readline()
    assert b"tiny" in line
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    code, errors = end(process, timeout=120)
    assert code == 130
    assert errors.strip().splitlines()[-1] == "retrax: interrupted; the same command continues with what is missing"
    assert "Traceback" not in errors
