"""Streams: any iterable of batches or of samples, used once and in order, cut anew into the batches of the plan."""

import base64
import collections
import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import jax
import numpy as np

from retrax.sources.base import Samples, Source, Stretch, check_numbers, check_range, first_not_finite, template_of
from retrax.sources.digest import digest_rows, digest_text
from retrax.typing import Batch

_GROUP = 256
"""So many single samples are stacked before they are looked at."""

_SAVE_AND_RESTORE = (("get_state", "set_state"), ("state_dict", "load_state_dict"), ("state", "restore"))
"""What loaders call them: Grain; torchdata and Hugging Face datasets; plain names for one's own."""

_END = object()


class Stream:
    """An iterable of batches as data: a generator, a torch DataLoader, a Hugging Face dataset's `.iter(...)`, ...

    A batch is an array or a tuple, list or dict of arrays (NumPy's, JAX's or PyTorch's) whose leading axis counts
    samples. samples=True: the iterable gives single samples instead. deterministic=True: iterating over it again gives
    the same samples, so a run can be resumed by skipping; a stream with get_state/set_state needs no such promise.
    """

    def __init__(self, iterable: Iterable[Any], *, samples: bool = False, deterministic: bool = False) -> None:
        if not hasattr(iterable, "__iter__") or isinstance(iterable, type) or getattr(iterable, "ndim", 1) == 0:
            raise TypeError(f"a Stream needs something to iterate over, not {type(iterable).__name__}")
        if deterministic and hasattr(iterable, "__next__"):
            raise ValueError(
                "deterministic=True promises that the stream can be iterated over again, but an iterator or generator "
                "cannot; give an object whose __iter__ starts anew"
            )
        self.iterable, self.samples, self.deterministic = iterable, samples, deterministic


class StreamSource(Source):
    """The samples of a `Stream`. There is no n."""

    resident: ClassVar[bool] = False
    size: ClassVar[None] = None  # type: ignore[misc]

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._opened = _Batches(stream)
        self._fresh = True
        first = self._opened.peek()
        self.template = template_of(first)
        self._first = digest_text([digest_rows(leaf[:1]) for leaf in jax.tree.leaves(first)])
        if not stream.deterministic:
            self.unchecked = "the samples of a stream that keeps its own place"

    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> "_StreamFeed":
        """Start reading; only something that can be iterated over again can be read by a second run."""
        if not self._fresh:
            if hasattr(self.stream.iterable, "__next__"):
                raise ValueError("an earlier run has read from this stream, which cannot start anew; give a new one")
            self._opened = _Batches(self.stream)
            self._opened.template = self.template
        self._fresh = False
        return _StreamFeed(self, self._opened, dtype, self.evaluation_samples(evaluation_samples, dtype), place)

    def digest(self) -> str:
        """A checksum of the first sample: more would have to be used up. See also `_Batches.place`."""
        return self._first


class _StreamFeed:
    def __init__(self, source: StreamSource, batches: "_Batches", dtype: str, samples: int, place: Any) -> None:
        self.source, self.batches, self.dtype = source, batches, dtype
        # Records are measured on the first samples, which the run then uses like all others.
        count, held = self._take(samples, samples)
        self._held = jax.tree.map(lambda a: a[:count], held)
        self.batches.put_back(held, count)
        self.batches.begin(held)
        if place is not None:
            self.batches.go_to(place)

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Samples]:
        size = stretch.batch_size
        length = 1 if stretch.restart else length
        count, batch = self._take(stretch.count * size, length * size)
        self.batches.used -= count % size  # too few for a batch, at the end of the stream
        self.batches.note(jax.tree.leaves(batch), count - count % size)
        if stretch.restart:
            return count // size, Samples(batch, None)
        indices = np.arange(length * size, dtype=np.int32).reshape(length, size)
        return count // size, Samples(batch, indices)

    def blank(self, stretch: Stretch, length: int) -> Samples:
        size = stretch.batch_size
        if stretch.restart:
            return Samples(self.source.empty(size, self.dtype), None)
        return Samples(self.source.empty(length * size, self.dtype), np.zeros((length, size), dtype=np.int32))

    def place(self) -> Any:
        return self.batches.place()

    def evaluation(self) -> tuple[Samples, bool]:
        return Samples(self._held, None), False

    def _take(self, count: int, room: int) -> tuple[int, Batch]:
        """Up to `count` samples, in arrays with `room` rows."""
        batch = self.source.empty(room, self.dtype)
        targets = jax.tree.leaves(batch)
        done = 0
        while done < count:
            leaves = self.batches.next_leaves(count - done)
            if leaves is None:
                break
            for target, leaf in zip(targets, leaves, strict=True):
                check_range(leaf, target.dtype, "the stream")
                target[done : done + len(leaf)] = leaf
            done += len(leaves[0])
        return done, batch


