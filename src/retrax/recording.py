"""What is measured during a run, and the table it ends up in. Measuring stands outside the clock and the SFO count."""

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class Status(enum.Enum):
    """How a run ended."""

    MAX_STEPS = "max_steps"
    CONVERGED = "converged"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    STREAM_ENDED = "stream_ended"

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Record:
    """When and what to measure.

    `every`: measure every so many steps (None: about `points` times in the run). `estimator_error`: also
    ‖d_t - grad F(x_t)‖. `samples`: measure on a fixed random sample of this size instead of all the data; None means
    all the data where they are in memory, and 10 000 samples where they are not.
    """

    every: int | None = None
    points: int = 100
    estimator_error: bool = False
    samples: int | None = None

    def __post_init__(self) -> None:
        for name in ("every", "points", "samples"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if value is not None and not (whole and value >= 1):
                raise ValueError(f"Record: {name} must be a positive integer, not {value!r}")

    def interval(self, steps: int) -> int:
        """Steps between two measurements."""
        return int(self.every) if self.every is not None else max(1, steps // self.points)


COLUMNS = (
    "step",
    "sfo",
    "seconds",
    "loss",
    "gap",
    "gradient_norm",
    "violation",
    "direction_norm",
    "estimator_error",
)


class History(Mapping[str, np.ndarray]):
    """A table with one row for each measurement; `history["loss"]` is a NumPy column.

    `exact` says whether loss and gradient norm are over all the data, or estimated on a fixed sample of it.
    """

    def __init__(self, rows: list[dict[str, float]] | None = None, *, exact: bool = True) -> None:
        self.rows: list[dict[str, float]] = list(rows or [])
        self.exact = exact

    def append(self, row: dict[str, float]) -> None:
        """Add a measurement."""
        self.rows.append(row)

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in self:
            raise KeyError(f"no column {column!r}; there are {', '.join(self)}")
        kind = np.int64 if column in ("step", "sfo") else np.float64
        return np.array([row[column] for row in self.rows], dtype=kind)

    def __contains__(self, column: object) -> bool:
        return bool(self.rows) and column in self.rows[0]

    def __iter__(self) -> Iterator[str]:
        return iter([column for column in COLUMNS if column in self])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"History({len(self.rows)} records: {', '.join(self)})"


@dataclasses.dataclass(frozen=True)
class Result:
    """What `minimize` returns."""

    x: Any
    """The last iterate (of a diverged run: the last good one that was recorded)."""
    output: Any
    """Algorithm 1's output: one of the iterates x_1, ..., x_T, drawn uniformly."""
    history: History
    sfo: int
    """Stochastic first-order oracle calls spent: one per sample and point."""
    steps: int
    status: Status
    detail: str
    """When and why the run ended, for people."""
    seconds: float
    """Run time, without compiling and without measuring."""
    compile_seconds: float

    def __repr__(self) -> str:
        last = self.history.rows[-1] if self.history.rows else {}
        loss = f", loss={last['loss']:.6g}" if "loss" in last else ""
        return (
            f"Result(status={self.status.value}, steps={self.steps}, sfo={self.sfo}{loss}, seconds={self.seconds:.3g})"
        )
