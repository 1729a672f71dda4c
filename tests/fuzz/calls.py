"""One call of the public API from generated arguments, and a verdict on how it ended.

A call is a function of its number alone, so that any finding can be repeated: `python -m tests.fuzz --only NUMBER`.
"""

import contextlib
import inspect
import linecache
import math
import os
import random
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from retrax.recording import finite, off_manifold
from retrax.sources import Generated

PACKAGE = str(Path(rx.__file__).parent)
HANG_SECONDS = 60

OURS, FOREIGN, WRONG, GOOD, SILENT, HANG = "ours", "foreign words", "wrong type", "good", "SILENT", "HANG"
THEIRS = "the caller's own"
"""How a call ends: refused by a `raise` of Retrax, refused in another library's or Python's words, with another
exception than ValueError, TypeError or RuntimeError, with a good result, with a result that is NaN or off its manifold
and not said to be, or not at all; or with the exception of a function that the caller gave, or of Python where it found
no such argument, which are not ours to change."""
REFUSALS = (OURS, FOREIGN, WRONG)
BAD = (FOREIGN, WRONG, SILENT, HANG)


NUMBERS = (0, 1, 2, 3, 5, -1, 0.5, 1.5, 1e-300, 1e20, -1e20, math.nan, math.inf, -math.inf, True, None)
HUGE = (2**31, 2**64, -(2**31), -(2**64), 10**400)
"""Where they name no number of steps, samples or entries: those would be waited for, or allocated."""
OTHERS = ("3", b"3", (), [], {}, 1j, np.int32(3), np.float32(0.1), np.array(2), np.array([2, 3]), object, len)


def odd_numbers(generator: random.Random) -> Any:
    """A number, mostly one that makes no sense, or something else."""
    return generator.choice(NUMBERS + OTHERS)


def any_number(generator: random.Random) -> Any:
    """An odd number, or a huge one."""
    return generator.choice(HUGE) if generator.random() < 0.15 else odd_numbers(generator)


def sizes(generator: random.Random) -> Any:
    """A size that is mostly sound and small."""
    return generator.choice([1, 1, 2, 2, 3, 4, 5]) if generator.random() < 0.85 else odd_numbers(generator)


DTYPES = ("f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", ">f8", "O", "U3", "M8[s]")


def arrays(generator: random.Random, shape: tuple[int, ...] | None = None) -> Any:
    """An array; often of the wrong shape, dtype or content."""
    if shape is None or generator.random() < 0.1:
        shape = tuple(generator.choice([0, 1, 2, 3, 5]) for _ in range(generator.choice([0, 1, 1, 2, 2, 3])))
    numbers = np.random.default_rng(generator.randrange(2**32)).standard_normal(shape)
    scale = generator.choice([1, 1, 1, 1, 0, 1e-200, 1e30, 1e200])
    array: Any = numbers * scale
    if generator.random() < 0.08 and array.size:
        array.flat[generator.randrange(array.size)] = generator.choice([math.nan, math.inf, -math.inf])
    if generator.random() < 0.3:
        with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError, OverflowError):
            warnings.simplefilter("ignore")
            array = array.astype(generator.choice(DTYPES))
    kind = generator.random()
    if kind < 0.03:
        return np.ma.masked_array(array, mask=np.zeros(array.shape, dtype=bool))
    if kind < 0.06:
        return array.tolist()
    if kind < 0.09:
        return np.asfortranarray(array)
    if kind < 0.11:
        return odd_numbers(generator)
    return array