class _Batches:
    """The batches of a stream one after the other, checked, with their place in the stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.template: Batch = None
        self.used = 0
        """Samples handed out."""
        self._open(None)

    def _open(self, state: Any) -> None:
        iterable = self.stream.iterable
        if state is not None and not hasattr(iterable, "__next__"):
            _restore(iterable, state)
        self._iterator = iter(iterable)
        if state is not None:
            _restore(self._iterator, state)
        self._seen = 0
        """Samples received from the stream."""
        self._rest: list[np.ndarray] | None = None
        """Samples received and not yet handed out."""
        self._marks: collections.deque[tuple[int, Any]] = collections.deque()
        """(samples before, the stream's state) for the batches received."""
        self._first: Any = None

    def begin(self, like: Batch) -> None:
        """Count from here on what the run uses, in the dtypes that it uses."""
        self._dtypes = [leaf.dtype for leaf in jax.tree.leaves(like)]
        self._digests = [0] * len(self._dtypes)

    def note(self, leaves: list[np.ndarray], count: int) -> None:
        """The last `count` samples handed out are in the first rows of these arrays: add them to the checksum."""
        for i, leaf in enumerate(leaves):
            self._digests[i] = (self._digests[i] + digest_rows(leaf[:count], self.used - count)) % 2**64

    def peek(self) -> Batch:
        """The first batch, which stays the next one; it settles structure, shapes and dtypes."""
        element = self._next_element()
        if element is _END:
            raise ValueError("the stream gave no samples")
        self._first = to_arrays(element, "the stream's first batch")
        for leaf in jax.tree.leaves(self._first):
            if leaf.ndim < 1 or leaf.dtype.kind not in "fiub":
                what = "a number" if leaf.dtype.kind in "fiub" else f"dtype {leaf.dtype}"
                raise ValueError(
                    f"the stream must give batches of numbers whose leading axis counts samples; the first one holds "
                    f"{what}. For an iterable of single samples use retrax.Stream(iterable, samples=True)"
                )
        self.template = template_of(self._first)
        return self._first

    def next_leaves(self, most: int) -> list[np.ndarray] | None:
        """The leaves of the next samples, at most so many; None at the end."""
        leaves, self._rest = self._rest, None
        while leaves is None or len(leaves[0]) == 0:
            leaves = self._receive()
            if leaves is None:
                return None
        if len(leaves[0]) > most:
            # Views will do: the stream, which may fill one buffer again and again, is not asked before they are used.
            self._rest = [leaf[most:] for leaf in leaves]
            leaves = [leaf[:most] for leaf in leaves]
        self.used += len(leaves[0])
        return leaves

    def put_back(self, batch: Batch, count: int) -> None:
        """The first `count` samples of a batch were only looked at: they come next."""
        rest = self._rest
        self._rest = jax.tree.leaves(jax.tree.map(lambda a: a[:count], batch))
        if rest is not None:
            self._rest = [np.concatenate(pair) for pair in zip(self._rest, rest, strict=True)]
        self.used -= count

    def _receive(self) -> list[np.ndarray] | None:
        element, self._first = self._first, None
        if element is None:
            element = self._next_element()
        if element is _END:
            return None
        leaves = self._checked(element)
        self._seen += len(leaves[0])
        return leaves

    def _next_element(self) -> Any:
        state = self._state()
        if state is not None:
            self._marks.append((self._seen, state))
        if not self.stream.samples:
            return next(self._iterator, _END)
        group = [element for _, element in zip(range(_GROUP), self._iterator, strict=False)]
        return self._stacked(group) if group else _END

    def _stacked(self, group: list[Any]) -> Batch:
        trees = [to_arrays(element, f"sample {self._seen + i} of the stream") for i, element in enumerate(group)]
        shapes = [jax.tree.map(lambda a: (a.shape, str(a.dtype)), tree) for tree in trees]
        for i, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"sample {self._seen + i} of the stream is of another kind than sample {self._seen}: "
                    f"{shape} instead of {shapes[0]}"
                )
        return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)

    def _checked(self, element: Any) -> list[np.ndarray]:
        where = f"the stream's batch that starts with sample {self._seen}"
        return check_batch(element, self.template, where, lambda bad: f"sample {self._seen + bad} of the stream")

    def _state(self) -> Any:
        """The stream's own account of where it is, if it gives one."""
        for owner in (self._iterator, self.stream.iterable):
            for save, restore in _SAVE_AND_RESTORE:
                if hasattr(owner, save) and hasattr(owner, restore):
                    return _to_json(getattr(owner, save)())
        return None

    def place(self) -> Any:
        """Where the next sample to be handed out is, and a checksum of those before it."""
        while len(self._marks) > 1 and self._marks[1][0] <= self.used:
            self._marks.popleft()
        if self._marks and self._marks[0][1] is not None:
            start, state = self._marks[0]
            return {"used": self.used, "start": start, "state": state, "digests": list(self._digests)}
        return {"used": self.used, "digests": list(self._digests)} if self.stream.deterministic else None

    def go_to(self, place: Any) -> None:
        """Wind the stream to a place; its first samples have been looked at already."""
        if "state" in place:
            self._open(place["state"])
            self._seen = self.used = place["start"]
            self._skip(place["used"] - self.used)
            self._digests = list(place["digests"])
            return
        if not self.stream.deterministic:
            raise ValueError("the checkpoint was written by a deterministic stream, and this one does not promise it")
        self._skip(place["used"])
        if self._digests != place["digests"]:
            raise ValueError("the stream gives other samples than when the checkpoint was written")

    def _skip(self, count: int) -> None:
        while count > 0:
            leaves = self.next_leaves(count)
            if leaves is None:
                raise ValueError("the stream is shorter than when the checkpoint was written")
            converted = [leaf.astype(dtype) for leaf, dtype in zip(leaves, self._dtypes, strict=True)]
            self.note(converted, len(leaves[0]))
            count -= len(leaves[0])


