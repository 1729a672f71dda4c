"""Samples that are made up as they are needed, such as relations with random negatives."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from retrax import sampling
from retrax.sources.base import Payload, Samples, Source, Stretch, device_dtype, in_order, template_of
from retrax.typing import Batch

_EVALUATION_BYTES = 2**20
"""Records are measured on so much, unless a number of samples is asked for."""


class Generated:
    """Data that `draw(generator, count)` makes: a batch of so many samples from a NumPy random generator.

    They are drawn in blocks of `block`, each from a generator of its own that the seed of the run and the number of the
    block determine: the same seed gives the same samples, and a run that is resumed needs no skipping.
    """

    def __init__(self, draw: Callable[[np.random.Generator, int], Batch], block: int = 64) -> None:
        if not callable(draw):
            raise TypeError(f"draw must be a function of a generator and a number of samples, not {draw!r}")
        self.draw, self.block = draw, block


class GeneratedSource(Source):
    """The samples of a `Generated`. There is no n."""

    resident: ClassVar[bool] = False
    size: ClassVar[None] = None  # type: ignore[misc]

    def __init__(self, generated: Generated) -> None:
        self.generated = generated
        self.template = template_of(generated.draw(sampling.sample_generator(0, "records", 0), 1))

    def feed(self, seed: int, dtype: str, evaluation_samples: int | None, place: Any = None) -> "_GeneratedFeed":
        """Start drawing; where a run is follows from the number of samples drawn before."""
        return _GeneratedFeed(self, seed, dtype, evaluation_samples)

    def digest(self) -> str:
        """A function has none."""
        return ""


class _GeneratedFeed:
    def __init__(self, source: GeneratedSource, seed: int, dtype: str, samples: int | None) -> None:
        self.source, self.seed, self.dtype, self.samples = source, seed, dtype, samples
        self._last: tuple[int, Batch] = (-1, None)

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Payload]:
        payload = self.blank(stretch, length)
        if stretch.restart:
            return 1, Samples(self._drawn("restarts", stretch.first, stretch.batch_size), None)
        done, wanted, size = 0, stretch.count * stretch.batch_size, self.source.generated.block
        while done < wanted:
            number, skip = divmod(stretch.samples_before + done, size)
            part = jax.tree.map(lambda a, skip=skip, most=wanted - done: a[skip : skip + most], self._block(number))
            jax.tree.map(lambda target, a, at=done: target.__setitem__(slice(at, at + len(a)), a), payload.data, part)
            done += len(jax.tree.leaves(part)[0])
        return stretch.count, payload

    def blank(self, stretch: Stretch, length: int) -> Samples:
        return in_order(self.source, stretch, length, self.dtype)

    def place(self) -> Any:
        return {}

    def evaluation(self) -> tuple[Payload, bool]:
        count = self.samples or max(1, _EVALUATION_BYTES // self.source.sample_bytes(self.dtype))
        return Samples(self._drawn("records", 0, count), None), False

    def _block(self, number: int) -> Batch:
        """A block of the mini-batches' samples; the last one is kept, since stretches end anywhere in it."""
        if self._last[0] != number:
            self._last = number, self._drawn("steps", number, self.source.generated.block)
        return self._last[1]

    def _drawn(self, purpose: str, block: int, count: int) -> Batch:
        batch = self.source.generated.draw(sampling.sample_generator(self.seed, purpose, block), count)
        return jax.tree.map(lambda a: np.asarray(a, dtype=device_dtype(a.dtype, self.dtype)), batch)