MANIFOLDS: dict[str, Callable[..., Any]] = {
    "Euclidean": lambda g: rx.Euclidean(*[sizes(g) for _ in range(g.choice([1, 1, 2]))]),
    "Sphere": lambda g: rx.Sphere(sizes(g), **choices(g, "normalise", "exp")),
    "Stiefel": lambda g: rx.Stiefel(sizes(g), sizes(g), **choices(g, "qr", "polar", "cayley")),
    "Grassmann": lambda g: rx.Grassmann(sizes(g), sizes(g), **choices(g, "qr", "polar", "exp")),
    "GeneralizedStiefel": lambda g: rx.GeneralizedStiefel(sizes(g), sizes(g), **choices(g, "qr", "polar")),
    "SPD": lambda g: rx.SPD(sizes(g), **choices(g, "exp", "second-order"), **metric(g)),
    "Product": lambda g: rx.Product({"a": manifold(g), "b": manifold(g)} if g.random() < 0.7 else odd_numbers(g)),
    "Power": lambda g: rx.Power(manifold(g), sizes(g)),
    "Oblique": lambda g: rx.Oblique(sizes(g), sizes(g)),
    "PoincareBall": lambda g: rx.PoincareBall(sizes(g), **curvature(g)),
    "Lorentz": lambda g: rx.Lorentz(sizes(g), **curvature(g)),
    "SpecialOrthogonal": lambda g: rx.SpecialOrthogonal(sizes(g)),
    "FixedRank": lambda g: rx.FixedRank(sizes(g), sizes(g), sizes(g)),
    "Simplex": lambda g: rx.Simplex(sizes(g)),
    "Positive": lambda g: rx.Positive(sizes(g)),
    "Symmetric": lambda g: rx.Symmetric(sizes(g)),
}


TRANSPORTS = ("projection", "parallel", "rotation", "identity", "exp", "", None, 3, [])


def choices(generator: random.Random, *names: str) -> dict[str, Any]:
    """A retraction or a transport, sometimes one that there is not."""
    kind = generator.random()
    if kind < 0.6:
        return {}
    if kind < 0.7:
        return {"transport": generator.choice(TRANSPORTS)}
    return {"retraction": generator.choice([*names, "exp", "", None, 3, []])}


def metric(generator: random.Random) -> dict[str, Any]:
    """A metric of positive definite matrices, or none."""
    names = ("affine-invariant", "log-euclidean", "bures-wasserstein", "euclidean", None, 3, [])
    return {} if generator.random() < 0.7 else {"metric": generator.choice(names)}


def curvature(generator: random.Random) -> dict[str, Any]:
    """A curvature, or none."""
    return {} if generator.random() < 0.7 else {"curvature": generator.choice([0.5, 2.0, odd_numbers(generator)])}


def manifold(generator: random.Random) -> Any:
    """A manifold, or the refusal to make one."""
    return MANIFOLDS[generator.choice(list(MANIFOLDS))](generator)


METHODS = ("rsgd", "csgd_m", "crmsprop", "ramsgrad", "radam", "rasa", "rsrm", "mars", "rsvrg", "rsrg", "rspider")
UNTUNED = ("rsrm", "rdog", "rdowg", "nrdog", "storm_plus")
OPTIONS = ("rho", "beta", "momentum", "epsilon", "gamma", "sides", "restart_every", "initial_distance", "scaling", "x")


def method(generator: random.Random) -> Any:
    """A method, often with a step size that makes no sense."""
    values = (1, 0.5, "LR", any_number(generator))
    others = {} if generator.random() < 0.8 else {generator.choice(OPTIONS): generator.choice(values)}
    if generator.random() < 0.3:
        return getattr(rx, generator.choice(UNTUNED))(**others)
    rate = generator.choice([0.01, 0.1, 1.0, 1e20, lambda t: 0.1 / t, any_number(generator)])
    return getattr(rx, generator.choice(METHODS))(rate, **others)


def point_loss(x: Any, batch: Any) -> Any:
    """A loss of any point and any batch of real numbers."""
    total = sum(jnp.sum(leaf) + jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))
    return total * jnp.mean(jnp.stack([jnp.mean(jnp.abs(leaf)) for leaf in jax.tree.leaves(batch)]))


LOSSES = (point_loss, point_loss, point_loss, lambda x, b: 0.0, lambda x, b: x, lambda x, b: jnp.nan * jnp.sum(x), 3)


