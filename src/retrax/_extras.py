"""Optional dependencies: what a missing one is called, and which extra brings it."""

import importlib
from typing import Any

_EXTRA = {
    "matplotlib": "experiments",
    "PIL": "experiments",
    "platformdirs": "experiments",
    "pooch": "experiments",
    "requests": "experiments",
    "rich": "experiments",
    "sklearn": "sklearn",
}


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to install it."""


def explain(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The same error in words that help, if the missing module is one of the optional dependencies."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA:
        return None
    return MissingExtraError(f'this needs {module}, which is not installed: pip install "retrax[{_EXTRA[module]}]"')


def optional(module: str) -> Any:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        explained = explain(error)
        if explained is None:
            raise
        raise explained from error
