"""Compiled programs: a process may see any number of losses and stay within its memory."""

import gc

import jax
import jax.numpy as jnp
import numpy as np

import retrax as rx
from retrax import _programs as programs
from retrax.drivers import choosing

X = np.random.default_rng(0).standard_normal((20, 3))


def run_with_a_new_loss():
    """A run whose loss nobody else has; returns how many programs the process then holds."""
    rx.minimize(
        rx.Problem(lambda U, batch: -jnp.mean((batch @ U) ** 2), rx.Sphere(3), X), rx.rsgd(0.1), steps=3, record=3
    )
    gc.collect()
    return len(jax.devices()[0].client.live_executables())


def test_the_programs_of_losses_that_are_no_longer_used_are_dropped(monkeypatch):
    monkeypatch.setattr(programs, "MOST", 3)
    first = run_with_a_new_loss()
    assert [run_with_a_new_loss() for _ in range(2)] == [first, first]
    assert len(programs._kept) == 3


def test_a_program_is_traced_once_and_the_form_of_its_loop_decided_once(monkeypatch):
    """What decides how steps are taken looks at the program that is then compiled."""
    lowered, original = [], programs._precision.lowered
    monkeypatch.setattr(programs._precision, "lowered", lambda *given: lowered.append(given) or original(*given))
    programs.forget()
    choosing.forget()
    for _ in range(2):
        rx.minimize(rx.problems.PCA(np.tile(X, 10), 1), rx.rsgd(0.1), steps=3, record=3, batch_size=2)
        assert len(lowered) == 3  # the first batch, the other steps, the records


def test_a_second_run_compiles_nothing(monkeypatch):
    problem = rx.problems.PCA(X, 1)
    rx.minimize(problem, rx.rsgd(0.1), steps=3, record=3)
    before = list(programs._kept)
    monkeypatch.setattr(programs.jax, "jit", None)  # whatever compiles now fails
    rx.minimize(problem, rx.rsgd(0.2), steps=3, record=3)
    assert set(programs._kept) == set(before)