def data(generator: random.Random) -> Any:
    """Samples in some form."""
    array = arrays(generator, (generator.choice([1, 2, 5, 20]), generator.choice([1, 3])))
    form = generator.random()
    if form < 0.7:
        return array
    if form < 0.8:
        return (array, arrays(generator))
    if form < 0.9:
        return rx.Stream([array] * 3) if generator.random() < 0.5 else iter([array] * 3)
    others: list[Callable[[], Any]] = [
        lambda: generator.choice([[], {}, (), None, "missing.npy", Path("x"), [array], {"a": array}, {1: 2}, object()]),
        lambda: rx.Pushed(array),
        lambda: Generated(generator.choice([lambda noise, n: noise.standard_normal((n, 3)), lambda *_: array, 3])),
    ]
    return generator.choice(others)()


def run_arguments(generator: random.Random, directory: str) -> dict[str, Any]:
    """The keywords of `minimize`, a few of which make no sense."""
    known: dict[str, Callable[[], Any]] = {
        "batch_size": lambda: generator.choice([1, 2, lambda t: t, odd_numbers(generator)]),
        "first_batch_size": lambda: generator.choice([1, 2, odd_numbers(generator)]),
        "x0": lambda: arrays(generator, (3,)),
        "seed": lambda: any_number(generator),
        "record": lambda: generator.choice([1, 2, odd_numbers(generator)]),
        "dtype": lambda: generator.choice(["float32", "float64", np.float64, "f8", "int32", 3, "nonsense"]),
        "average": lambda: generator.choice([True, False]),
        "tolerance": lambda: any_number(generator),
        "patience": lambda: odd_numbers(generator),
        "loss_bound": lambda: any_number(generator),
        "confidence": lambda: odd_numbers(generator),
        "progress": lambda: generator.choice([False, None]),
        "on_record": lambda: generator.choice([None, lambda step, row: step > 1, odd_numbers(generator)]),
        "checkpoint": lambda: rx.Checkpoint(directory, every=sizes(generator)),
        "resume": lambda: generator.choice([True, False]),
        "on_interrupt": lambda: generator.choice(["raise", "return", "x", 3]),
    }
    chosen = generator.sample(list(known), generator.choice([0, 0, 1, 1, 2, 3]))
    return {name: known[name]() for name in chosen}


def a_run(generator: random.Random, driver: Any) -> Any:
    """`minimize` on a generated problem."""
    problem = a_problem(generator)
    with tempfile.TemporaryDirectory() as directory:
        result = rx.minimize(
            problem,
            method(generator),
            steps=generator.choice([1, 2, 3]) if generator.random() < 0.9 else odd_numbers(generator),
            driver=driver,
            **run_arguments(generator, directory),
        )
    return Ended(problem, result)


class Ended:
    """A run whose result must be what it says."""

    def __init__(self, problem: Any, result: Any) -> None:
        self.problem, self.result = problem, result

    def holds(self) -> bool:
        """Whether it is: finite points on the manifold, or said to have diverged."""
        points = [self.result.x] + ([] if self.result.output is None else [self.result.output])
        return self.result.status is rx.Status.DIVERGED or all(
            Moved(self.problem.manifold, point).holds() for point in points
        )


