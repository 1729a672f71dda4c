"""Names of programs on disk: the same for the same program in every process, and another for any other."""

import dataclasses
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import retrax as rx
from retrax import _names as names
from retrax import _programs as programs
from retrax.drivers.devices import OneDevice
from retrax.drivers.loops import Form, restart
from retrax.problems import pca
from retrax.problems.base import Objective

POINT = jax.ShapeDtypeStruct((4, 2), np.dtype("float64"))
OBJECTIVE = Objective(pca.loss, rx.Grassmann(4, 2), riemannian_gradient=pca.riemannian_gradient)
FORM = Form(OneDevice())
STATICS = (OBJECTIVE, FORM, 3)


def name(function=restart, statics=STATICS, arguments=None, leaf=POINT, options=None):
    arguments = (np.zeros(leaf.shape, leaf.dtype), rx.rsrm()) if arguments is None else arguments
    return names.of_parts(function, statics, arguments, [leaf], options)


@dataclasses.dataclass(frozen=True)
class Foreign:
    """Somebody else's."""

    number: int = 3


class ForeignTuple(NamedTuple):
    """Somebody else's."""

    number: int = 3


class ForeignSphere(rx.Sphere):
    """Somebody else's manifold: its class is not ours, whatever it inherits."""


def foreign(x, batch):
    return pca.loss(x, batch)


OTHERS = {
    "function": {"function": names.of_text},
    "manifold": {"statics": (dataclasses.replace(OBJECTIVE, manifold=rx.Grassmann(5, 2)), FORM, 3)},
    "choice": {"statics": (dataclasses.replace(OBJECTIVE, manifold=rx.Grassmann(4, 2, retraction="qr")), FORM, 3)},
    "kind of manifold": {"statics": (dataclasses.replace(OBJECTIVE, manifold=rx.Stiefel(4, 2)), FORM, 3)},
    "gradient": {"statics": (dataclasses.replace(OBJECTIVE, riemannian_gradient=None), FORM, 3)},
    "form": {"statics": (OBJECTIVE, dataclasses.replace(FORM, several=True), 3)},
    "number": {"statics": (OBJECTIVE, FORM, 4)},
    "kind of number": {"statics": (OBJECTIVE, FORM, 3.0)},
    "method": {"arguments": (np.zeros((4, 2)), rx.rsgd(0.1))},
    "absence": {"arguments": (None, rx.rsrm())},
    "structure": {"arguments": ((np.zeros((4, 2)),), rx.rsrm())},
    "shape": {"leaf": jax.ShapeDtypeStruct((2, 4), np.dtype("float64"))},
    "dtype": {"leaf": jax.ShapeDtypeStruct((4, 2), np.dtype("float32"))},
    "options": {"options": {"xla_cpu_multi_thread_eigen": False}},
}


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_differs_gives_another_name(what):
    assert name() == name()
    assert len({name(), name(**OTHERS[what])} - {None}) == 2


def test_numbers_of_a_method_are_data():
    methods = [jax.tree.map(np.asarray, rx.rsrm(rate)) for rate in (0.1, 0.2)]
    found = [name(arguments=(np.zeros((4, 2)), method)) for method in methods]
    assert found[0] == found[1] is not None


FOREIGN = {
    "function": foreign,
    "lambda": lambda x, batch: 0.0,
    "dataclass": Foreign(),
    "named tuple": ForeignTuple(),
    "class": Foreign,
    "manifold": ForeignSphere(4),
    "factor": rx.Product((rx.Sphere(3), ForeignSphere(4))),
    "array": np.zeros(3),
    "JAX's": jnp.sum,
    "object": object(),
    "far inside": {"a": [Foreign()]},
}


@pytest.mark.parametrize("part", FOREIGN)
def test_what_is_somebody_elses_has_no_name(part):
    assert name(statics=(FOREIGN[part],)) is None


def test_arrays_on_devices_of_ones_choice_have_no_name():
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    assert name(leaf=jax.ShapeDtypeStruct((4, 2), np.dtype("float64"), sharding=place)) is None


def test_a_part_that_somebody_replaced_has_no_name(monkeypatch):
    """Neither the old function, which is no longer what its name says, nor the new one."""
    monkeypatch.setattr(pca, "loss", foreign)
    assert name() is None
    assert name(statics=(dataclasses.replace(OBJECTIVE, loss=foreign),)) is None


def test_settings_are_part_of_a_name(monkeypatch):
    before = name()
    with jax.default_matmul_precision("bfloat16"):
        assert name() != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert name() != before


def test_the_source_is_part_of_a_name(monkeypatch, tmp_path):
    """One character of any file, and it is another program."""
    before = name()
    file = tmp_path / "retrax" / "_names.py"
    file.parent.mkdir()
    file.write_text("")
    monkeypatch.setattr(names, "__file__", str(file))
    names._own_source.cache_clear()
    found = [name()]
    (file.parent / "manifolds.py").write_text("a = 1")
    names._own_source.cache_clear()
    found.append(name())
    file.unlink()
    (file.parent / "manifolds.py").unlink()
    names._own_source.cache_clear()
    assert name() is None  # not in a folder that can be read
    monkeypatch.undo()
    names._own_source.cache_clear()
    assert name() == before
    assert len({before, *found}) == 3


def test_every_process_gives_the_same_name():
    script = "from tests.reliability.test_names import name; print(name())"
    root = pathlib.Path(__file__).parents[2]
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] != "None"


PROBLEMS = {
    "PCA": lambda: rx.problems.PCA(np.random.default_rng(0).standard_normal((30, 6)), 2),
    "joint": lambda: rx.problems.JointDiagonalization(np.stack([np.diag(np.arange(1.0, 4) + k) for k in range(9)])),
    "centroid": lambda: rx.problems.Centroid(np.stack([np.diag(np.arange(1.0, 4) + k) for k in range(9)])),
}
METHODS = [rx.rsrm(0.1), rx.rsrm(), rx.rsgd(0.1), rx.crmsprop(0.1), rx.rasa(0.1), rx.rsvrg(0.1), rx.rdog()]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_ready_made_problems_and_methods_have_names(monkeypatch, problem, method):
    found, original = [], names.of_parts
    monkeypatch.setattr(names, "of_parts", lambda *given: found.append(original(*given)))
    monkeypatch.setattr("retrax._cache.is_on", lambda: True)
    programs.forget()
    rx.minimize(PROBLEMS[problem](), method, steps=2, record=2, batch_size=2)
    assert len(found) >= 3
    assert None not in found
