"""One call of the public API from generated arguments, and a verdict on how it ended.

A call is a function of its number alone, so that any finding can be repeated: `python -m tests.fuzz --only NUMBER`.
"""

import contextlib
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

PACKAGE = str(Path(rx.__file__).parent)
HANG_SECONDS = 60

OURS, FOREIGN, WRONG, GOOD, SILENT, HANG = "ours", "foreign words", "wrong type", "good", "SILENT", "HANG"
"""How a call ends: refused by a line of Retrax, refused by another library's, with another exception than ValueError,
TypeError or RuntimeError, with a good result, with a result that is NaN or off its manifold and not said to be, or
not at all."""


NUMBERS = (0, 1, 2, 3, 5, -1, 0.5, 1.5, 1e-300, 1e20, -1e20, math.nan, math.inf, -math.inf, 2**31, 2**64, True, None)
OTHERS = ("3", b"3", (), [], {}, 1j, np.int32(3), np.float32(0.1), np.array(2), np.array([2, 3]), object, len)


def odd_numbers(generator: random.Random) -> Any:
    """A number, mostly one that makes no sense, or something else."""
    return generator.choice(NUMBERS + OTHERS)


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
    "SPD": lambda g: rx.SPD(sizes(g), **choices(g, "exp", "second-order")),
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


def choices(generator: random.Random, *names: str) -> dict[str, Any]:
    """A retraction, sometimes one that there is not."""
    if generator.random() < 0.6:
        return {}
    return {"retraction": generator.choice([*names, "exp", "", None, 3])}


def curvature(generator: random.Random) -> dict[str, Any]:
    """A curvature, or none."""
    return {} if generator.random() < 0.7 else {"curvature": generator.choice([0.5, 2.0, odd_numbers(generator)])}


def manifold(generator: random.Random) -> Any:
    """A manifold, or the refusal to make one."""
    return MANIFOLDS[generator.choice(list(MANIFOLDS))](generator)


METHODS = ("rsgd", "csgd_m", "crmsprop", "ramsgrad", "radam", "rasa", "rsrm", "rsvrg", "rsrg", "rspider")
UNTUNED = ("rsrm", "rdog", "rdowg", "nrdog", "storm_plus")


def method(generator: random.Random) -> Any:
    """A method, often with a step size that makes no sense."""
    if generator.random() < 0.3:
        return getattr(rx, generator.choice(UNTUNED))()
    rate = generator.choice([0.01, 0.1, 1.0, 1e20, lambda t: 0.1 / t, odd_numbers(generator)])
    others = {} if generator.random() < 0.8 else {generator.choice(["rho", "beta", "sides", "restart_every", "x"]): 1}
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
    return generator.choice([[], {}, (), None, "missing.npy", Path("x"), [array], {"a": array}, rx.Pushed(array)])


def run_arguments(generator: random.Random, directory: str) -> dict[str, Any]:
    """The keywords of `minimize`, a few of which make no sense."""
    known: dict[str, Callable[[], Any]] = {
        "batch_size": lambda: generator.choice([1, 2, lambda t: t, odd_numbers(generator)]),
        "first_batch_size": lambda: generator.choice([1, 2, odd_numbers(generator)]),
        "x0": lambda: arrays(generator, (3,)),
        "seed": lambda: odd_numbers(generator),
        "record": lambda: generator.choice([1, 2, odd_numbers(generator)]),
        "dtype": lambda: generator.choice(["float32", "float64", np.float64, "f8", "int32", 3, "nonsense"]),
        "average": lambda: generator.choice([True, False]),
        "tolerance": lambda: odd_numbers(generator),
        "patience": lambda: odd_numbers(generator),
        "loss_bound": lambda: odd_numbers(generator),
        "confidence": lambda: odd_numbers(generator),
        "progress": lambda: generator.choice([False, None]),
        "on_record": lambda: generator.choice([None, lambda step, row: step > 1, odd_numbers(generator)]),
        "checkpoint": lambda: rx.Checkpoint(directory, every=sizes(generator)),
        "resume": lambda: generator.choice([True, False]),
        "on_interrupt": lambda: generator.choice(["raise", "return", "x", 3]),
    }
    chosen = generator.sample(list(known), generator.choice([0, 0, 1, 1, 2, 3]))
    return {name: known[name]() for name in chosen}


