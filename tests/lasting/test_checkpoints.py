"""Checkpoints: a resumed run is the undisturbed one to the last bit; a file is whole or not there."""

import json
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax.checkpoint import Checkpoint, Folder, RefusedError, Snapshot, decode, encode
from retrax.sources import as_source

from .runs import METHODS, Counting, Stateful, assert_same, no_thread_left, problem, samples, saved

pytestmark = pytest.mark.filterwarnings("ignore:a checkpoint in .* a stream that keeps its own place")

STEPS = 300
RECORD = rx.Record(every=50, samples=200, estimator_error=True)


class CrashError(Exception):
    """What ends a run in the middle."""


def crash_at(step):
    """An on_record that fails at a step."""

    def fail(at, _):
        if at == step:
            raise CrashError

    return fail


def sources(directory):
    """The same samples in every form that can be wound forward."""
    X = samples(8000)
    return {
        "array": lambda: X,
        "file": lambda: saved(directory, X),
        "again": lambda: rx.Stream(Counting(X, 33), deterministic=True),
        "single": lambda: rx.Stream(X, samples=True, deterministic=True),
        "stateful": lambda: Stateful(X, 33),
    }


def settings(name, **others):
    """The arguments of a short run."""
    return {
        "method": METHODS[name],
        "steps": STEPS,
        "first_batch_size": 40,
        "record": RECORD,
        "dtype": "float64",
        **others,
    }


def crashed_and_resumed(make, name, directory, at=200, every=37, **others):
    """A run that fails at a record and goes on from its last checkpoint, which lies before."""
    checkpoint = Checkpoint(directory, every=every)
    with pytest.raises(CrashError):
        rx.minimize(problem(make()), **settings(name, checkpoint=checkpoint, on_record=crash_at(at), **others))
    assert Folder(checkpoint).steps()[-1] == (at - 1) // every * every
    return rx.minimize(problem(make()), **settings(name, checkpoint=checkpoint, resume=True, **others))


EVERY_METHOD = [(name, form) for name in METHODS for form in ("array", "file", "stateful")]
EVERY_SOURCE = [(name, form) for name in ("rsrm", "rsvrg") for form in ("again", "single")]


@pytest.mark.parametrize(("name", "form"), EVERY_METHOD + EVERY_SOURCE)
def test_every_method_on_every_source_resumes_to_the_same_bits(name, form, tmp_path):
    make = sources(tmp_path)[form]
    undisturbed = rx.minimize(problem(make()), **settings(name))
    with no_thread_left():
        assert_same(undisturbed, crashed_and_resumed(make, name, tmp_path / "checkpoints"))


def test_the_eager_driver_resumes_too(tmp_path):
    make = sources(tmp_path)["array"]
    undisturbed = rx.minimize(problem(make()), **settings("rasa", driver="eager"))
    assert_same(undisturbed, crashed_and_resumed(make, "rasa", tmp_path / "checkpoints", driver="eager"))


def test_batches_that_grow_and_product_manifolds(tmp_path):
    X = samples()
    manifold = rx.Product({"U": rx.Stiefel(12, 3), "b": rx.Euclidean(12)})

    def shifted(x, batch):
        return ((batch - x["b"] - (batch @ x["U"]) @ x["U"].T) ** 2).mean()

    def run(**others):
        return rx.minimize(
            rx.Problem(shifted, manifold, X),
            rx.rsrm(0.001),
            steps=200,
            batch_size=lambda t: t**0.5,
            record=50,
            **others,
        )

    undisturbed = run()
    checkpoint = Checkpoint(tmp_path, every=30)
    with pytest.raises(CrashError):
        run(checkpoint=checkpoint, on_record=crash_at(100))
    resumed = run(checkpoint=checkpoint, resume=True)
    assert undisturbed.sfo == resumed.sfo
    for part in ("U", "b"):
        np.testing.assert_array_equal(undisturbed.x[part], resumed.x[part])
        np.testing.assert_array_equal(undisturbed.output[part], resumed.output[part])


def test_several_interruptions_and_an_array_after_a_file(tmp_path):
    forms = sources(tmp_path)
    undisturbed = rx.minimize(problem(forms["array"]()), **settings("rsrm"))
    checkpoint = Checkpoint(tmp_path / "checkpoints", every=20)
    for form, stop in (("file", 50), ("array", 150), ("file", 250)):
        result = rx.minimize(
            problem(forms[form]()),
            **settings("rsrm", checkpoint=checkpoint, resume=True, on_record=lambda t, _, stop=stop: t == stop),
        )
        assert (result.status, result.steps) == (rx.Status.STOPPED, stop)
    assert_same(
        undisturbed, rx.minimize(problem(forms["array"]()), **settings("rsrm", checkpoint=checkpoint, resume=True))
    )


