"""Arrays of other libraries: with scikit-learn's `array_api_dispatch` on, results are of the library of what was given.

Everything is computed in NumPy, or by Retrax's own methods, so that arrays are moved to the processor and results back.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils._array_api import get_namespace_and_device, move_to

_METHODS = (
    "fit",
    "partial_fit",
    "fit_transform",
    "transform",
    "inverse_transform",
    "predict",
    "predict_proba",
    "score",
    "score_samples",
)


class AnyLibrary:
    """Lets the methods of subclasses take and give arrays of any library with the array API standard."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for name in _METHODS:
            if name in cls.__dict__:
                setattr(cls, name, _in_numpy(cls.__dict__[name]))


def _in_numpy(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def converted(self: Any, X: Any, *others: Any, **named: Any) -> Any:
        if not get_config()["array_api_dispatch"] or not hasattr(X, "shape") or isinstance(X, np.ndarray):
            return method(self, X, *others, **named)
        library, is_standard, device = get_namespace_and_device(X)
        if not is_standard:
            return method(self, X, *others, **named)
        to_numpy = lambda one: move_to(one, xp=np, device="cpu") if hasattr(one, "shape") else one  # noqa: E731
        with config_context(array_api_dispatch=False):
            found = method(self, to_numpy(X), *map(to_numpy, others), **{k: to_numpy(v) for k, v in named.items()})
        return _moved(found, library, device)

    return converted


def _moved(found: Any, library: Any, device: Any) -> Any:
    """Arrays of numbers to a library and a device; labels that are words, models and numbers stay what they are."""
    if isinstance(found, tuple):
        return tuple(_moved(one, library, device) for one in found)
    numbers = isinstance(found, np.ndarray) and found.dtype.kind in "fiub"
    return library.asarray(found, device=device) if numbers else found
