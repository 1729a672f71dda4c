"""`retrax.cache`: programs on disk are found by the next process, and nothing that happens to them breaks a run."""

import json
import pathlib
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import _cache as cache
from retrax import _programs as programs

WORKER = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
import retrax as rx

def own_loss(U, batch):
    return -jnp.mean(jnp.sum((batch @ U) ** 2, axis=-1))

lowered, hits = [], []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: lowered.append(name) if "jaxpr_to_mlir" in name else None
)
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
rx.cache(sys.argv[1])
X = np.random.default_rng(0).standard_normal((40, 30))
problem = {
    "ready-made": lambda: rx.problems.PCA(X, 1),
    "ready-made, with LAPACK": lambda: rx.problems.PCA(X, 20, retraction="qr"),
    "own loss": lambda: rx.Problem(own_loss, rx.Grassmann(30, 1), X),
}[sys.argv[2]]()
result = rx.minimize(problem, rx.rsrm(0.1), steps=5, record=5, batch_size=2)
print(json.dumps({"x": result.x.ravel().tolist(), "lowered": len(lowered), "hits": len(hits)}))
"""


def start(directory, problem="ready-made"):
    command = [sys.executable, "-c", WORKER, str(directory), problem]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""
    return json.loads(out)


def entries(directory):
    return sorted(path for path in pathlib.Path(directory).iterdir() if not path.name.startswith("."))


@pytest.fixture(scope="module", params=["ready-made", "ready-made, with LAPACK", "own loss"])
def filled(tmp_path_factory, request):
    """A directory that three processes filled at once with one problem's programs, and what they computed."""
    directory = tmp_path_factory.mktemp("cache")
    found = [finish(process) for process in [start(directory, request.param) for _ in range(3)]]
    assert found[0]["x"] == found[1]["x"] == found[2]["x"]
    return directory, request.param, found[0]["x"]


@pytest.fixture
def lowered(monkeypatch):
    """The programs that are traced and lowered meanwhile."""
    found, original = [], programs._precision.lowered
    monkeypatch.setattr(programs._precision, "lowered", lambda *given: found.append(given) or original(*given))
    return found


@pytest.fixture
def here(tmp_path):
    """A cache for this process, as if nothing had been compiled before."""
    programs.forget()
    rx.cache(tmp_path)
    yield tmp_path
    rx.cache(None)
    programs.forget()


def run(steps=3):
    X = np.random.default_rng(0).standard_normal((20, 3))
    return rx.minimize(rx.problems.PCA(X, 1), rx.rsgd(0.1), steps=steps, record=steps, batch_size=2)


def test_processes_share_a_directory_and_leave_nothing_unfinished(filled):
    directory, _, _ = filled
    assert len(entries(directory)) >= 3
    assert all(cache._is_whole(entry) for entry in entries(directory))
    assert not list(directory.glob(".new-*"))


def test_the_next_process_compiles_nothing_and_says_nothing(filled):
    """What consists of our own parts is not even traced; of somebody's loss the trace is the name."""
    directory, problem, expected = filled
    before = entries(directory)
    found = finish(start(directory, problem))
    assert found["x"] == expected
    assert entries(directory) == before
    if problem == "ready-made":
        assert (found["lowered"], found["hits"]) == (0, 0)
    elif problem == "ready-made, with LAPACK":
        assert found["hits"] == 0
        assert 0 < found["lowered"] < len(before)  # what makes LAPACK known
    else:
        assert found["lowered"] > 0
        assert found["hits"] + sum(entry.name.startswith("trial-") for entry in before) == len(before)


def test_damaged_entries_are_compiled_again(filled, tmp_path):
    directory, problem, expected = filled
    copy = shutil.copytree(directory, tmp_path / "copy")
    for number, entry in enumerate(entries(copy)):
        (program,) = entry.glob("*-cache")
        damaged = bytearray(program.read_bytes())
        damaged[len(damaged) // 2] ^= 255
        if number == 0:
            (entry / "sha256").write_bytes(b"\xff\xfe")
        elif number == 1:
            program.unlink()
        else:
            program.write_bytes(damaged[: len(damaged) // number])
        assert not cache._is_whole(entry)
    found = finish(start(copy, problem))
    assert (found["x"], found["hits"]) == (expected, 0)
    assert all(cache._is_whole(entry) for entry in entries(copy))


def test_the_directory_is_bounded(here):
    rx.cache(here, megabytes=1e-3)
    run()
    assert len(entries(here)) == 1, "the last one stays, whatever its size"


def test_only_our_programs_go_there_and_only_while_they_are_compiled(here):
    names = [name for name in dir(jax.config) if "compilation_cache" in name or "persistent_cache" in name]
    before = {name: getattr(jax.config, name) for name in names}
    run()
    kept = entries(here)
    assert kept
    assert {name: getattr(jax.config, name) for name in names} == before
    jax.jit(lambda x: x * 17.25)(jnp.ones(3))
    assert entries(here) == kept


def test_the_search_for_an_optimum_is_kept_too(here, lowered):
    matrices = np.eye(3) * np.arange(1.0, 5.0)[:, None, None]
    first = rx.problems.Centroid(matrices).optimum
    assert len(entries(here)) == len(lowered) == 1
    programs.forget()
    assert rx.problems.Centroid(matrices).optimum == first
    assert len(lowered) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("several", [False, True], ids=["one run", "sweep"])
def test_loaded_programs_give_the_same_bits(here, lowered, dtype, several):
    """Also those that call LAPACK: points of 20 columns are factorised there."""
    X = np.random.default_rng(0).standard_normal((60, 30))
    problem = rx.problems.PCA(X, 20, retraction="qr")
    settings = {"steps": 6, "batch_size": 4, "first_batch_size": 9, "record": 2, "dtype": dtype}

    def numbers():
        programs.forget()
        if several:
            swept = rx.sweep(problem, rx.rsrm, [0.1, 0.2], 2, **settings)["RSRM"]
            return [swept.curves[name] for name in ("loss", "gradient_norm")]
        result = rx.minimize(problem, rx.rsrm(), average=True, **settings)
        return [result.x, result.average, *(result.history[name] for name in ("loss", "rho", "average_gap"))]

    first, compiled = numbers(), len(lowered)
    second = numbers()
    assert len(lowered) - compiled <= 3  # what makes LAPACK known, once for each program that calls it
    assert all(len(given) == 2 for given in lowered[compiled:])
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_directory_that_vanishes_costs_a_warning(here):
    shutil.rmtree(here)
    with pytest.warns(UserWarning, match="could not be kept"):
        assert run().status is rx.Status.MAX_STEPS


def test_off_by_default_and_off_again(tmp_path):
    programs.forget()
    assert cache._place is None
    rx.cache(tmp_path)
    rx.cache(None)
    run()
    assert entries(tmp_path) == []


def test_refusals(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="give a directory to write to"):
        rx.cache(tmp_path / "file")
    with pytest.raises(ValueError, match="positive number"):
        rx.cache(tmp_path, megabytes=0)
    with pytest.raises(TypeError, match="a path or None, not int"):
        rx.cache(3)
    assert cache._place is None


def test_other_lines_on_stderr_survive(capfd):
    with cache._without_loader_lines():
        sys.stderr.write("ours\n")
        sys.stderr.flush()
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'E cpu_aot_loader.cc:1] x\\nb\\n')"], check=True)
    print("after", file=sys.stderr)
    assert capfd.readouterr().err == "ours\nb\nafter\n"