WRONGS: tuple[Callable[[random.Random], tuple[str, Any]], ...] = (
    lambda g: ("steps", g.choice([0, -1, 1.5, None, "3", math.nan, True, [], np.array([1])])),
    lambda g: ("batch_size", g.choice([0, -1, 1.5, None, "3", math.nan, True, [], lambda t: None, lambda t: "a"])),
    lambda g: ("first_batch_size", g.choice([0, -1, 1.5, "3", math.nan, True, [], 10**9, lambda t: -1])),
    lambda g: ("x0", g.choice([arrays(g), arrays(g, (3,)), "x", 3, [1, [2]], {}, object(), np.array([[], []])])),
    lambda g: ("seed", g.choice([-1, 1.5, None, "3", math.nan, True, [], 2**64])),
    lambda g: ("record", g.choice([0, -1, 1.5, "3", math.nan, True, [], object()])),
    lambda g: ("dtype", g.choice(["int32", "float16", 3, [], object(), "nonsense", complex, b"f8", np.int8])),
    lambda g: ("tolerance", g.choice([math.nan, "3", [], 1j, np.array([1.0, 2.0])])),
    lambda g: ("patience", g.choice([0, -1, 1.5, None, "3", [], np.array([1, 2])])),
    lambda g: ("loss_bound", g.choice([math.nan, "3", [], 1j])),
    lambda g: ("confidence", g.choice([0, 1, -1, math.nan, None, "3", [], 1j])),
    lambda g: ("on_record", g.choice([3, "x", [], True])),
    lambda g: ("checkpoint", g.choice([3, "x", [], Path("x"), True])),
    lambda g: ("resume", g.choice([True, 1, "yes", [1]])),
    lambda g: ("on_interrupt", g.choice([None, "x", 3, []])),
    lambda g: ("driver", g.choice([None, "x", 3, [], "torch", np.array(["jax", "x"])])),
    lambda g: ("problem", g.choice([None, 3, "x", arrays(g), rx.Sphere(3), rx.problems.PCA])),
    lambda g: ("method", g.choice([None, 3, "x", rx.rsrm, [], rx.Sphere(3)])),
)
SAMPLES = np.random.default_rng(0).standard_normal((20, 3))
RUN = frozenset(inspect.signature(rx.Run).parameters)
SOUND = {"problem": rx.problems.PCA(SAMPLES, 1), "method": rx.rsgd(0.1), "steps": 1, "driver": "eager"}


def a_wrong_run(generator: random.Random) -> Any:
    """`minimize` or `Run` with one argument that makes no sense (or a second one), and all others sound."""
    arguments = SOUND | {"problem": a_problem(generator)} if generator.random() < 0.3 else dict(SOUND)
    for _ in range(generator.choice([1, 1, 2])):
        name, value = generator.choice(WRONGS)(generator)
        arguments[name] = value
    if generator.random() < 0.8:
        return Ended(arguments["problem"], rx.minimize(**arguments))
    kept = {name: value for name, value in arguments.items() if name in RUN}
    return rx.Run(**kept).advance(odd_numbers(generator) if generator.random() < 0.5 else 1)


def a_problem(generator: random.Random) -> Any:
    """A problem of one's own, or a ready-made one."""
    if generator.random() < 0.4:
        matrices = arrays(generator, (generator.choice([1, 2, 6]), 3))
        stack = arrays(generator, (generator.choice([1, 4]), 2, 2))
        if isinstance(stack, np.ndarray) and stack.ndim == 3 and generator.random() < 0.7:
            with contextlib.suppress(TypeError, ValueError):
                stack = stack @ np.swapaxes(stack, 1, 2) + np.eye(stack.shape[-1])
        whole = [np.array([0, 1, 1, 0]), np.array([0, 0, 1, 2]), np.array([1.0, 2.0, 3.0, 4.0])]
        if generator.random() < 0.5:
            whole[generator.randrange(3)] = arrays(generator, (4,))
        return generator.choice(
            [
                lambda: rx.problems.PCA(matrices, sizes(generator)),
                lambda: rx.problems.Centroid(stack),
                lambda: rx.problems.JointDiagonalization(stack, generator.choice([None, sizes(generator)])),
                lambda: rx.problems.CCA(matrices, arrays(generator, np.shape(matrices)), sizes(generator)),
                lambda: rx.problems.MatrixCompletion(*whole, sizes(generator)),
                lambda: rx.problems.Embedding(np.stack(whole[:2], axis=1), sizes(generator)),
            ]
        )()
    others = {} if generator.random() < 0.8 else {generator.choice(PARTS): odd_numbers(generator)}
    return rx.Problem(generator.choice(LOSSES), manifold(generator), data(generator), **others)