def test_a_finished_run_is_returned_as_it_was(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=100)
    first = rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))
    calls = []
    again = rx.minimize(
        problem(samples()), **settings("rsrm", checkpoint=checkpoint, resume=True, on_record=lambda *a: calls.append(a))
    )
    assert_same(first, again)
    assert again.seconds == first.seconds
    assert not calls


def test_a_converged_run_stays_converged(tmp_path):
    arguments = settings("rsrm", checkpoint=Checkpoint(tmp_path, every=100), tolerance=1e9, patience=2)
    first = rx.minimize(problem(samples()), **arguments)
    assert (first.status, first.steps) == (rx.Status.CONVERGED, 50)
    assert_same(first, rx.minimize(problem(samples()), resume=True, **arguments))


def test_a_longer_run_goes_on(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=100)
    rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))
    longer = rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint, resume=True) | {"steps": 500})
    assert_same(longer, rx.minimize(problem(samples()), **settings("rsrm") | {"steps": 500}))
    with pytest.raises(ValueError, match="beyond steps=100"):
        rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint, resume=True) | {"steps": 100})


def test_a_diverged_run_leaves_no_diverged_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=50)
    method = rx.rsgd(lambda t: 0.01 * jnp.where(t > 60, jnp.nan, t))
    result = rx.minimize(problem(samples()), **settings("rsgd", checkpoint=checkpoint) | {"method": method})
    assert (result.status, result.steps) == (rx.Status.DIVERGED, 100)
    assert Folder(checkpoint).steps() == [50]


def test_the_last_k_are_kept_and_leftovers_removed(tmp_path):
    (tmp_path / ".retrax-0123.part").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_text("mine")
    rx.minimize(problem(samples()), **settings("rsrm", checkpoint=Checkpoint(tmp_path, every=40, keep=2)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "step-000000280.ckpt",
        "step-000000300.ckpt",
    ]


def spoil_bit(content):
    """One bit changed, in the arrays."""
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


SPOILED = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "bit": spoil_bit,
    "longer": lambda content: content + b"\0",
    "foreign": lambda content: b"PK\x03\x04" + content,
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_torn_checkpoint_is_refused_and_the_one_before_used(kind, tmp_path):
    checkpoint = Checkpoint(tmp_path, every=40)
    undisturbed = rx.minimize(problem(samples()), **settings("rsvrg", checkpoint=checkpoint))
    newest = Folder(checkpoint).file(STEPS)
    newest.write_bytes(SPOILED[kind](newest.read_bytes()))
    with pytest.warns(RuntimeWarning, match=rf"{newest.name}.*resuming from step-000000280"):
        resumed = rx.minimize(problem(samples()), **settings("rsvrg", checkpoint=checkpoint, resume=True))
    assert_same(undisturbed, resumed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"seed": 1}, "seed is 0 and not 1"),
        ({"dtype": "float32"}, "dtype is float64 and not float32"),
        ({"method": rx.rsrm(0.02)}, "method is .*0.01.* and not .*0.02"),
        ({"method": rx.rsgd(0.01)}, "method is .*RSRM.* and not .*RSGD"),
        ({"batch_size": 6}, "batch sizes"),
        ({"first_batch_size": 41}, "large batch sizes"),
        ({"driver": "eager"}, "driver is jax and not eager"),
        ({"x0": np.linalg.qr(np.ones((12, 3)) + np.eye(12, 3))[0]}, "x0"),
        ({"problem": problem(samples(2000))}, "data is 3000 samples"),
        ({"problem": problem(samples(seed=1))}, "samples"),
        ({"problem": rx.Problem(lambda U, b: -((b @ U) ** 2).mean(), rx.Grassmann(12, 3), samples())}, "loss"),
        ({"problem": rx.Problem(problem(samples()).objective.loss, rx.Stiefel(12, 3), samples())}, "manifold"),
    ],
)
def test_a_foreign_checkpoint_is_refused_with_a_reason(changed, reason, tmp_path):
    checkpoint = Checkpoint(tmp_path, every=100)
    rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))
    arguments = {"problem": problem(samples()), **settings("rsrm", checkpoint=checkpoint, resume=True), **changed}
    with pytest.raises(ValueError, match=f"no checkpoint can be resumed from.*another run, whose {reason}"):
        rx.minimize(**arguments)