def check_batch(
    element: Any, template: Batch, where: str, name: Callable[[int], str] = lambda bad: f"sample {bad} of the batch"
) -> list[np.ndarray]:
    """The leaves of a batch as NumPy arrays; ValueError unless it is of the template's kind, and finite."""
    batch = to_arrays(element, where)
    structure: Any = jax.tree.structure(batch)
    if structure != jax.tree.structure(template):
        raise ValueError(f"{where} has another structure than the first one")
    leaves = jax.tree.leaves(batch)
    for leaf, expected in zip(leaves, jax.tree.leaves(template), strict=True):
        if leaf.shape[1:] != expected.shape[1:] or leaf.ndim != expected.ndim:
            raise ValueError(
                f"{where} has shape {leaf.shape}, but samples must have shape {expected.shape[1:]} as in the first"
            )
        if leaf.dtype != expected.dtype:
            raise ValueError(f"{where} has dtype {leaf.dtype}, but the first one had {expected.dtype}")
        if len(leaf) != len(leaves[0]):
            raise ValueError(f"{where} has arrays with different numbers of samples")
        bad = first_not_finite(leaf)
        if bad is not None:
            raise ValueError(f"{name(bad)} contains NaN or infinite values")
    return leaves


def _is_leaf(node: Any) -> bool:
    """A list of numbers is an array; a list of arrays is a batch of several parts."""
    return isinstance(node, list) and not any(hasattr(item, "shape") for item in node)


def to_arrays(element: Any, where: str) -> Batch:
    """A batch or sample as NumPy arrays."""
    try:
        return jax.tree.map(_to_numpy, element, is_leaf=_is_leaf)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} cannot be made into arrays: {error}") from None


def _to_numpy(leaf: Any) -> np.ndarray:
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
    return check_numbers(leaf)


def _to_json(state: Any) -> Any:
    try:
        return {"bytes": base64.b64encode(state).decode()} if isinstance(state, bytes) else {"json": json.dumps(state)}
    except TypeError as error:
        raise ValueError(
            f"the stream's state cannot be kept in a checkpoint, which holds bytes or JSON: {error}"
        ) from None


def _restore(owner: Any, saved: Any) -> None:
    state = base64.b64decode(saved["bytes"]) if "bytes" in saved else json.loads(saved["json"])
    for save, restore in _SAVE_AND_RESTORE:
        if hasattr(owner, save) and hasattr(owner, restore):
            getattr(owner, restore)(state)
            return