PARTS = ("gradient", "riemannian_gradient", "gradients", "optimum", "sparse", "nothing")


def an_operation(generator: random.Random) -> Any:
    """A point made and moved by a manifold."""
    made = manifold(generator)
    noise = np.random.default_rng(generator.randrange(2**32))
    x = made.random_point(made.each(lambda m: noise.standard_normal(m.ambient_shape)))
    made.check_point(x)
    u = made.random_tangent(x, made.each(lambda m: noise.standard_normal(m.ambient_shape)))
    return Moved(made, made.retract(x, u))


class Moved:
    """A point that must lie on its manifold."""

    def __init__(self, manifold: Any, x: Any) -> None:
        self.manifold, self.x = manifold, x

    def holds(self) -> bool:
        """Whether it does."""
        return finite(self.x) and float(np.max(self.manifold.violation(self.x))) <= off_manifold(self.x)


def a_sweep(generator: random.Random) -> Any:
    """`sweep`, mostly with something wrong."""
    methods = generator.choice([rx.rsgd, [rx.rsgd, rx.rsrm], {"a": rx.rsgd}, rx.rsgd(0.1), 3])
    rates = generator.choice([[0.1], [0.1, 1e20], odd_numbers(generator)])
    return rx.sweep(a_problem(generator), methods, rates, seeds=generator.choice([1, sizes(generator)]), steps=2)


def a_wrong_sweep(generator: random.Random) -> Any:
    """`sweep` with one argument that makes no sense."""
    arguments: dict[str, Any] = {"problem": SOUND["problem"], "methods": rx.rsgd, "learning_rates": [0.1], "seeds": 1}
    wrong: dict[str, list[Any]] = {
        "methods": [3, [], {}, [3], {"a": 3}, rx.rsgd(0.1), lambda rate: rate, {1: rx.rsgd}, {"": rx.rsgd}, None],
        "learning_rates": [3, [], ["a"], None, [math.nan], [-1], [0], [[0.1]], "ab", {}, [True], object()],
        "seeds": [0, -1, 1.5, None, "ab", [], [-1], [1.5], [None], {}, True, [2**64]],
    }
    name = generator.choice(list(wrong))
    return rx.sweep(**arguments | {name: generator.choice(wrong[name])}, steps=generator.choice([0, None, "1"]))


def a_stream(generator: random.Random) -> Any:
    """A stream, and its first look at what it is given."""
    batches = [arrays(generator, (2, 3)) for _ in range(generator.choice([0, 1, 2]))]
    given = generator.choice([batches, iter(batches), odd_numbers(generator), {"a": 1}, "abc"])
    flags = {name: generator.choice([True, False, 3, None]) for name in ("samples", "deterministic")}
    return rx.Problem(point_loss, rx.Sphere(3), rx.Stream(given, **flags)).source


def made_up(generator: random.Random) -> Any:
    """Synthetic data."""
    kind = generator.choice(["pca", "spd", "variances"])
    if kind == "spd":
        return rx.datasets.synthetic.spd(
            sizes(generator), sizes(generator), generator.choice([20, odd_numbers(generator)])
        )
    spectrum = generator.choice(["gap", "exponential", "", 3, [2.0, 1.0], odd_numbers(generator)])
    arguments = [sizes(generator) for _ in range(3 if kind == "pca" else 2)]
    return getattr(rx.datasets.synthetic, kind)(*arguments, spectrum=spectrum)


def a_schedule(generator: random.Random) -> Any:
    """A schedule of numbers that mostly make no sense."""
    one, two, three = (any_number(generator) for _ in range(3))
    return generator.choice(
        [
            lambda: rx.schedules.piecewise(one, {two: three}),
            lambda: rx.schedules.piecewise(one, two),
            lambda: rx.schedules.constant(one),
            lambda: rx.schedules.power(one, two, three),
            lambda: rx.schedules.minimum(one, two),
        ]
    )()


