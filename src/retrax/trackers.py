"""What a run records, sent to a tracker: each function makes an `on_record` for `minimize`.

    rx.minimize(problem, rx.rsrm(), steps=10_000, on_record=rx.trackers.tensorboard("runs/first"))

The packages are imported when a function here is called, and none of them is needed otherwise.
"""

import importlib
import math
import os
from collections.abc import Callable
from typing import Any

OnRecord = Callable[[int, dict[str, float]], Any]


def tensorboard(writer: Any, prefix: str = "") -> OnRecord:
    """Records as TensorBoard scalars.

    writer: a `SummaryWriter` (PyTorch's or tensorboardX's), or the folder for a new one. prefix: stands before the
    name of each column, as in "first/".
    """
    if isinstance(writer, str | os.PathLike):
        writer = _summary_writer()(os.fspath(writer))

    def on_record(step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            writer.add_scalar(prefix + name, value, step)
        writer.flush()

    return on_record


def wandb(run: Any = None, prefix: str = "") -> OnRecord:
    """Records as metrics of a Weights & Biases run: the one given, or the one that `wandb.init` has started."""
    if run is None:
        run = _package("wandb").run
        if run is None:
            raise ValueError("there is no Weights & Biases run: call wandb.init(...) first, or give run=")

    def on_record(step: int, metrics: dict[str, float]) -> None:
        run.log({prefix + name: value for name, value in metrics.items()}, step=step)

    return on_record


def mlflow(run_id: str | None = None, prefix: str = "") -> OnRecord:
    """Records as metrics of an MLflow run: the one named, or the active one. What is not finite is left out."""
    package = _package("mlflow")

    def on_record(step: int, metrics: dict[str, float]) -> None:
        finite = {prefix + name: value for name, value in metrics.items() if math.isfinite(value)}
        package.log_metrics(finite, step=step, **({} if run_id is None else {"run_id": run_id}))

    return on_record


def together(*callbacks: OnRecord) -> OnRecord:
    """All of these; the run stops if one of them says so."""

    def on_record(step: int, metrics: dict[str, float]) -> bool:
        answers = [callback(step, metrics) for callback in callbacks]
        return any(answers)

    return on_record


def _summary_writer() -> Any:
    """PyTorch's, else tensorboardX's."""
    for module in ("torch.utils.tensorboard", "tensorboardX"):
        try:
            return importlib.import_module(module).SummaryWriter
        except ImportError:
            continue
    raise ImportError("this needs TensorBoard's writer: pip install tensorboardX, or tensorboard beside PyTorch")


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ImportError(f"this needs {name}, which is not installed: pip install {name}") from None


__all__ = ["mlflow", "tensorboard", "together", "wandb"]
