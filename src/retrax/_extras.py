"""Optional dependencies: what a missing one is called, and which extra brings it."""

import importlib
from typing import Any

_EXTRA: dict[str, str | None] = {
    "matplotlib": "experiments",
    "PIL": "experiments",
    "platformdirs": "experiments",
    "pooch": "experiments",
    "requests": "experiments",
    "rich": "experiments",
    "sklearn": "sklearn",
    "pandas": None,
}


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says how to install it."""


def explain(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The same error in words that help, if the missing module is one of the optional dependencies."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA:
        return None
    return MissingExtraError(f"this needs {module}, which is not installed: {advice(module, _EXTRA[module])}")


def advice(module: str, extra: str | None) -> str:
    """What to type to have a module: the extra that brings it, or itself where none does."""
    if extra is None:
        return f"pip install {module}"
    return f'pip install "retrax[{extra}]", or ".[{extra}]" in a checkout'


def optional(module: str) -> Any:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        explained = explain(error)
        if explained is None:
            raise
        raise explained from error
