"""Which steps a run takes, when it restarts, records and keeps an iterate: all of it arithmetic, known in advance.

A run is cut into stretches: steps that one compiled loop can do without coming up for air.
"""

import dataclasses
from collections.abc import Callable, Iterator

from retrax import sampling
from retrax.sources import Stretch


@dataclasses.dataclass(frozen=True)
class Position:
    """The counters of a run. With the seed they determine all that follows."""

    step: int = 0
    sfo: int = 0
    samples: int = 0
    """Mini-batch samples drawn."""
    output_step: int = 0
    """The step whose iterate is kept as Algorithm 1's output."""
    replacements: int = 0
    """How often that iterate has been replaced."""


@dataclasses.dataclass
class Plan:
    """The schedule of a run."""

    steps: int
    batch_size: Callable[[int], int]
    constant_batch: bool
    large_batch_size: Callable[[int], int]
    restart_every: int | None
    evaluations: int
    record_every: int
    checkpoint_every: int | None
    seed: int
    length: int
    """The most steps in a stretch: the size of the buffers."""
    pace: int
    """The most steps at the moment, so that a slow run still answers to Ctrl-C; the driver's loop sets it."""
    room: int | None = None
    """The most samples in a stretch, where the host reads them."""

    def restarts_at(self, step: int) -> bool:
        """Whether this step takes a large batch; the first one always does."""
        return step == 1 or (self.restart_every is not None and (step - 1) % self.restart_every == 0)

    def records_at(self, step: int) -> bool:
        """Whether to measure after this step."""
        return step % self.record_every == 0 or step == self.steps

    def checkpoints_at(self, step: int) -> bool:
        """Whether to write a checkpoint after this step."""
        return self.checkpoint_every is not None and (step % self.checkpoint_every == 0 or step == self.steps)

    def longest(self, batch_size: int) -> int:
        """The most steps in a stretch with this batch size."""
        return self.length if self.room is None else max(1, min(self.length, self.room // batch_size))

    def stretches(self, position: Position, keep_output: bool = True) -> Iterator[tuple[Stretch, bool, Position]]:
        """From `position` to the end: (stretch, whether to keep x as the output before it, position after it).

        Without `keep_output` no iterate is kept, and no stretch is cut short for one.
        """
        while position.step < self.steps:
            first = position.step + 1
            keep = keep_output and self._next_output(position) == first
            if keep:
                position = dataclasses.replace(position, output_step=first, replacements=position.replacements + 1)
            if self.restarts_at(first):
                stretch = Stretch(first, 1, self.large_batch_size(first), True, position.samples)
            else:
                next_output = self._next_output(position) if keep_output else self.steps + 1
                stretch = Stretch(
                    first, self._count(first, next_output), self.batch_size(first), False, position.samples
                )
            position = self.after(position, stretch)
            yield stretch, keep, position

    def after(self, position: Position, stretch: Stretch) -> Position:
        """The counters after a stretch."""
        drawn = 0 if stretch.restart else stretch.count * stretch.batch_size
        cost = stretch.batch_size if stretch.restart else drawn * self.evaluations
        return dataclasses.replace(
            position,
            step=stretch.first + stretch.count - 1,
            sfo=position.sfo + cost,
            samples=position.samples + drawn,
        )

    def shortened(self, after: Position, stretch: Stretch, count: int) -> tuple[Stretch, Position]:
        """The first `count` steps of a stretch, and the counters after them."""
        missing = (stretch.count - count) * stretch.batch_size
        position = dataclasses.replace(
            after,
            step=after.step - (stretch.count - count),
            sfo=after.sfo - missing * self.evaluations,
            samples=after.samples - missing,
        )
        return dataclasses.replace(stretch, count=count), position

    def _next_output(self, position: Position) -> int:
        return sampling.next_output_step(self.seed, position.output_step, position.replacements)

    def _count(self, first: int, next_output: int) -> int:
        """Steps from `first` on until something happens."""
        ends = [first + min(self.longest(self.batch_size(first)), self.pace), self.steps + 1, next_output]
        ends.append(_next_multiple(first, self.record_every) + 1)
        if self.checkpoint_every is not None:
            ends.append(_next_multiple(first, self.checkpoint_every) + 1)
        if self.restart_every is not None:
            ends.append(_next_multiple(first - 1, self.restart_every) + 1)
        count = min(ends) - first
        if not self.constant_batch:
            size = self.batch_size(first)
            count = next((k for k in range(1, count) if self.batch_size(first + k) != size), count)
        return count


def _next_multiple(at_least: int, of: int) -> int:
    return -(-at_least // of) * of
