"""Checkpoints under attack: forged files, odd names, full disks, two runs in one directory."""

import copy
import errno
import json
import os
import random
import warnings
from pathlib import Path

import numpy as np
import pytest

import retrax as rx
from retrax import _files
from retrax.checkpoint import Checkpoint, RefusedError, Snapshot, decode, encode

X = np.random.default_rng(0).standard_normal((200, 5))


def run(directory, data=X, resume=True, **others):
    """A short run on the sphere, the same in all tests of this file."""
    arguments = {"steps": 60, "record": 20, "checkpoint": Checkpoint(directory, every=20), "resume": resume, **others}
    return rx.minimize(rx.Problem(loss, rx.Sphere(5), data), rx.rsrm(0.1), **arguments)


def loss(x, batch):
    return -((batch @ x) ** 2).mean()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of a run, and its result."""
    directory = tmp_path_factory.mktemp("written")
    result = run(directory)
    return {path.name: path.read_bytes() for path in directory.iterdir()}, result


@pytest.fixture
def directory(written, tmp_path):
    for name, content in written[0].items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def forged(content, change):
    """The same file with its facts and arrays changed, and a right checksum."""
    snapshot = decode(content)
    facts, arrays = json.loads(json.dumps(snapshot.facts)), [array.copy() for array in snapshot.arrays]
    arrays = change(facts, arrays) or arrays
    return encode(Snapshot(arrays, facts))


def nan_point(facts, arrays):
    arrays[0][:] = np.nan


def off_the_sphere(facts, arrays):
    arrays[0][:] = 7.0


FORGED = {
    "no position": lambda facts, arrays: facts.pop("position") and None,
    "no history": lambda facts, arrays: facts.pop("history") and None,
    "no fingerprint": lambda facts, arrays: facts.update(fingerprint=[1]),
    "negative step": lambda facts, arrays: facts["position"].update(step=-1),
    "step in words": lambda facts, arrays: facts["position"].update(step="60"),
    "another counter": lambda facts, arrays: facts["position"].update(more=1),
    "a clock of NaN": lambda facts, arrays: facts.update(seconds=float("nan")),
    "no place": lambda facts, arrays: (facts.pop("place", None) and None) or facts.pop("place", None),
    "columns of numbers": lambda facts, arrays: facts.update(history=[1, 2]),
    "too few arrays": lambda facts, arrays: arrays[:3],
    "another shape": lambda facts, arrays: [arrays[0][:3], *arrays[1:]],
    "another dtype": lambda facts, arrays: [arrays[0].astype("f4"), *arrays[1:]],
    "a ragged history": lambda facts, arrays: [*arrays[:-1], arrays[-1][:-1]],
    "a point of NaN": nan_point,
    "a point off the sphere": off_the_sphere,
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_checkpoint_is_refused_and_the_one_before_used(kind, directory, written):
    newest = directory / "step-000000060.ckpt"
    newest.write_bytes(forged(newest.read_bytes(), FORGED[kind]))
    with pytest.warns(RuntimeWarning, match=r"step-000000060\.ckpt: it.*resuming from step-000000040"):
        assert np.array_equal(run(directory).x, written[1].x)


def headers():
    """Contents with a right checksum whose header makes no sense."""
    deep = b"[" * 100_000
    huge = json.dumps({"version": 2, "arrays": [{"dtype": "<f8", "shape": [2**40]}]}).encode()
    odd = [b"", b"{", b"[]", b"null", b"\xff\xfe", deep, huge, b'{"version": 2}', b'{"version": {}, "arrays": []}']
    odd += [json.dumps({"version": 2, "arrays": [kind]}).encode() for kind in (
        {}, 7, {"dtype": "O", "shape": [1]}, {"dtype": "?!", "shape": []}, {"dtype": "<f8", "shape": [-1]},
        {"dtype": "<f8", "shape": "ab"}, {"dtype": "V8", "shape": [0]}, {"dtype": "<f8", "shape": [1.5]},
    )]  # fmt: skip
    return odd


@pytest.mark.parametrize("header", headers())
def test_a_header_that_makes_no_sense_is_refused(header):
    from hashlib import sha256

    body = len(header).to_bytes(8, "little") + header
    with pytest.raises(RefusedError):
        decode(b"RETRAX CHECKPOINT\n" + sha256(body).digest() + body)


def test_damaged_files_are_refused(written):
    content = written[0]["step-000000060.ckpt"]
    generator = random.Random(0)
    for _ in range(int(os.environ.get("RETRAX_DAMAGED", "2000"))):
        damaged = bytearray(content)
        for _ in range(generator.randint(1, 3)):
            kind, place = generator.randrange(3), generator.randrange(len(damaged))
            if kind == 0:
                damaged[place] ^= 1 << generator.randrange(8)
            elif kind == 1:
                del damaged[place : place + generator.randint(1, 50)]
            else:
                damaged[place:place] = generator.randbytes(generator.randint(1, 50))
        if damaged != content:
            with pytest.raises(RefusedError):
                decode(bytes(damaged))


ODD = (None, True, -1, 0, 2**70, 1e308, float("nan"), "", "7", "step", [], [[]], [1, "a"], {}, {"step": 1})
CHANGES = (
    lambda array: array[..., None],
    lambda array: array.ravel()[1:],
    lambda array: np.zeros(array.shape, "f4"),
    lambda array: np.ones(array.shape, "c16"),
    lambda array: np.zeros_like(array),
    lambda array: (1e300 * array).astype(array.dtype),
    lambda array: (np.nan * array).astype(array.dtype),
)


def tampered(content, choice):
    """A file with some of its facts or arrays changed at random, and a right checksum."""
    snapshot = decode(content)
    facts, arrays = json.loads(json.dumps(snapshot.facts)), list(snapshot.arrays)
    for _ in range(choice.choice([1, 1, 2, 4])):
        if choice.random() < 0.6:
            inside, key = facts, choice.choice(sorted(facts))
            while isinstance(inside[key], dict) and inside[key] and choice.random() < 0.7:
                inside = inside[key]
                key = choice.choice(sorted(inside))
            inside[key] = copy.deepcopy(choice.choice(ODD))
            if choice.random() < 0.2:
                inside[f"not {key}"] = inside.pop(key)
        else:
            at = choice.randrange(len(arrays))
            with np.errstate(all="ignore"):
                arrays[at] = choice.choice(CHANGES)(arrays[at])
            if choice.random() < 0.2:
                choice.choice([arrays.reverse, lambda: arrays.append(arrays[0]), lambda: arrays.pop(-2)])()
    return encode(Snapshot(arrays, facts))


def test_tampered_files_are_refused_or_give_a_sound_result(directory):
    """RETRAX_TAMPERED sets how many there are; a number is the seed of its file."""
    last = directory / "step-000000060.ckpt"
    whole, refused = last.read_bytes(), 0
    count = int(os.environ.get("RETRAX_TAMPERED", "100"))
    for number in range(count):
        for path in directory.glob("*.ckpt"):
            path.unlink()
        last.write_bytes(tampered(whole, random.Random(number)))
        try:
            result = run(directory)
        except ValueError as error:
            refused += 1
            assert "resume" in str(error), number  # noqa: PT017
        except Exception as error:
            pytest.fail(f"file {number}: {type(error).__name__}: {error}")
        else:
            assert abs(np.linalg.norm(result.x) - 1) < 1e-6, number
    assert refused > count / 2


def test_what_only_looks_like_a_checkpoint_is_passed_over(directory, written):
    (directory / "step-000000099.ckpt").mkdir()
    (directory / "step-000000098.ckpt").symlink_to(directory / "nowhere")
    (directory / "step-0000000000097.ckpt").write_bytes(b"odd")
    (directory / "step-٠٠٠٠٠٠٠٩٦.ckpt").write_bytes(b"odd")
    assert np.array_equal(run(directory).x, written[1].x)


def test_a_file_that_cannot_be_read_is_passed_over(directory, written, monkeypatch):
    def failing(original):
        def fail(path, **options):
            if path.name == "step-000000060.ckpt":
                raise OSError(errno.EIO, "Input/output error")
            return original(path, **options)

        return fail

    for name in ("stat", "read_bytes"):  # not even whether it is there can be seen
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))
    with pytest.warns(RuntimeWarning, match=r"Input/output error.*resuming from step-000000040"):
        assert np.array_equal(run(directory).x, written[1].x)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_in_the_middle_costs_no_result(call, number, tmp_path, monkeypatch, written):
    original, done = getattr(os, call), []

    def fail(*arguments):
        done.append(call)
        if len(done) > 4 * (2 if call == "fsync" else 1):
            raise OSError(number, os.strerror(number))
        return original(*arguments)

    monkeypatch.setattr(_files.os, call, fail)
    with pytest.warns(RuntimeWarning, match=f"could not be written.*{os.strerror(number)}.*goes on") as caught:
        result = run(tmp_path, steps=200)
    assert result.steps == 200
    assert os.strerror(number) in result.detail
    assert caught
    assert not list(tmp_path.glob(_files.TEMPORARY))
    monkeypatch.undo()
    again = run(tmp_path, steps=200)
    assert np.array_equal(again.x, result.x)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_directory_that_cannot_be_written_into_is_refused_at_the_start(number, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_files.os, "fsync", fail)
    with pytest.raises(ValueError, match=f"no checkpoint can be written into .*{os.strerror(number)}"):
        run(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="no checkpoint can be written into"):
        run(tmp_path / "file")


def test_two_runs_in_one_directory_are_refused(tmp_path, written):
    def second(step, _):
        with pytest.raises(ValueError, match="another run is writing checkpoints into"):
            run(tmp_path)

    first = run(tmp_path, on_record=second)
    assert np.array_equal(first.x, written[1].x)
    assert np.array_equal(run(tmp_path).x, written[1].x)  # and the directory is free afterwards


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Where a first run has had its temporary files, the next finds links to a file of somebody's."""
    original, names = os.replace, []

    def watched(source, target):
        names.append(Path(source).name)
        original(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(_files.os, "replace", watched)
        run(tmp_path / "first")
    victim = tmp_path / "victim"
    victim.write_text("untouched")

    def plant(step, _):
        if step == 0:
            for name in names:
                (tmp_path / "second" / name).symlink_to(victim)

    assert run(tmp_path / "second", on_record=plant).steps == 60
    assert len(names) >= 3
    assert victim.read_bytes() == b"untouched"


@pytest.mark.parametrize("switched", [True, False], ids=["on", "off"])
def test_other_columns_are_refused(switched, tmp_path):
    run(tmp_path, record=rx.Record(every=20, estimator_error=not switched))
    with pytest.raises(ValueError, match=f"estimator_error is {not switched} and not {switched}"):
        run(tmp_path, record=rx.Record(every=20, estimator_error=switched))


def test_another_stream_is_refused(tmp_path):
    other = np.concatenate([X[:150], -2 * X[150:]])
    stream = lambda array: rx.Stream(np.tile(array, (5, 1)), samples=True, deterministic=True)  # noqa: E731
    run(tmp_path, data=stream(X))
    assert run(tmp_path, data=stream(X), steps=80).steps == 80
    with pytest.raises(ValueError, match="other samples than when the checkpoint was written"):
        run(tmp_path, data=stream(other), steps=100)


def test_a_stream_whose_samples_cannot_be_compared_says_so(tmp_path):
    class Stateful:
        """An iterator that knows its place."""

        place = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.place += 10
            return X[(self.place - 10) % 200 :][:10]

        def get_state(self):
            return str(self.place).encode()

        def set_state(self, state):
            self.place = int(state)

    with pytest.warns(RuntimeWarning, match="cannot tell the samples of a stream that keeps its own place"):
        run(tmp_path, data=Stateful())
    header = (tmp_path / "step-000000060.ckpt").read_bytes()
    assert b"keeps its own place" in header


def test_a_good_run_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tmp_path)
