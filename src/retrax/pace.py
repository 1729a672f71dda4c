"""How many steps a compiled loop takes at once: few enough to be interrupted, enough to be worth beginning."""

SECONDS_OF_STEPS, MOST_SECONDS_OF_STEPS = 0.25, 4.0
"""So long the steps of a stretch should take: a run answers to Ctrl-C, and its bar moves, between two stretches."""

TIMES_OVERHEAD = 4
"""Up to `MOST_SECONDS_OF_STEPS` they may take so many times as long as what begins and ends a stretch.

That takes long for large points.
"""

MOST_STEPS = 10**6


class Pace:
    """The most steps in the next stretch, learned from the last ones: seconds = overhead + steps × each."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._overhead: float | None = None
        self._before: tuple[int, float] | None = None

    def took(self, count: int, seconds: float) -> None:
        """Learn from a stretch."""
        self._learn_overhead(count, seconds)
        overhead = self._overhead or 0.0
        wanted = max(SECONDS_OF_STEPS, min(TIMES_OVERHEAD * overhead, MOST_SECONDS_OF_STEPS))
        steps = _steps(count, max(seconds - overhead, seconds / 20), wanted)
        if self._overhead is None and steps == count:
            steps = 2 * count  # Stretches of one length do not tell overhead from steps.
        # What rests on the overhead, which may be misjudged, is tried in small leaps from what was already allowed.
        self.steps = min(steps, max(self.steps, 4 * count, _steps(count, seconds, SECONDS_OF_STEPS)))

    def _learn_overhead(self, count: int, seconds: float) -> None:
        """From this stretch and the one before, where their lengths differ enough."""
        if self._before is not None:
            fewer, more = sorted([self._before, (count, seconds)])
            if more[0] >= 2 * fewer[0]:
                each = (more[1] - fewer[1]) / (more[0] - fewer[0])
                self._overhead = max(0.0, min(fewer[1] - each * fewer[0], fewer[1], more[1]))
        self._before = count, seconds


def _steps(count: int, seconds: float, wanted: float) -> int:
    """How many steps take as long as wanted, if `count` take so many seconds."""
    return max(1, min(MOST_STEPS, int(wanted * count / max(seconds, 1e-9))))
