"""Streams: every sample once and in order, whatever the batches they come in; errors name the sample."""

import itertools
import signal
import threading
import time

import numpy as np
import pytest
import torch

import retrax as rx
from retrax.sources import as_source
from retrax.sources.base import Stretch

from .runs import METHODS, Counting, assert_same, no_thread_left, problem, samples

SMALL = rx.Record(every=50, samples=100)


def _used(source, sizes, restarts=()):
    """The samples that a plan with these batch sizes would be fed, batch by batch."""
    feed = source.feed(0, "float64", 10)
    for i, size in enumerate(sizes):
        count, fed = feed.payload(Stretch(1, 1, size, i in restarts, 0), 1)
        if count == 0:
            return
        yield fed.data if fed.indices is None else fed.data[fed.indices[0]]


@pytest.mark.parametrize("size", [1, 3, 7, 64, 5000])
def test_every_sample_is_used_once_and_in_order(size):
    X = samples(500)
    got = list(_used(as_source(Counting(X, size)), itertools.cycle([5, 1, 13]), restarts=(0, 4)))
    joined = np.concatenate(got)
    np.testing.assert_array_equal(joined, X[: len(joined)])
    assert len(X) - len(joined) < 13
    assert [len(batch) for batch in got[:4]] == [5, 1, 13, 5]


@pytest.mark.parametrize("name", METHODS)
def test_the_run_does_not_depend_on_the_batches_that_arrive(name):
    X = samples(20_000)
    settings = {"steps": 300, "first_batch_size": 40, "record": SMALL, "dtype": "float64"}
    runs = [rx.minimize(problem(Counting(X, size)), METHODS[name], **settings) for size in (1, 33, 20_000)]
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])
    assert not runs[0].history.exact


def test_the_run_is_what_a_plain_loop_does():
    X = samples(500)
    result = rx.minimize(problem(Counting(X, 7)), rx.rsgd(0.01), steps=90, batch_size=5, record=SMALL, driver="eager")
    manifold = result_manifold = rx.Grassmann(12, 3)
    x = problem(X).initial_point(0)
    for t in range(1, 91):
        batch = X[5 * (t - 1) : 5 * t]
        x = manifold.retract(x, -0.01 * t**-0.5 * result_manifold.gradient(x, -2 / 5 * batch.T @ (batch @ x)))
    np.testing.assert_allclose(result.x, x, atol=1e-12)


def _torch_loader(X):
    return torch.utils.data.DataLoader(torch.from_numpy(X), batch_size=16)


def _generator(X):
    return (X[i : i + 16] for i in range(0, len(X), 16))


def _reused_buffer(X):
    buffer = np.empty((16, 12))
    for i in range(0, len(X), 16):
        buffer[:] = X[i : i + 16]
        yield buffer


def _lists_of_numbers(X):
    return (X[i : i + 16].tolist() for i in range(0, len(X), 16))


def _uneven(X):
    cuts = np.sort(np.random.default_rng(1).integers(0, len(X), 40))
    return iter(np.split(X, cuts))


def _single_samples(X):
    return rx.Stream(iter(X), samples=True)


FORMS = [_torch_loader, _generator, _reused_buffer, _lists_of_numbers, _uneven, _single_samples]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__[1:])
def test_every_form_of_stream_holds_the_same_samples(form):
    X = samples(1600)
    got = np.concatenate(list(_used(as_source(form(X)), itertools.repeat(9))))
    np.testing.assert_array_equal(got, X[: len(got)])
    assert len(got) > 1580


def test_batches_of_several_parts():
    X = samples(1600)
    y = np.arange(1600)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    for data in (
        torch.utils.data.DataLoader(dataset, batch_size=16),
        ((X[i : i + 5], y[i : i + 5]) for i in range(99)),
    ):
        feed = as_source(data).feed(0, "float64", 10)
        _, fed = feed.payload(Stretch(1, 3, 8, False, 0), 4)
        assert [leaf.shape for leaf in fed.data] == [(32, 12), (32,)]
    mapping = as_source({"x": X[i : i + 4], "y": y[i : i + 4].tolist()} for i in range(99))
    assert mapping.template["x"].shape == (0, 12)
    assert mapping.template["y"].dtype == np.int64


def test_a_stream_that_ends_early_ends_the_run_and_keeps_what_it_has():
    X = samples(1003)
    with no_thread_left():
        result = rx.minimize(problem(Counting(X, 10)), rx.rsrm(0.01), steps=10_000, record=SMALL)
    assert result.status is rx.Status.STREAM_ENDED
    assert result.steps == 1 + (1003 - 100) // 5
    assert result.sfo == 100 + 2 * 5 * (result.steps - 1)
    assert result.history["step"][-1] == result.steps
    np.testing.assert_array_less(result.history["violation"], 1e-5)
    same = rx.minimize(problem(Counting(X, 10)), rx.rsrm(0.01), steps=result.steps, record=SMALL)
    np.testing.assert_array_equal(result.x, same.x)
    np.testing.assert_array_equal(result.output, same.output)


def test_a_stream_shorter_than_the_first_batch():
    result = rx.minimize(problem(Counting(samples(30), 10)), rx.rsrm(0.01), steps=100, record=SMALL)
    assert (result.status, result.steps, result.sfo) == (rx.Status.STREAM_ENDED, 0, 0)


