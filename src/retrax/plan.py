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


@dataclasses.dataclass(frozen=True)
class Plan:
    """The schedule of a run."""

    steps: int | None
    """None: no end is planned."""
    batch_size: Callable[[int], int]
    constant_batch: bool
    large_batch_size: Callable[[int], int]
    restart_every: int | None
    cost: Callable[[int], int]
    """The SFO of a step on so many samples."""
    record_every: int | None
    checkpoint_every: int | None
    seed: int
    length: int
    """The most steps in a stretch: the size of the buffers."""
    room: int | None = None
    """The most samples in a stretch, where the host reads them."""

    def restarts_at(self, step: int) -> bool:
        """Whether this step takes a large batch; the first one always does."""
        return step == 1 or (self.restart_every is not None and (step - 1) % self.restart_every == 0)

    def records_at(self, step: int) -> bool:
        """Whether to measure after this step."""
        return self.record_every is not None and (step % self.record_every == 0 or step == self.steps)

    def checkpoints_at(self, step: int) -> bool:
        """Whether to write a checkpoint after this step."""
        return self.checkpoint_every is not None and (step % self.checkpoint_every == 0 or step == self.steps)

    def longest(self, batch_size: int) -> int:
        """The most steps in a stretch with this batch size."""
        return self.length if self.room is None else max(1, min(self.length, self.room // batch_size))

    def stretches(
        self,
        position: Position,
        last: int | None = None,
        pace: Callable[[], int] | None = None,
        keep_output: bool = True,
    ) -> Iterator[tuple[Stretch, bool, Position]]:
        """From `position` to step `last` (default: the end).

        Each is (stretch, whether to keep x as the output before it, position after it). `pace()` is the most steps at
        the moment. Without `keep_output` no iterate is kept, and no stretch is cut short for one.
        """
        end = min((bound for bound in (last, self.steps) if bound is not None), default=_NEVER)
        while position.step < end:
            first = position.step + 1
            keep = keep_output and self._next_output(position) == first
            if keep:
                position = dataclasses.replace(position, output_step=first, replacements=position.replacements + 1)
            if self.restarts_at(first):
                stretch = Stretch(first, 1, self.large_batch_size(first), True, position.samples)
            else:
                stop = min(end + 1, self._next_output(position) if keep_output else _NEVER)
                count = self._count(first, stop, self.length if pace is None else pace())
                stretch = Stretch(first, count, self.batch_size(first), False, position.samples)
            position = self.after(position, stretch)
            yield stretch, keep, position

    def after(self, position: Position, stretch: Stretch) -> Position:
        """The counters after a stretch."""
        drawn = 0 if stretch.restart else stretch.count * stretch.batch_size
        cost = stretch.batch_size if stretch.restart else stretch.count * self.cost(stretch.batch_size)
        return dataclasses.replace(
            position,
            step=stretch.first + stretch.count - 1,
            sfo=position.sfo + cost,
            samples=position.samples + drawn,
        )

    def shortened(self, after: Position, stretch: Stretch, count: int) -> tuple[Stretch, Position]:
        """The first `count` steps of a stretch, and the counters after them."""
        missing = stretch.count - count
        position = dataclasses.replace(
            after,
            step=after.step - missing,
            sfo=after.sfo - missing * self.cost(stretch.batch_size),
            samples=after.samples - missing * stretch.batch_size,
        )
        return dataclasses.replace(stretch, count=count), position

    def _next_output(self, position: Position) -> int:
        return sampling.next_output_step(self.seed, position.output_step, position.replacements)

    def _count(self, first: int, stop: int, pace: int) -> int:
        """Steps from `first` on until something happens, before step `stop`."""
        ends = [first + min(self.longest(self.batch_size(first)), pace), stop]
        if self.record_every is not None:
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


_NEVER = 2**62


def _next_multiple(at_least: int, of: int) -> int:
    return -(-at_least // of) * of
