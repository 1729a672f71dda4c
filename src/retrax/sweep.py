"""`sweep`: all step sizes and seeds of a method in one compilation, and the best step size among them."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from retrax.drivers import jax as compiled
from retrax.methods import Method
from retrax.minimize import Settings
from retrax.plan import Plan, Position
from retrax.problems.base import Problem, SampleMean, chunk_length
from retrax.recording import Record
from retrax.sources import Stretch
from retrax.typing import Point

CRITERION = "smallest median over seeds of the final gap (of the final loss where the optimum is not known)"

MethodFactory = Callable[[float], Method]


@dataclasses.dataclass(frozen=True)
class MethodSweep:
    """All runs of one method: `curves["gap"]` has shape (step sizes, seeds, records)."""

    name: str
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...]
    step: np.ndarray
    sfo: np.ndarray
    curves: dict[str, np.ndarray]
    seconds: float
    """Run time of all runs together, without compiling and measuring."""
    compile_seconds: float

    @property
    def column(self) -> str:
        """The column that runs are judged by: "gap" where the optimum is known, else "loss"."""
        return "gap" if "gap" in self.curves else "loss"

    @property
    def final(self) -> np.ndarray:
        """The last record of that column, shape (step sizes, seeds); infinite where a run has diverged."""
        last = self.curves[self.column][..., -1]
        return np.where(np.isfinite(last), last, np.inf)

    @property
    def best(self) -> int:
        """The number of the best step size: the smallest median over seeds of the final gap (or loss)."""
        return int(np.argmin(np.median(self.final, axis=1)))

    @property
    def best_learning_rate(self) -> float:
        """The best step size."""
        return self.learning_rates[self.best]

    def quartiles(self, column: str | None = None, index: int | None = None) -> np.ndarray:
        """Lower quartile, median, upper quartile over seeds, shape (3, records); by default of the best step size."""
        curve = self.curves[column or self.column][self.best if index is None else index]
        return np.percentile(np.where(np.isfinite(curve), curve, np.inf), [25, 50, 75], axis=0, method="nearest")

    def __repr__(self) -> str:
        median = np.median(self.final[self.best])
        return f"MethodSweep({self.name}: best step size {self.best_learning_rate:g}, final {self.column} {median:.3e})"


class Sweep(Mapping[str, MethodSweep]):
    """The results of a sweep by method name; `criterion` says what "best" means."""

    criterion = CRITERION

    def __init__(self, methods: dict[str, MethodSweep]) -> None:
        self._methods = methods

    def __getitem__(self, name: str) -> MethodSweep:
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __repr__(self) -> str:
        return "\n".join(repr(method) for method in self._methods.values())


def sweep(
    problem: Problem,
    methods: MethodFactory | Sequence[MethodFactory] | Mapping[str, MethodFactory],
    learning_rates: Sequence[float],
    seeds: int | Sequence[int] = 5,
    *,
    steps: int,
    batch_size: Any = 5,
    first_batch_size: Any = None,
    x0: Point | None = None,
    record: int | Record | None = None,
    dtype: str | None = None,
    on_record: Callable[[str, int], Any] | None = None,
) -> Sweep:
    """Run every step size and every seed of each method at once.

    methods: functions from a step size to a method, such as `rx.rsrm` or `lambda lr: rx.rasa(lr, sides="L")`; one,
    several, or a mapping by name. seeds: their number or the seeds themselves; each seed has its own start (unless x0
    is given) and its own samples, the same for all step sizes and methods. The other arguments are those of `minimize`.
    on_record(name, step) is called after each record.
    """
    rates = tuple(float(rate) for rate in learning_rates)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)
    if not rates or not numbers:
        raise ValueError("a sweep needs at least one step size and one seed")
    results = {}
    for name, factory in _named(methods, rates[0]).items():
        runs = _Runs(
            problem, [factory(rate) for rate in rates], numbers, steps, batch_size, first_batch_size, x0, record, dtype
        )
        results[name] = runs.to_the_end(name, rates, on_record)
    return Sweep(results)


def _named(methods: Any, rate: float) -> dict[str, MethodFactory]:
    if isinstance(methods, Mapping):
        return dict(methods)
    factories = [methods] if callable(methods) else list(methods)
    for factory in factories:
        if not callable(factory):
            raise TypeError(f"sweep needs functions from a step size to a method, such as retrax.rsrm, not {factory!r}")
    return {factory(rate).name: factory for factory in factories}


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


class _Runs:
    """All runs of one method: the leading axis of every array counts runs, step sizes outermost."""

    def __init__(
        self,
        problem: Problem,
        methods: list[Method],
        seeds: tuple[int, ...],
        steps: int,
        batch_size: Any,
        first_batch_size: Any,
        x0: Point | None,
        record: int | Record | None,
        dtype: str | None,
    ) -> None:
        if not problem.source.resident:
            raise ValueError("sweep needs data in memory; for a file or a stream, call minimize for each step size")
        self.problem, self.seeds, self.copies = problem, seeds, len(methods)
        self.settings = [
            Settings(problem, methods[0], steps, batch_size, first_batch_size, x0, seed, record, dtype, "jax")
            for seed in seeds
        ]
        self.plan: Plan = dataclasses.replace(self.settings[0].plan, pace=self.settings[0].plan.length)
        self.dtype = self.settings[0].dtype
        self.methods = methods
        self._loops: dict[int, Callable[..., Any]] = {}

    def to_the_end(
        self, name: str, rates: tuple[float, ...], on_record: Callable[[str, int], Any] | None
    ) -> MethodSweep:
        with compiled.precision(self.dtype):
            return self._run(name, rates, on_record)

    def _run(self, name: str, rates: tuple[float, ...], on_record: Callable[[str, int], Any] | None) -> MethodSweep:
        objective = self.problem.objective
        data = self.problem.on_device(self.dtype)
        method = compiled.with_dtype(_stack([m for m in self.methods for _ in self.seeds]), self.dtype)
        x = _stack([compiled.as_point(s.x0, self.dtype) for _ in self.methods for s in self.settings])
        state = jax.vmap(lambda m, point: m.init(objective.manifold, point))(method, x)
        mean = self.problem.full(data)
        compile_seconds = self._compile(method, data, x, state)
        # Waited for, or the clock of the next stretch would count it.
        measure = lambda: jax.block_until_ready(_measure_runs(objective, mean, x, state))  # noqa: E731
        rows = [measure()]
        counters = [Position()]
        seconds = 0.0
        for stretch, position in self._stretches():
            start = time.perf_counter()
            x, state = jax.block_until_ready(self._advance(method, data, x, state, stretch))
            seconds += time.perf_counter() - start
            if self.plan.records_at(position.step):
                rows.append(measure())
                counters.append(position)
                if on_record is not None:
                    on_record(name, position.step)
        return self._result(name, rates, rows, counters, seconds, compile_seconds)

    def _stretches(self) -> Iterator[tuple[Stretch, Position]]:
        """As a single run's, but without stops for the random iterate, which a sweep does not return."""
        for stretch, _, position in self.plan.stretches(Position(), keep_output=False):
            yield stretch, position

    def _payload(self, stretch: Stretch) -> Any:
        """One payload for each seed, repeated for each step size."""
        payloads = [self.problem.source.payload(seed, stretch, self.plan.length) for seed in self.seeds]
        if payloads[0] is None:
            return None
        return np.tile(np.stack(payloads), (self.copies,) + (1,) * payloads[0].ndim)

    def _call(self, method: Any, data: Any, x: Any, state: Any, stretch: Stretch) -> tuple[Callable[..., Any], tuple]:
        objective, payload, first = self.problem.objective, self._payload(stretch), np.asarray(stretch.first)
        if not stretch.restart:
            arguments = (objective, method, data, x, state, payload, first, np.asarray(stretch.count))
            if stretch.batch_size not in self._loops:
                self._loops[stretch.batch_size] = _loop_for(*arguments)
            return self._loops[stretch.batch_size], arguments
        if payload is None:
            return _restart_runs_all, (objective, method, self.problem.full(data), x, state, first)
        return _restart_runs, (objective, method, data, x, state, payload, first)

    def _advance(self, method: Any, data: Any, x: Any, state: Any, stretch: Stretch) -> Any:
        function, arguments = self._call(method, data, x, state, stretch)
        return function(*arguments)

    def _compile(self, method: Any, data: Any, x: Any, state: Any) -> float:
        start = time.perf_counter()
        for restart, size in ((True, self.plan.large_batch_size(1)), (False, self.plan.batch_size(2))):
            function, arguments = self._call(method, data, x, state, Stretch(1, 1, size, restart, 0))
            function.lower(*arguments).compile()  # type: ignore[attr-defined]
        return time.perf_counter() - start

    def _result(
        self,
        name: str,
        rates: tuple[float, ...],
        rows: list[dict[str, Any]],
        counters: list[Position],
        seconds: float,
        compile_seconds: float,
    ) -> MethodSweep:
        shape = (len(rates), len(self.seeds), len(rows))
        curves = {key: np.stack([np.asarray(row[key]) for row in rows], axis=-1).reshape(shape) for key in rows[0]}
        if self.problem.optimum is not None:
            curves["gap"] = curves["loss"] - self.problem.optimum
        return MethodSweep(
            name=name,
            learning_rates=rates,
            seeds=self.seeds,
            step=np.array([position.step for position in counters]),
            sfo=np.array([position.sfo for position in counters]),
            curves=curves,
            seconds=seconds,
            compile_seconds=compile_seconds,
        )


