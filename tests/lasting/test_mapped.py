"""Files instead of arrays: the same run to the same bits, in bounded memory."""

import os
import types

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.sources import MappedSource, as_source, mapped

from .runs import MANIFOLD, METHODS, assert_same, loss, no_thread_left, problem, samples, saved

SAMPLED = rx.Record(every=100, samples=500)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_file_gives_the_run_of_the_array_to_the_same_bits(name, dtype, tmp_path):
    X = samples()
    settings = {"steps": 400, "seed": 3, "record": SAMPLED, "dtype": dtype}
    in_memory = rx.minimize(problem(X), METHODS[name], **settings)
    with no_thread_left():
        from_file = rx.minimize(problem(saved(tmp_path, X)), METHODS[name], **settings)
    assert_same(in_memory, from_file)


def _as_path(directory, X):
    return saved(directory, X)


def _as_string(directory, X):
    return str(saved(directory, X))


def _as_map(directory, X):
    return np.load(saved(directory, X), mmap_mode="r")


def _as_plain_view(directory, X):
    return np.asarray(np.load(saved(directory, X), mmap_mode="r"))


def _as_raw_map(directory, X):
    (directory / "raw").write_bytes(b"header!" + X.tobytes())
    return np.memmap(directory / "raw", dtype=X.dtype, mode="r", offset=7, shape=X.shape)


def _as_list(directory, X):
    return [saved(directory, part, f"{i}.npy") for i, part in enumerate(np.split(X, [1, 700, 2000]))]


def _as_slice(directory, X):
    wide = np.concatenate([np.zeros((5, X.shape[1])), X, X])
    return np.load(saved(directory, wide), mmap_mode="r")[5 : 5 + len(X)]


def _as_columns(directory, X):
    return np.load(saved(directory, np.concatenate([X, X, X], axis=1)), mmap_mode="r")[:, 12:24]


def _as_every_second(directory, X):
    return np.load(saved(directory, np.repeat(X, 2, axis=0)), mmap_mode="r")[::2]


def _as_reversed(directory, X):
    return np.load(saved(directory, X[::-1]), mmap_mode="r")[::-1]


def _as_fortran(directory, X):
    return np.load(saved(directory, np.asfortranarray(X)), mmap_mode="r")


def _as_copy_on_write(directory, X):
    changed = np.load(saved(directory, np.zeros_like(X)), mmap_mode="c")
    changed[:] = X
    return changed


def _as_foreign_endian(directory, X):
    return saved(directory, X.astype(">f8"))


FORMS = [form for name, form in globals().copy().items() if name.startswith("_as_")]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__[4:])
def test_every_form_of_file_holds_the_same_samples(form, tmp_path):
    X = samples()
    source = as_source(form(tmp_path, X))
    assert isinstance(source, MappedSource)
    rows = np.array([0, 1, 2, 5, 699, 700, 701, 1999, 2000, 2999])
    np.testing.assert_array_equal(source.read(rows, "float64", len(rows)), X[rows])
    np.testing.assert_array_equal(source.read(np.arange(3000), "float64", 3000), X)


def test_samples_of_several_parts(tmp_path):
    X = samples()
    y = np.arange(len(X), dtype=np.int64)

    def weighted(U, batch):
        return loss(U, batch["x"] * (1 + batch["y"][:, None] % 3))

    settings = {"steps": 200, "record": SAMPLED, "dtype": "float32"}
    in_memory = rx.minimize(rx.Problem(weighted, MANIFOLD, {"x": X, "y": y}), rx.rsrm(0.001), **settings)
    files = {"x": saved(tmp_path, X, "x.npy"), "y": saved(tmp_path, y, "y.npy")}
    assert_same(in_memory, rx.minimize(rx.Problem(weighted, MANIFOLD, files), rx.rsrm(0.001), **settings))


def test_large_batches_are_read_part_by_part(tmp_path, monkeypatch):
    X = samples()
    monkeypatch.setattr("retrax.problems.base.PART_BYTES", 2**14)
    monkeypatch.setattr(mapped, "PART_BYTES", 2**14)
    monkeypatch.setattr(mapped, "EVALUATION_BYTES", 2**14)
    record = rx.Record(every=50, samples=2000, estimator_error=True)
    settings = {"steps": 200, "record": record, "dtype": "float64"}
    for size in (None, 1000):
        in_memory = rx.minimize(problem(X), METHODS["rsvrg"], first_batch_size=size, **settings)
        with no_thread_left():
            from_file = rx.minimize(problem(saved(tmp_path, X)), METHODS["rsvrg"], first_batch_size=size, **settings)
        np.testing.assert_allclose(in_memory.x, from_file.x, rtol=0, atol=1e-13)
        for column in ("loss", "gradient_norm", "estimator_error"):
            np.testing.assert_allclose(in_memory.history[column], from_file.history[column], rtol=0, atol=1e-11)


