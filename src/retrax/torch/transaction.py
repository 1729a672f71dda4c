"""All or nothing: parameters and state stay as they were until one call has replaced all of them."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from retrax.torch.parameters import local, plain


class Transaction:
    """What a step may have to undo.

    Parameters are written by one call for all of them, and so is the state: an exception of Python's, also Ctrl-C, then
    comes before or after, never between two parameters. Whatever it interrupts, `roll_back` puts things right.
    """

    def __init__(self, state: MutableMapping[Tensor, Any]) -> None:
        self._state = state
        self._homes: list[tuple[Tensor, Tensor]] = []
        self._replaced: dict[Tensor, Any] = {}
        self._written: list[tuple[Tensor, Tensor]] = []

    def leave(self, points: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
        """Move parameters to other points for a while; gives where they were, as copies, until `come_home`."""
        homes = {parameter: plain(parameter).clone() for parameter in points}
        self._homes = _pairs(homes)
        _write(_pairs(points))
        return homes

    def come_home(self) -> None:
        """Move the parameters back."""
        _write(self._homes)
        self._homes = []

    def commit(self, points: Sequence[tuple[Tensor, Tensor]], states: dict[Tensor, Any]) -> None:
        """Every parameter to its new point, with its new state."""
        written = [pair for parameter, point in points for pair in _pairs({parameter: point})]
        self._replaced = {parameter: self._state.get(parameter) for parameter in states}
        self._written = written
        self._state.update(states)
        _write(written)
        self._replaced = {}

    def roll_back(self) -> None:
        """As before the step; or, if the parameters have all been written, as after it."""
        if self._homes:
            self.come_home()
        if self._replaced and not all(torch.equal(parameter, point) for parameter, point in self._written):
            for parameter, state in self._replaced.items():
                if state is None:
                    self._state.pop(parameter, None)
                else:
                    self._state[parameter] = state
        self._replaced = {}


def _pairs(points: Mapping[Tensor, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """(memory of the parameter, what is to stand in it): of a parameter in shards, this process's."""
    return [local(parameter, point) for parameter, point in points.items()]


def _write(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """One call into torch for all parameters, so that nothing of Python can come in between."""
    if pairs:
        torch._foreach_copy_([memory for memory, _ in pairs], [point for _, point in pairs])