CALLS: dict[str, tuple[float, Callable[[random.Random], Any]]] = {
    "manifold": (20, manifold),
    "method": (12, method),
    "problem": (16, a_problem),
    "operation": (3, an_operation),
    "check_point": (8, lambda g: manifold(g).check_point(arrays(g))),
    "validated": (1, lambda g: rx.validated(g.choice([manifold(g), odd_numbers(g)]), odd_numbers(g))),
    "checkpoint": (4, lambda g: rx.Checkpoint(g.choice(["x", Path("x"), odd_numbers(g)]), any_number(g))),
    "record": (4, lambda g: rx.Record(any_number(g), samples=any_number(g))),
    "stream": (6, a_stream),
    "dataset": (4, lambda g: rx.datasets.load(g.choice(["mnist", "nothing", "", odd_numbers(g)]), odd_numbers(g))),
    "synthetic": (2, made_up),
    "schedule": (4, a_schedule),
    "check_gradient": (0.02, lambda g: rx.check_gradient(a_problem(g))),
    "check_retraction": (0.01, lambda g: rx.check_retraction(manifold(g))),
    "check_transport": (0.01, lambda g: rx.check_transport(manifold(g))),
    "check of nothing": (1, lambda g: g.choice(CHECKS)(odd_numbers(g), seed=any_number(g))),
    "minimize, wrong": (12, a_wrong_run),
    "sweep, wrong": (3, a_wrong_sweep),
    "minimize, eager": (0.5, lambda g: a_run(g, "eager")),
    "minimize, compiled": (0.05, lambda g: a_run(g, "jax")),
    "sweep": (0.02, a_sweep),
}
"""What is called, and how often in comparison: constructors and refusals take microseconds, a run a second."""
CHECKS: tuple[Callable[..., Any], ...] = (rx.check_gradient, rx.check_retraction, rx.check_transport)


class HangError(BaseException):
    """A call that did not end."""


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    def end(*_: Any) -> None:
        raise HangError

    # Its own time for a call that never stops working, a longer one of the clock for a call that waits for ever.
    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, HANG_SECONDS),
        signal.SIGALRM: (signal.ITIMER_REAL, 20 * HANG_SECONDS),
    }
    previous = {number: signal.signal(number, end) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, previous[number])


def call(number: int) -> tuple[str, str, str]:
    """Make call `number`: (what was called, how it ended, in words)."""
    generator = random.Random(number)
    name = generator.choices(list(CALLS), [weight for weight, _ in CALLS.values()])[0]
    try:
        with warnings.catch_warnings(), _in_time():
            warnings.simplefilter("ignore")
            result = CALLS[name][1](generator)
        return (name, *judged(result))
    except HangError:
        return name, HANG, f"no end within {HANG_SECONDS} s"
    except Exception as error:
        return (name, *refusal(error))


def judged(result: Any) -> tuple[str, str]:
    """A result must be what it says."""
    if isinstance(result, Ended) and not result.holds():
        return SILENT, f"x of {result.problem.manifold} is not a finite point on it, status {result.result.status}"
    if isinstance(result, Moved) and not result.holds():
        return SILENT, f"{result.manifold} was left"
    return GOOD, ""


def refusal(error: Exception) -> tuple[str, str]:
    """Whose words an exception has: those of a `raise` of ours, of other code that we called, or of the caller's."""
    frames = traceback.extract_tb(error.__traceback__)
    where, words = frames[-1], f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
    place = f"{os.path.basename(where.filename)}:{where.lineno}: {words}"
    within = [frame.filename.startswith(PACKAGE) for frame in frames]
    if any(frame.filename == __file__ for frame in frames[within.index(True) if True in within else 0 :]):
        return THEIRS, place
    if not isinstance(error, ValueError | TypeError | RuntimeError | FileNotFoundError):
        return WRONG, place
    raised = linecache.getline(where.filename, where.lineno or 0).lstrip().startswith("raise ")
    return (OURS if raised and within[-1] else FOREIGN), place