@pytest.mark.parametrize("buffer", [1, 2**12])
def test_results_do_not_depend_on_the_size_of_the_buffers(buffer, tmp_path, monkeypatch):
    path = saved(tmp_path, samples())
    reference = rx.minimize(problem(path), rx.rsrm(0.01), steps=150)
    for name in ("BUFFER_BYTES", "LARGEST_BUFFER_BYTES"):
        monkeypatch.setattr(f"retrax.settings.{name}", buffer)
    assert_same(reference, rx.minimize(problem(path), rx.rsrm(0.01), steps=150))


def test_records_are_of_a_sample_unless_all_are_asked_for(tmp_path):
    data = saved(tmp_path, samples(20_000))
    sampled = rx.minimize(rx.problems.PCA(data, 3), rx.rsrm(0.01), steps=20)
    assert not sampled.history.exact
    assert "gap" not in sampled.history
    exact = rx.minimize(rx.problems.PCA(data, 3), rx.rsrm(0.01), steps=20, record=rx.Record(samples=20_000))
    assert exact.history.exact
    assert exact.history["gap"][-1] > 0
    np.testing.assert_array_equal(sampled.x, exact.x)


def test_the_eager_driver_reads_files_too(tmp_path):
    X = samples()
    settings = {"steps": 120, "record": SAMPLED, "driver": "eager"}
    in_memory = rx.minimize(problem(X), METHODS["rsvrg"], **settings)
    assert_same(in_memory, rx.minimize(problem(saved(tmp_path, X)), METHODS["rsvrg"], **settings))


def test_a_bad_sample_is_named_when_it_is_read(tmp_path):
    X = samples()
    X[1234, 5] = np.nan
    with no_thread_left(), pytest.raises(ValueError, match="sample 1234"):
        rx.minimize(problem(saved(tmp_path, X)), rx.rsgd(0.01), steps=20_000, record=rx.Record(samples=2))


def test_what_cannot_be_read_is_refused(tmp_path):
    X = samples(20)
    with pytest.raises(FileNotFoundError):
        as_source(tmp_path / "none.npy")
    (tmp_path / "text.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"only \.npy"):
        as_source(tmp_path / "text.csv")
    with pytest.raises(ValueError, match=r"end to end.*tuple"):
        as_source([saved(tmp_path, X, "a.npy"), saved(tmp_path, X[:, :3], "b.npy")])
    with pytest.raises(ValueError, match="different numbers of samples"):
        as_source((saved(tmp_path, X, "a.npy"), saved(tmp_path, X[:7], "b.npy")))
    with pytest.raises(ValueError, match="mixes"):
        as_source((saved(tmp_path, X), X))
    with pytest.raises(TypeError, match="real numbers"):
        as_source(saved(tmp_path, X.astype(complex)))


def test_a_file_that_shrinks_is_noticed(tmp_path):
    path = saved(tmp_path, samples())
    source = as_source(path)
    os.truncate(path, 5000)
    with pytest.raises(ValueError, match="shorter than it was"):
        source.read(np.array([2999]), "float64", 1)


def test_integers_stay_integers(tmp_path):
    source = as_source(saved(tmp_path, np.arange(10, dtype=np.int16)))
    assert source.read(np.array([3]), "float32", 1).dtype == jnp.int16


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no advice")
def test_a_slow_disk_is_told_beforehand_which_rows_will_be_read(tmp_path, monkeypatch):
    X = samples()
    rows = mapped.MappedSource(saved(tmp_path, X))
    numbers, events, clock, pause = np.array([3, 7, 8, 90]), [], [0.0], [0.0]
    advise, read = os.posix_fadvise, os.preadv

    def slow(*arguments):
        clock[0] += pause[0]
        events.append("read")
        return read(*arguments)

    monkeypatch.setattr(os, "posix_fadvise", lambda *given: events.append("advice") or advise(*given))
    monkeypatch.setattr(os, "preadv", slow)
    monkeypatch.setattr(mapped, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))

    def call():
        events.clear()
        np.testing.assert_array_equal(rows.read(numbers, "float64", 4), X[numbers])
        return list(events)

    assert call() == ["read"] * 3  # 7 and 8 are neighbours
    pause[0] = 60e-6
    assert call() == ["read"] * 3
    pause[0] = 0.0
    assert [call() for _ in range(mapped._CALLS_WITH_NOTICE)] == [
        ["advice"] * 3 + ["read"] * 3
    ] * mapped._CALLS_WITH_NOTICE
    assert call() == ["read"] * 3
    pause[0] = 60e-6
    call()

    def refused(*_):
        raise OSError("no advice taken")

    monkeypatch.setattr(os, "posix_fadvise", refused)
    assert call() == ["read"] * 3
