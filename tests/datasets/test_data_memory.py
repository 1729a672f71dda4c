"""Arrays that XLA takes without a copy, and reading .npy files into them."""

import jax.numpy as jnp
import numpy as np
import pytest

from retrax._precision import precision
from retrax.datasets.memory import aligned_empty, read_npy


@pytest.mark.parametrize("shape", [(1000, 7), (3, 5, 5), (1,), (0, 4)])
def test_a_device_array_is_the_same_memory(shape):
    array = aligned_empty(shape)
    array[...] = 1.5
    with precision("float64"):
        on_device = jnp.asarray(array)
    assert on_device.shape == shape
    assert array.size == 0 or on_device.unsafe_buffer_pointer() == array.ctypes.data


def test_reading_what_numpy_wrote(tmp_path):
    array = np.random.default_rng(0).standard_normal((40, 3, 3))
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), array)


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:60], lambda b: b"", lambda b: b"PK" + b]
)
def test_damaged_files_are_refused(tmp_path, change):
    np.save(tmp_path / "a.npy", np.ones((40, 3)))
    path = tmp_path / "b.npy"
    path.write_bytes(change((tmp_path / "a.npy").read_bytes()))
    with pytest.raises(ValueError, match=r"magic|EOF|length"):
        read_npy(path)


def test_objects_are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle of Python objects"):
        read_npy(tmp_path / "objects.npy")


def test_columns_are_read_as_well(tmp_path):
    array = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    np.save(tmp_path / "columns.npy", array)
    np.testing.assert_array_equal(read_npy(tmp_path / "columns.npy"), array)