def _advance_all(
    objective: Any, method: Any, data: Any, x: Any, state: Any, batches: Any, first: Any, count: Any
) -> Any:
    run = lambda m, point, s, b: compiled.advance(objective, m, data, point, s, b, first, count)  # noqa: E731
    return jax.vmap(run)(method, x, state, batches)


def _advance_in_turn(
    objective: Any, method: Any, data: Any, x: Any, state: Any, batches: Any, first: Any, count: Any
) -> Any:
    """One run after another, where a run's steps are a single kernel and there is nothing to share."""
    advance = compiled.advance_in_one_kernel
    run = lambda one: advance(objective, one[0], data, one[1], one[2], one[3], first, count)  # noqa: E731
    return jax.lax.map(run, (method, x, state, batches))


def _restart_from_indices(objective: Any, method: Any, data: Any, x: Any, state: Any, indices: Any, first: Any) -> Any:
    def run(m: Any, point: Any, s: Any, chosen: Any) -> Any:
        return compiled.restart(objective, m, SampleMean(objective, chunk_length(data), data, chosen), point, s, first)

    return jax.vmap(run)(method, x, state, indices)


def _restart_from_all(objective: Any, method: Any, mean: Any, x: Any, state: Any, first: Any) -> Any:
    # One run after another: a full gradient of many runs at once would not fit in bounded memory.
    return jax.lax.map(
        lambda args: compiled.restart(objective, args[0], mean, args[1], args[2], first), (method, x, state)
    )


def _measure_all(objective: Any, mean: Any, x: Any, state: Any) -> Any:
    return jax.lax.map(lambda args: compiled.measure(objective, mean, False, *args), (x, state))


def _loop_for(
    objective: Any, method: Any, data: Any, x: Any, state: Any, batches: Any, first: Any, count: Any
) -> Callable[..., Any]:
    """The faster of the two loops."""
    one, point, s, b = jax.tree.map(lambda a: a[0], (method, x, state, batches))
    fits = compiled.fits_one_kernel(objective, one, data, point, s, b, first, count)
    return _advance_runs_in_turn if fits and not objective.fills_lanes else _advance_runs


_advance_runs = jax.jit(_advance_all, static_argnums=0, compiler_options=compiled.LOOP_OPTIONS)
_advance_runs_in_turn = jax.jit(_advance_in_turn, static_argnums=0, compiler_options=compiled.LOOP_OPTIONS)
_restart_runs = jax.jit(_restart_from_indices, static_argnums=0)
_restart_runs_all = jax.jit(_restart_from_all, static_argnums=0)
_measure_runs = jax.jit(_measure_all, static_argnums=0)
