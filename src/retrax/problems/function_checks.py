"""What can be found out about a problem's functions without computing: shapes, and whether they can be compiled."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from retrax._precision import precision
from retrax.problems.base import Problem
from retrax.sources import Source, StreamSource
from retrax.typing import Point


def check_functions(problem: Problem, x0: Point, dtype: str) -> None:
    """The loss must return one number and the gradient must look like a point: found out without computing."""
    with precision(dtype):
        point = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), dtype), x0)
        batch = problem.source.example(dtype)
        advice = _advice(problem.source)
        loss = _traced("loss", advice, problem.objective.loss, point, batch)
        if getattr(loss, "shape", None) != ():
            raise ValueError(
                f"loss must return one number, the mean over the batch; it returned "
                f"{'shape ' + str(loss.shape) if hasattr(loss, 'shape') else loss}"
            )
        gradient = _traced("the gradient", advice, problem.objective.gradient, point, batch)
        shapes = [jax.tree.map(lambda a: tuple(a.shape), tree) for tree in (gradient, point)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"the gradient has shape {shapes[0]}, but a point has {shapes[1]}")


def _advice(source: Source) -> str | None:
    """What to try where a function does not take the batches of a stream: these may be samples."""
    if isinstance(source, StreamSource) and not source.stream.samples:
        return "if the stream gives single samples, use retrax.Stream(iterable, samples=True)"
    return None


def _traced(name: str, advice: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except jax.errors.TracerArrayConversionError:
        raise TypeError(
            f"{name} calls NumPy, whose functions cannot be compiled; write it with jax.numpy, which has the same names"
        ) from None
    except jax.errors.ConcretizationTypeError:
        raise TypeError(
            f"{name} asks for the value of an array while it is being compiled (an `if`, float() or a loop over it); "
            "use jax.numpy.where or jax.lax.cond instead"
        ) from None
    except (TypeError, ValueError) as error:
        if advice is None:
            raise
        raise type(error)(f"{name} fails on a batch of the stream ({str(error).splitlines()[0]}); {advice}") from error