def test_files_of_another_version_are_refused():
    content = encode(Snapshot([np.arange(3.0)], {"a": 1}))
    assert decode(content).facts["a"] == 1
    np.testing.assert_array_equal(decode(content).arrays[0], np.arange(3.0))
    with pytest.raises(RefusedError, match="another version of Retrax: format 99, by a later version"):
        decode(encode(Snapshot([], {"version": 99})))
    with pytest.raises(RefusedError, match=r"format 1, by Retrax before 0\.1\.0"):
        decode(encode(Snapshot([], {"version": 1})))


def test_a_new_run_does_not_mix_with_an_old_one(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=100)
    rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))
    with pytest.raises(ValueError, match="resume=True"):
        rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))


def test_resume_without_any_checkpoint_starts_afresh(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new" / "folder", every=100)
    result = rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint, resume=True))
    assert result.steps == STEPS


def test_arguments_that_make_no_sense(tmp_path):
    with pytest.raises(ValueError, match="resume=True needs checkpoint"):
        rx.minimize(problem(samples()), **settings("rsrm", resume=True))
    with pytest.raises(TypeError, match=r"retrax\.Checkpoint"):
        rx.minimize(problem(samples()), **settings("rsrm", checkpoint=str(tmp_path)))
    for bad in ({"every": 0}, {"every": 10, "keep": 0}, {"every": 1.5}):
        with pytest.raises(ValueError, match="Checkpoint"):
            Checkpoint(tmp_path, **bad)


def test_a_stream_that_cannot_be_wound_forward_says_so(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=40)

    def generator():
        yield from Counting(samples(8000), 10)

    rx.minimize(problem(generator()), **settings("rsrm", checkpoint=checkpoint))
    with pytest.raises(ValueError, match=r"cannot be wound forward.*deterministic=True"):
        rx.minimize(problem(generator()), **settings("rsrm", checkpoint=checkpoint, resume=True))


def test_a_stream_that_has_become_shorter_says_so(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=40)
    arguments = settings("rsrm", checkpoint=checkpoint)
    rx.minimize(problem(rx.Stream(Counting(samples(8000), 10), deterministic=True)), **arguments)
    with pytest.raises(ValueError, match="shorter"):
        rx.minimize(
            problem(rx.Stream(Counting(samples(8000)[:600], 10), deterministic=True)),
            **arguments | {"steps": 400},
            resume=True,
        )


def test_a_stream_that_ended_goes_on_when_it_is_longer(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=1000)
    arguments = settings("rsrm", checkpoint=checkpoint, resume=True)
    X = samples(8000)
    short = rx.minimize(problem(Stateful(X[:813], 10)), **arguments)
    assert short.status is rx.Status.STREAM_ENDED
    undisturbed = rx.minimize(problem(Stateful(X, 10)), **settings("rsrm"))
    resumed = rx.minimize(problem(Stateful(X, 10)), **arguments)
    assert_same(undisturbed, resumed)


class Loader:
    """Keeps its place on the iterable, as torchdata's StatefulDataLoader does."""

    def __init__(self, array, size):
        self.array, self.size, self.start, self.position = array, size, 0, 0

    def __iter__(self):
        self.position = self.start
        while self.position < len(self.array):
            batch = self.array[self.position : self.position + self.size]
            self.position += self.size
            yield batch

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.start = state["position"]


def test_a_loader_with_state_dict_resumes(tmp_path):
    make = lambda: Loader(samples(8000), 33)  # noqa: E731
    undisturbed = rx.minimize(problem(make()), **settings("rsrm"))
    assert_same(undisturbed, crashed_and_resumed(make, "rsrm", tmp_path))


def test_a_state_that_no_checkpoint_can_hold_is_refused():
    class Odd(Stateful):
        def get_state(self):
            return object()

    with pytest.raises(ValueError, match="bytes or JSON"):
        as_source(Odd(samples(100), 10))


def test_the_header_is_plain_json(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=100)
    rx.minimize(problem(samples()), **settings("rsrm", checkpoint=checkpoint))
    content = Folder(checkpoint).file(STEPS).read_bytes()
    start = len(b"RETRAX CHECKPOINT\n") + 32
    length = int.from_bytes(content[start : start + 8], "little")
    header = json.loads(content[start + 8 : start + 8 + length])
    assert header["position"]["step"] == STEPS
    assert header["version"] == 2


def test_writing_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rx.minimize(problem(samples()), **settings("rsrm", checkpoint=Checkpoint(tmp_path, every=100)))
