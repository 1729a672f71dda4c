"""Which form a loop's program takes: in a span, in one kernel, on trial in another process, or as it is written.

Only structures and shapes decide, and the program itself: whether steps can be taken in a span shows when it is traced.
"""

import contextlib
import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from retrax import _kernel, _programs
from retrax.drivers import factors, kernel, span
from retrax.drivers.devices import SeveralDevices, SplitRows
from retrax.drivers.kernel import Fit
from retrax.drivers.loops import LOOP_OPTIONS, Form, advance_in_form, fetch
from retrax.methods import Method
from retrax.problems.base import Objective
from retrax.scalings import Identity


@functools.lru_cache(maxsize=64)
def choose(objective: Objective, form: Form, fed: bool, kind: Any) -> tuple[Form, Fit]:
    """The form for loops over (data, method, x, state, indices) of this kind, and whether that is one kernel, and why.

    A second run asks again.
    """
    if isinstance(form.devices, SeveralDevices):
        return form, Fit(False, "devices exchange samples, which a kernel cannot do")
    if form.several and fed:
        return form, Fit(False, "every run of the sweep has samples of its own: they step together")
    data, *others = jax.tree.unflatten(*kind)
    run = _Run(objective, dataclasses.replace(form, several=False), fed, data, *_of_one_run(others, form.several))
    chosen, found = run.in_span() or run.elsewhere(form.several)
    in_turn = form.several and (chosen.in_span or (chosen.one_kernel and objective.loss not in kernel.FILLS_LANES))
    return dataclasses.replace(chosen, several=form.several, in_turn=in_turn), found


def forget() -> None:
    """Drop what is remembered, as in a fresh process."""
    choose.cache_clear()


def _of_one_run(arguments: Any, several: bool) -> Any:
    """The arguments of one run, which stands for all."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), arguments) if several else arguments


@dataclasses.dataclass(frozen=True)
class _Run:
    """One run whose loop is to take a form; the arrays are abstract."""

    objective: Objective
    form: Form
    fed: bool
    data: Any
    method: Any
    x: Any
    state: Any
    indices: Any

    def in_span(self) -> tuple[Form, Fit] | None:
        """Steps in a span, where that is possible and worth it; in one kernel where they fit into one."""
        for wide in self._worthwhile_spans():
            with contextlib.suppress(span.OutOfSpanError):
                return self._in_this_span(wide)
        return None

    def _in_this_span(self, wide: bool) -> tuple[Form, Fit]:
        spanned = dataclasses.replace(self.form, in_span=True, wide=wide)
        if isinstance(self.form.devices, SplitRows):
            self._text(spanned)
            return spanned, Fit(False, "devices exchange inner products, which a kernel cannot do")
        if self.x.shape[1] > _kernel.LARGEST:
            self._text(spanned)
            return spanned, Fit(False, f"matrices of more than {_kernel.LARGEST} columns are slow in a kernel")
        in_kernel = dataclasses.replace(spanned, one_kernel=True)
        longest = kernel.LONGEST_AXIS if wide else kernel.LONGEST_IN_SPAN
        found = kernel.verdict(lambda: self._text(in_kernel), self.data, self.x, self.indices, longest)
        if found.fits:
            return in_kernel, found
        in_parts = dataclasses.replace(spanned, small_kernel=True)
        return (in_parts if kernel.is_known(self._text(in_parts)) else spanned), found

    def _worthwhile_spans(self) -> list[bool]:
        """The spans to try, short beside d: False for that of a point and a direction, True for the wide one."""
        if type(self.method) is not Method or getattr(self.x, "ndim", 0) != 2:
            return []
        samples: Any = self.data if self.indices is not None else None
        if getattr(samples, "ndim", 0) != 2 or samples.dtype != self.x.dtype:
            return []
        length, rank = self.x.shape
        memories, keeps_last = jax.tree.leaves(self.state[1:]), self.method.estimator.keeps_last
        if any(a.ndim > 2 or (a.ndim and length not in a.shape and a.size > rank * rank) for a in memories):
            return []
        wide = type(self.method.scaling) is not Identity or not keeps_last or any(a.ndim for a in memories)
        matrices = sum(a.shape == self.x.shape for a in memories) + (1 + 2 * keeps_last if wide else 2)
        of_pairs = not wide and self.method.evaluations == 2
        return [wide] if span.is_worth_it(length, rank, matrices, self.indices.shape[1], of_pairs) else []

    def elsewhere(self, several: bool) -> tuple[Form, Fit]:
        """Steps on the matrices themselves; in one kernel where it is known, or can be tried, that they fit."""
        if isinstance(self.form.devices, SplitRows):
            return self.form, Fit(False, "devices exchange inner products, which a kernel cannot do")
        if not kernel.is_tried(self.objective):
            found = self._promise_of_a_trial(several)
            in_kernel = dataclasses.replace(self.form, one_kernel=True, on_trial=True)
        else:
            in_kernel = dataclasses.replace(self.form, one_kernel=True)
            found = kernel.verdict(lambda: self._text(in_kernel), self.data, self.x, self.indices)
        if found.fits and not (several and self.objective.loss in kernel.FILLS_LANES):
            return in_kernel, found
        worth = self.indices is not None and factors.is_worth_it(self.data, self.indices.shape[-1])
        return dataclasses.replace(self.form, short_transposes=worth), found

    def _promise_of_a_trial(self, several: bool) -> Fit:
        """Whether to try a loss of which nothing is known; its gradient alone may speak against it."""
        if several:
            return Fit(False, "a loss that has not been tried: the runs of the sweep step together")
        found = kernel.promise(self.data, self.x, self.indices)
        if not found.fits:
            return found
        batch = jax.eval_shape(fetch, self.data, self.indices, 0)
        gradient = jax.jit(self.objective.gradient).lower(self.x, batch).as_text()
        objection = kernel.objection(gradient, kernel.LONGEST_GRADIENT)
        return Fit(False, f"the loss would not be tried: {objection}") if objection else found

    def _text(self, form: Form) -> str:
        """The loop's program in this form, in StableHLO; it raises `OutOfSpanError` where that is impossible."""
        arguments = (self.data, self.method, self.x, self.state, self.indices, np.asarray(1), np.asarray(1))
        return _programs.text(advance_in_form, (self.objective, form, self.fed), *arguments, options=LOOP_OPTIONS)