def a_run(generator: random.Random, compiled: bool) -> Any:
    """`minimize` on a generated problem."""
    with tempfile.TemporaryDirectory() as directory:
        return rx.minimize(
            a_problem(generator),
            method(generator),
            steps=generator.choice([1, 2, 3]) if generator.random() < 0.9 else odd_numbers(generator),
            driver="jax" if compiled else "eager",
            **run_arguments(generator, directory),
        )


def a_problem(generator: random.Random) -> Any:
    """A problem of one's own, or a ready-made one."""
    if generator.random() < 0.4:
        matrices = arrays(generator, (generator.choice([1, 2, 6]), 3))
        stack = arrays(generator, (generator.choice([1, 4]), 2, 2))
        if isinstance(stack, np.ndarray) and stack.ndim == 3 and generator.random() < 0.7:
            with contextlib.suppress(TypeError, ValueError):
                stack = stack @ np.swapaxes(stack, 1, 2) + np.eye(stack.shape[-1])
        return generator.choice(
            [
                lambda: rx.problems.PCA(matrices, sizes(generator)),
                lambda: rx.problems.Centroid(stack),
                lambda: rx.problems.JointDiagonalization(stack),
            ]
        )()
    return rx.Problem(generator.choice(LOSSES), manifold(generator), data(generator))


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


CALLS: dict[str, tuple[float, Callable[[random.Random], Any]]] = {
    "manifold": (20, manifold),
    "method": (12, method),
    "problem": (20, a_problem),
    "operation": (12, an_operation),
    "check_point": (8, lambda g: manifold(g).check_point(arrays(g))),
    "checkpoint": (4, lambda g: rx.Checkpoint(g.choice(["x", Path("x"), odd_numbers(g)]), odd_numbers(g))),
    "record": (4, lambda g: rx.Record(odd_numbers(g), samples=odd_numbers(g))),
    "stream": (4, lambda g: rx.Stream(g.choice([[arrays(g)], odd_numbers(g)]), samples=g.choice([True, False]))),
    "dataset": (4, lambda g: rx.datasets.load(g.choice(["mnist", "nothing", "", odd_numbers(g)]), odd_numbers(g))),
    "schedule": (4, lambda g: rx.schedules.piecewise(odd_numbers(g), {odd_numbers(g): odd_numbers(g)})),
    "check_gradient": (1, lambda g: rx.check_gradient(a_problem(g))),
    "check_retraction": (1, lambda g: rx.check_retraction(manifold(g))),
    "minimize, eager": (5, lambda g: a_run(g, compiled=False)),
    "minimize, compiled": (0.3, lambda g: a_run(g, compiled=True)),
    "sweep": (0.5, lambda g: a_sweep(g)),
}


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
    if isinstance(result, rx.Result) and result.status is not rx.Status.DIVERGED and not finite(result.x):
        return SILENT, f"x is not finite, status {result.status}"
    if isinstance(result, Moved) and not result.holds():
        return SILENT, f"{result.manifold} was left"
    return GOOD, ""


def refusal(error: Exception) -> tuple[str, str]:
    """Whose words an exception has: those of the file that raised it, or that of the user's own function."""
    frames = traceback.extract_tb(error.__traceback__)
    where, words = frames[-1], f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
    place = f"{os.path.basename(where.filename)}:{where.lineno}: {words}"
    own = where.filename.startswith(PACKAGE) or where.filename == __file__
    if not isinstance(error, ValueError | TypeError | RuntimeError | FileNotFoundError):
        return WRONG, place
    return (OURS if own else FOREIGN), place
