"""The feeds of several runs as one: their payloads side by side, with a leading axis that counts runs."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from retrax.sources.base import Feed, LargeBatch, Payload, Stretch


class SeveralFeeds:
    """One feed for each seed, repeated for each step size: run number s + k·seeds reads as seed s does."""

    def __init__(self, feeds: Sequence[Feed], copies: int) -> None:
        self.feeds, self.copies = feeds, copies

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Any]:
        """The payloads of all runs; the samples suffice for as many steps as they do for every one of them."""
        found = [feed.payload(stretch, length) for feed in self.feeds]
        return min(count for count, _ in found), self._together([payload for _, payload in found])

    def blank(self, stretch: Stretch, length: int) -> Any:
        """Payloads of the same shapes."""
        return self._together([feed.blank(stretch, length) for feed in self.feeds])

    def place(self) -> Any:
        """Where each feed is; None if one cannot be wound forward."""
        places = [feed.place() for feed in self.feeds]
        return None if None in places else places

    def evaluation(self) -> tuple[Payload, bool]:
        """All runs are measured on the same samples."""
        return self.feeds[0].evaluation()

    def _together(self, payloads: list[Payload]) -> Any:
        if isinstance(payloads[0], LargeBatch):
            return payloads * self.copies
        return jax.tree.map(lambda *leaves: np.concatenate([np.stack(leaves)] * self.copies), *payloads)


class SharedFeed:
    """One stream for several runs, which all see the same samples in the same order."""

    def __init__(self, feed: Feed, runs: int) -> None:
        self.feed, self.runs = feed, runs

    def payload(self, stretch: Stretch, length: int) -> tuple[int, Any]:
        """The samples once, and their numbers for each run."""
        count, payload = self.feed.payload(stretch, length)
        return count, self._repeated(payload)

    def blank(self, stretch: Stretch, length: int) -> Any:
        """A payload of the same shapes."""
        return self._repeated(self.feed.blank(stretch, length))

    def place(self) -> Any:
        """Where the stream is."""
        return self.feed.place()

    def evaluation(self) -> tuple[Payload, bool]:
        """All runs are measured on the same samples."""
        return self.feed.evaluation()

    def _repeated(self, payload: Payload) -> Any:
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (self.runs, *leaf.shape)), payload)
