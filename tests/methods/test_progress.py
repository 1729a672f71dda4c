"""The progress line, as a terminal would show it."""

import io
import re
import time

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import retrax as rx


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal of 120 columns receives."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    return text


def problem(seconds=0.0):
    """A quadratic whose gradient takes its time."""

    def gradient(x, batch):
        time.sleep(seconds)
        return 2 * x

    data = np.ones((5, 3))
    return rx.Problem(lambda x, batch: jnp.sum(x**2) + 0 * jnp.sum(batch), rx.Euclidean(3), data, gradient=gradient)


def positions(terminal, steps):
    """The step counts that the line has shown, in order."""
    return [int(found) for found in re.findall(rf"(\d+)/{steps}\b", terminal.getvalue())]


def test_the_bar_moves_with_the_steps_and_not_with_the_records(terminal):
    """Nothing is recorded on the way: 300 steps of 4 ms, in stretches of about a quarter of a second."""
    rx.minimize(problem(0.004), rx.rsgd(0.01), steps=300, record=300, batch_size=1, driver="eager", progress=True)
    shown = positions(terminal, 300)
    assert shown[0] == 0
    assert shown[-1] == 300
    assert shown == sorted(shown)
    assert [step for step in shown if 0 < step < 300], "the bar stood still"
    assert "RSGD" in terminal.getvalue()


def test_a_sweep_shows_each_method_and_its_best_run(terminal):
    swept = rx.sweep(problem(), [rx.rsgd, rx.rsrm], [0.01, 0.1], 2, steps=20, record=10, batch_size=1, progress=True)
    text = terminal.getvalue()
    assert positions(terminal, 20)[-1] == 20
    for name in ("RSGD", "RSRM"):
        assert name in text
        assert f"loss {swept[name].curves['loss'][..., -1].min():.3e}" in text


def test_no_line_where_nobody_looks(terminal, capsys):
    rx.minimize(problem(), rx.rsgd(0.01), steps=5, batch_size=1)
    assert terminal.getvalue() == ""
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("progress", "slow", "said"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_first_call_that_lasts_says_what_it_does(terminal, capsys, monkeypatch, progress, slow, said):
    monkeypatch.setattr("retrax.progress._SECONDS_OF_SILENCE", 0.2 if slow else 60)

    def compile_slowly(self, x, state, payload):
        time.sleep(0.5)

    monkeypatch.setattr("retrax.drivers.eager.EagerDriver.compile_advance", compile_slowly)
    rx.minimize(problem(), rx.rsgd(0.01), steps=3, record=3, batch_size=1, driver="eager", progress=progress)
    assert ("RSGD: compiling its steps" in terminal.getvalue()) == said
    assert capsys.readouterr().err == ""
