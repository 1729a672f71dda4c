"""What makes one run the continuation of another: all that its numbers depend on, compared by value.

A function is compared by the program that JAX traces from it, in which closures, partial arguments, attributes and
globals have become numbers; samples are compared by a checksum of all of them.
"""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from retrax._precision import precision
from retrax.schedules import Function
from retrax.settings import Settings


class Fingerprint:
    """The description of a run. `steps` is not in it: a run may go on further than was planned."""

    def __init__(self, settings: Settings) -> None:
        objective, source = settings.problem.objective, settings.problem.source
        self.unchecked: list[str] = []
        """What could not be compared, in words."""
        template = jax.tree.map(lambda a: f"{a.shape[1:]} {a.dtype}", source.template)
        x0 = [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(settings.x0)]
        samples = source.digest()
        if source.unchecked is not None:
            self.unchecked.append(source.unchecked)
        with precision(settings.dtype):
            point = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), settings.dtype), settings.first_point)
            batch = source.example(settings.dtype)
            loss = self._function("the loss", objective.loss, point, batch)
            gradient = self._function("the gradient", objective.gradient, point, batch)
            pair = (
                "" if objective.pair is None else self._function("gradients", objective.gradients, point, point, batch)
            )
            method = self._described(settings.methods or settings.method)
        plan = settings.plan
        self._small = None if plan.constant_batch else _Sizes(plan.batch_size, 1)
        self._large = _Sizes(plan.large_batch_size, plan.restart_every)
        self._batch_size = plan.batch_size(2)
        self._same = {
            "seed": str(settings.seeds or settings.seed),
            "dtype": settings.dtype,
            "manifold": repr(objective.manifold),
            "loss": loss,
            "gradient": gradient + pair,
            "method": method,
            "x0": _hash(*(array.tobytes() for array in x0)),
            "data": f"{source.size} samples of {template}",
            "samples": samples,
            "driver": settings.driver,
            "restart_every": str(settings.plan.restart_every),
            "estimator_error": str(settings.record.estimator_error),
        }

    def at(self, step: int) -> dict[str, str]:
        """The description of the run's first so many steps."""
        small = str(self._batch_size) if self._small is None else self._small.until(step)
        return self._same | {"batch sizes": small, "large batch sizes": self._large.until(step)}

    def _function(self, name: str, function: Callable[..., Any], *arguments: Any) -> str:
        digest = _Program()
        digest.add(jax.make_jaxpr(function)(*arguments))
        if digest.opaque:
            self.unchecked.append(f"what {name} calls outside JAX")
        return digest.hexdigest()

    def _described(self, value: Any) -> str:
        """A method in words that are the same in every process."""
        if isinstance(value, Function):
            return self._schedule(value.function)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = (
                f"{field.name}={self._described(getattr(value, field.name))}" for field in dataclasses.fields(value)
            )
            return f"{type(value).__name__}({', '.join(fields)})"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._described, value))}]"
        if hasattr(value, "dtype"):
            array = np.asarray(value)
            return repr(array.tolist()) if array.size < 32 else f"{array.shape} {_hash(array.tobytes())}"
        if callable(value):
            return self._schedule(value)
        return _without_addresses(repr(value))

    def _schedule(self, function: Callable[[Any], Any]) -> str:
        """A function of t, by its program; one that cannot be traced (in the eager driver) by many of its values."""
        try:
            return f"function {self._function(_name(function), function, jax.ShapeDtypeStruct((), 'float32'))}"
        except Exception:
            self.unchecked.append(f"{_name(function)} after step 10000, as it cannot be traced")
        try:
            return f"function {_hash(repr([float(function(float(t))) for t in range(1, 10_001)]).encode())}"
        except Exception:
            return _name(function)


class _Sizes:
    """The batch sizes that a run uses, step by step: the first one, and a checksum that grows with the run."""

    def __init__(self, size: Callable[[int], int], every: int | None) -> None:
        self.size, self.every = size, every
        """Of the steps 1, 1 + every, 1 + 2 every, ... (None: of step 1 only)."""
        self._begin()

    def _begin(self) -> None:
        self._digest, self._next = hashlib.sha256(), 1

    def until(self, step: int) -> str:
        """The sizes of the steps up to this one."""
        if step < self._next - (self.every or 0):
            self._begin()
        while self._next <= max(1, step):
            self._digest.update(self.size(self._next).to_bytes(8, "little"))
            self._next += self.every or 2**62
        return f"{self.size(1)} ({self._digest.hexdigest()[:8]})"


class _Program:
    """A checksum of a program that JAX has traced: its operations, with all constants, and no names or addresses."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.opaque = False
        """Whether the program calls something that is not in it."""

    def hexdigest(self) -> str:
        """The checksum."""
        return self._digest.hexdigest()[:16]

    def add(self, closed: Any) -> None:
        """A program with its constants."""
        for constant in closed.consts:
            array = np.asarray(constant)
            self._text(f"constant {array.shape} {array.dtype}")
            self._digest.update(array.tobytes())
        self._add_open(closed.jaxpr)

    def _add_open(self, jaxpr: Any) -> None:
        numbers: dict[Any, int] = {}

        def word(atom: Any) -> str:
            if hasattr(atom, "val"):
                return f"{np.asarray(atom.val).tolist()!r} {atom.aval}"
            return f"v{numbers.setdefault(atom, len(numbers))} {atom.aval}"

        self._text("takes", *map(word, jaxpr.constvars), *map(word, jaxpr.invars))
        for equation in jaxpr.eqns:
            self.opaque = self.opaque or "callback" in equation.primitive.name
            self._text(equation.primitive.name, *map(word, equation.invars), "gives", *map(word, equation.outvars))
            for name, value in sorted(equation.params.items()):
                self._text(name)
                self._parameter(value)
        self._text("returns", *map(word, jaxpr.outvars))

    def _parameter(self, value: Any) -> None:
        if hasattr(value, "jaxpr") and hasattr(value, "consts"):
            self.add(value)
        elif hasattr(value, "eqns"):
            self._add_open(value)
        elif isinstance(value, list | tuple):
            self._text(str(len(value)))
            for one in value:
                self._parameter(one)
        elif isinstance(value, np.ndarray | jax.Array):
            self._digest.update(np.asarray(value).tobytes())
        elif callable(value):
            self._text(_name(value))
        else:
            self._text(_without_addresses(repr(value)))

    def _text(self, *words: str) -> None:
        self._digest.update("\0".join((*words, "")).encode())


def _name(function: Any) -> str:
    """A function's name, of a partial one its function's."""
    inner = function.func if isinstance(function, functools.partial) else function
    return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _hash(*contents: bytes) -> str:
    return hashlib.sha256(b"".join(contents)).hexdigest()[:16]
