"""Records reach TensorBoard, Weights & Biases and MLflow as these expect them; stand-ins take the packages' place."""

import sys
import types

import numpy as np
import pytest

import retrax as rx


@pytest.fixture(scope="module")
def problem():
    return rx.problems.PCA(np.random.default_rng(0).standard_normal((50, 4)) * [4, 3, 2, 1], 2)


def run(problem, on_record):
    return rx.minimize(problem, rx.rsgd(0.01), steps=20, record=10, on_record=on_record)


class Writer:
    def __init__(self, folder=None):
        self.folder, self.scalars, self.flushed = folder, [], 0
        made.append(self)

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        self.flushed += 1


made = []


def test_tensorboard(problem):
    writer = Writer()
    history = run(problem, rx.trackers.tensorboard(writer, prefix="a/")).history
    losses = [(step, value) for name, value, step in writer.scalars if name == "a/loss"]
    assert losses == list(zip(history["step"], history["loss"], strict=True))[-len(losses) :]
    assert writer.flushed == len(losses) >= 2


def test_tensorboard_in_a_folder(problem, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=Writer))
    run(problem, rx.trackers.tensorboard(tmp_path / "runs"))
    assert made[-1].folder == str(tmp_path / "runs")
    assert made[-1].scalars
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        rx.trackers.tensorboard(str(tmp_path))


def test_wandb(problem, monkeypatch):
    logged = []
    active = types.SimpleNamespace(log=lambda metrics, step: logged.append((step, metrics)))
    package = types.SimpleNamespace(run=None)
    monkeypatch.setitem(sys.modules, "wandb", package)
    with pytest.raises(ValueError, match=r"wandb\.init"):
        rx.trackers.wandb()
    package.run = active
    run(problem, rx.trackers.wandb(prefix="b/"))
    assert logged[-1][0] == 20
    assert "b/gap" in logged[-1][1]
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="pip install wandb"):
        rx.trackers.wandb()


def test_mlflow(monkeypatch):
    logged = []
    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(log_metrics=lambda *a, **k: logged.append((a, k))))
    rx.trackers.mlflow()(3, {"loss": 1.0, "rho": float("nan")})
    rx.trackers.mlflow("abc", prefix="c/")(4, {"loss": 2.0})
    assert logged == [(({"loss": 1.0},), {"step": 3}), (({"c/loss": 2.0},), {"step": 4, "run_id": "abc"})]


def test_together_calls_all_and_stops_if_one_says_so():
    seen = []
    both = rx.trackers.together(lambda step, row: True, lambda step, row: seen.append(step))
    assert both(7, {}) is True
    assert seen == [7]
    assert rx.trackers.together(lambda step, row: None)(1, {}) is False
