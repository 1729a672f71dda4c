"""A checkpoint file of each format that a release wrote: read, or refused by name.

`python tests/reliability/test_old_checkpoints.py FILE` writes one of today's.
"""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import retrax as rx
from retrax.checkpoint import RefusedError, read

FILES = Path(__file__).with_name("checkpoints")


def loss(x, batch):
    return -((batch @ x) ** 2).mean()


def arguments():
    data = np.arange(60.0).reshape(20, 3) % 7 - 3
    return {"problem": rx.Problem(loss, rx.Sphere(3), data), "method": rx.rsrm(0.01), "record": 10, "seed": 1}


def write(path):
    """The run that is saved, after 20 steps."""
    run = rx.Run(**arguments())
    run.advance(20)
    run.save(path)


def test_format_1_is_refused_by_name():
    with pytest.raises(RefusedError, match=r"format 1, by Retrax before 0\.1\.0"):
        read(FILES / "format-1.ckpt")


def test_format_2_is_read():
    saved = read(FILES / "0.1.0-format-2.ckpt")
    assert saved.facts["position"]["step"] == 20
    assert abs(np.linalg.norm(saved.arrays[0]) - 1) < 1e-12
    if saved.facts["versions"]["jax"] != jax.__version__:
        pytest.skip("bits, and the programs by which losses are compared, are promised for one version of JAX")
    run = rx.Run.load(FILES / "0.1.0-format-2.ckpt", **arguments())
    undisturbed = rx.Run(**arguments())
    undisturbed.advance(30)
    run.advance(10)
    np.testing.assert_array_equal(run.x, undisturbed.x)


if __name__ == "__main__":
    write(sys.argv[1])
