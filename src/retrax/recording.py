"""What is measured during a run, and the table it ends up in. Measuring stands outside the clock and the SFO count."""

import dataclasses
import enum
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from retrax import _html
from retrax._arguments import integer
from retrax._extras import optional


class Status(enum.Enum):
    """How a run ended."""

    RUNNING = "running"
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
            if getattr(self, name) is not None:
                integer(getattr(self, name), f"Record: {name}", least=1)

    def interval(self, steps: int | None) -> int | None:
        """Steps between two measurements; None for a run without a planned end that says nothing of them."""
        if self.every is not None or steps is None:
            return None if self.every is None else int(self.every)
        return max(1, steps // self.points)


def finite(tree: Any) -> bool:
    """Whether all numbers in NumPy arrays are finite."""
    return all(bool(np.all(np.isfinite(leaf))) for leaf in jax.tree.leaves(tree))


def off_manifold(x: Any) -> float:
    """The violation from which on a point is taken to have left its manifold: 10 √ε, far above what rounding does."""
    return 10 * max(float(np.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(x)) ** 0.5


COLUMNS = (
    "step",
    "sfo",
    "seconds",
    "loss",
    "gap",
    "gradient_norm",
    "violation",
    "direction_norm",
    "step_size",
    "rho",
    "estimated_error",
    "estimator_error",
    "average_loss",
    "average_gap",
)

Row = dict[str, Any]
"""One measurement: a number for each column, or an array with one for each run of a sweep."""


class History(Mapping[str, np.ndarray]):
    """A table with one row for each measurement; `history["loss"]` is a NumPy column.

    `exact` says whether loss and gradient norm are over all the data, or estimated on a fixed sample of it.
    """

    def __init__(self, rows: list[Row] | None = None, *, exact: bool = True) -> None:
        self.rows: list[Row] = list(rows or [])
        self.exact = exact

    def append(self, row: Row) -> None:
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
        known = [column for column in COLUMNS if column in self]
        others = [column for column in self.rows[0] if column not in COLUMNS] if self.rows else []
        return iter(known + others)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame with one row for each record."""
        return optional("pandas").DataFrame({column: self[column] for column in self})

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
    """The last record is of `x`; only a diverged run's shows what was found after it."""
    sfo: int
    """Stochastic first-order oracle calls spent: one per sample and point."""
    steps: int
    status: Status
    detail: str
    """When and why the run ended, for people."""
    seconds: float
    """Run time, without compiling and without measuring."""
    compile_seconds: float
    average: Any = None
    """The average of the iterates, where `average=True` asked for it."""
    warning: str = ""
    """That the run is clearly unfinished, or its step size far off, and what to try; empty where all seems well."""

    def __repr__(self) -> str:
        parts = [f"status={self.status.value}", f"steps={self.steps}", f"sfo={self.sfo}", *self._figures()]
        parts += [f"seconds={self.seconds:.3g}", f"compile_seconds={self.compile_seconds:.3g}"]
        return f"Result({', '.join(parts)})" + (f"\nWarning: {self.warning}." if self.warning else "")

    def plot(self, column: str | None = None, *, against: str = "sfo", axes: Any = None, **line: Any) -> Any:
        """Draw a column of the history with matplotlib, and return the axes.

        column: by default "gap" where there is one, else "loss". against: "sfo", "step" or "seconds". axes: those to
        draw into (default: new ones). Other arguments are matplotlib's, such as `label=`. The axis is logarithmic where
        all values are positive.
        """
        x, name = self.history[against], column or self._main_column()
        y = self.history[name]
        if axes is None:
            axes = optional("matplotlib.pyplot").subplots()[1]
        axes.plot(x, y, **line)
        axes.set(xlabel=against, ylabel=name, yscale="log" if (y > 0).all() else "linear")
        return axes

    def _main_column(self) -> str:
        return "gap" if "gap" in self.history else "loss"

    def _repr_html_(self) -> str:
        shown = dict(part.split("=", 1) for part in self._figures())
        rows = {"status": self.status, "steps": self.steps, "sfo": self.sfo, **shown, "seconds": f"{self.seconds:.3g}"}
        name = self._main_column()
        columns = [self.history[column].tolist() for column in ("sfo", name)] if self.history.rows else ([], [])
        picture = _html.curve(columns[0], columns[1], "sfo", name)
        return _html.page("Result", rows, picture, self.warning)

    def _figures(self) -> list[str]:
        """Loss, and gap or gradient norm, at x."""
        diverged = self.status is Status.DIVERGED and len(self.history.rows) > 1
        row = self.history.rows[-2 if diverged else -1] if self.history.rows else {}
        names = ["loss", "gap" if "gap" in row else "gradient_norm"]
        return [f"{name}={row[name]:.6g}" for name in names if name in row]


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C ended a run. `result` is what it had, with status "interrupted"; what is to be saved has been saved."""

    result: Any = None


class TerminatedRun(SystemExit):
    """SIGTERM ended a run. `result` is what it had, with status "interrupted"; what is to be saved has been saved."""

    result: Any = None


def interruption(number: int, result: Any) -> InterruptedRun | TerminatedRun:
    """The exception by which a signal reaches the caller of a run that it has ended."""
    terminated = number == signal.SIGTERM
    error = TerminatedRun(128 + number) if terminated else InterruptedRun(getattr(result, "detail", ""))
    error.result = result
    return error