def test_records_are_of_the_first_samples():
    X = samples(2000)
    result = rx.minimize(
        problem(Counting(X, 9)), rx.rsrm(0.01), steps=100, record=rx.Record(samples=300), dtype="float64"
    )
    direct = rx.minimize(problem(X[:300]), rx.rsrm(0.01), steps=1, x0=result.x)
    np.testing.assert_allclose(result.history["loss"][-1], direct.history["loss"][0], rtol=1e-13)


def _broken(change, at=57, size=10, total=400):
    X = samples(total)
    for i in range(0, total, size):
        batch = X[i : i + size].copy()
        yield change(batch, at - i) if i <= at < i + size else batch


def _nan(batch, at):
    batch[at, 3] = np.nan
    return batch


@pytest.mark.parametrize("at", [57, 307])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_nan, "sample {at} of the stream contains NaN"),
        (lambda batch, at: batch[:, :5], r"starts with sample {start} has shape \(10, 5\)"),
        (lambda batch, at: batch.astype(np.float32), "starts with sample {start} has dtype float32"),
        (lambda batch, at: (batch, batch), "starts with sample {start} has another structure"),
        (lambda batch, at: batch.astype(str), "starts with sample {start} has dtype"),
        (lambda batch, at: [[1.0], [1.0, 2.0]], "starts with sample {start} cannot be made into arrays"),
    ],
)
def test_a_wrong_batch_is_reported_with_its_place(change, message, at):
    with no_thread_left(), pytest.raises(ValueError, match=message.format(at=at, start=at - at % 10)):
        rx.minimize(problem(_broken(change, at)), rx.rsgd(0.01), steps=1000, record=SMALL)


def test_a_wrong_single_sample_is_reported_with_its_place():
    def odd():
        yield from samples(300)
        yield np.zeros(7)

    with no_thread_left(), pytest.raises(ValueError, match="sample 300 of the stream is of another kind"):
        rx.minimize(problem(rx.Stream(odd(), samples=True)), rx.rsgd(0.01), steps=1000, record=SMALL)


def test_an_error_in_the_stream_reaches_the_caller():
    def failing():
        yield from Counting(samples(400), 10)
        raise ConnectionError("the line is dead")

    with no_thread_left(), pytest.raises(ConnectionError, match="the line is dead"):
        rx.minimize(problem(failing()), rx.rsgd(0.01), steps=1000, record=SMALL)


def test_what_is_no_stream_of_batches_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        as_source(iter([]))
    with pytest.raises(ValueError, match="samples=True"):
        as_source(iter([1.0, 2.0]))
    with pytest.raises(ValueError, match="dtype <U1"):
        as_source(iter([["a", "b"]]))
    with pytest.raises(TypeError, match="iterate"):
        rx.Stream(3)
    with pytest.raises(ValueError, match="cannot"):
        rx.Stream(iter([1]), deterministic=True)
    with pytest.raises(ValueError, match=r"retrax\.Stream"):
        as_source([[1.0, 2.0], [3.0, 4.0]])


def test_methods_that_need_n_say_so():
    with pytest.raises(ValueError, match="restart_every"):
        rx.minimize(problem(Counting(samples(), 10)), rx.rsvrg(0.01), steps=10, first_batch_size=10)
    with pytest.raises(ValueError, match="first_batch_size"):
        rx.minimize(problem(Counting(samples(), 10)), METHODS["rsvrg"], steps=10)


def test_a_used_generator_is_not_used_again_in_silence():
    once = problem(_generator(samples(2000)))
    rx.minimize(once, rx.rsgd(0.01), steps=5, record=SMALL)
    with pytest.raises(ValueError, match="earlier run"):
        rx.minimize(once, rx.rsgd(0.01), steps=5, record=SMALL)


def test_an_iterable_serves_a_second_run_from_the_start():
    again = problem(Counting(samples(2000), 11))
    settings = {"steps": 50, "record": SMALL}
    assert_same(rx.minimize(again, rx.rsrm(0.01), **settings), rx.minimize(again, rx.rsrm(0.01), **settings))


def test_on_record_can_stop_an_endless_stream():
    def endless():
        while True:
            yield samples(64)

    with no_thread_left():
        result = rx.minimize(
            problem(endless()), rx.rsgd(0.01), steps=10**9, record=SMALL, on_record=lambda t, _: t >= 200
        )
    assert (result.status, result.steps) == (rx.Status.STOPPED, 200)


def test_interrupting_a_stream_that_keeps_us_waiting(monkeypatch):
    monkeypatch.setattr("retrax.sources.prefetch._PATIENCE", 0.2)
    release = threading.Event()

    def stuck():
        yield samples(200)
        release.wait(60)

    main = threading.main_thread().ident
    timer = threading.Timer(3, lambda: signal.pthread_kill(main, signal.SIGINT))
    start = time.monotonic()
    with no_thread_left():
        timer.start()
        with pytest.warns(RuntimeWarning, match="left behind"):
            result = rx.minimize(
                problem(stuck()), rx.rsgd(0.01), steps=10**6, batch_size=50, record=SMALL, on_interrupt="return"
            )
        assert result.status is rx.Status.INTERRUPTED
        assert 1 < result.steps <= 4
        assert time.monotonic() - start < 50
        release.set()
        for thread in {*threading.enumerate()} - {threading.current_thread()}:
            if thread.name == "retrax-prefetch" or thread is timer:
                thread.join(10)
