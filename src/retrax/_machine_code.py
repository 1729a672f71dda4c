"""Programs whose machine code comes from elsewhere: from another process, or from the disk."""

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from retrax import _cache, _precision

_DEFAULTS = {
    "jax_disable_most_optimizations": False,
    "jax_default_device": None,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
}
"""Settings of JAX that would have to be another process's too, or to hold for a program that JAX does not call."""


def is_possible() -> bool:
    """Whether loaded programs run here, as far as that was tested: on one CPU device."""
    return (
        jax.default_backend() == "cpu"
        and jax.device_count() == 1
        and all(_precision.setting(name) == value for name, value in _DEFAULTS.items())
    )


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A program whose machine code came from elsewhere."""

    executable: Any
    client: Any
    dtypes: tuple[Any, ...]
    """Those of its arguments."""
    results: Any
    """The structure of what it returns."""

    def __call__(self, *arguments: Any) -> Any:
        """Its results for arguments of the shapes that it was compiled for."""
        leaves = list(map(self._on_device, jax.tree.leaves(arguments), self.dtypes))
        results = self.executable.execute_sharded(leaves).disassemble_into_single_device_arrays()
        return jax.tree.unflatten(self.results, [result for (result,) in results])

    def _on_device(self, leaf: Any, dtype: Any) -> Any:
        """`jax.device_put` would take as long as dozens of steps."""
        return leaf if isinstance(leaf, jax.Array) else self.client.buffer_from_pyval(np.asarray(leaf, dtype))


def loaded(machine_code: bytes, dtypes: Sequence[Any], results: Any) -> Loaded | None:
    """The program, for arguments of these dtypes; None where this version of jaxlib loads programs in another way."""
    try:
        from jaxlib import xla_client

        device = jax.devices()[0]
        with _cache.quietly():
            executable = device.client.deserialize_executable(
                machine_code, executable_devices=xla_client.DeviceList((device,))
            )
        return Loaded(executable, device.client, tuple(dtypes), results)
    except Exception:  # Another version's jaxlib may call all of this something else; compiling always works.
        return None


def found(name: str, arguments: tuple[Any, ...], leaves: Sequence[jax.ShapeDtypeStruct]) -> Loaded | None:
    """The program that `keep` has written under this name, if it is there."""
    content = _cache.read(name)
    if content is None:
        return None
    head, _, machine_code = content.partition(b"\n")
    facts = json.loads(head)
    if facts["lapack"]:
        _make_lapack_known()
    return loaded(machine_code, [leaf.dtype for leaf in leaves], _structure(facts["results"], arguments))


def keep(name: str, lowered: Any, executable: Any, arguments: tuple[Any, ...]) -> None:
    """Write a program for the next process, if that can load it."""
    results = _in_words(jax.tree.structure(lowered.out_info), arguments)
    calls = re.findall(r"custom_call @(\w+)", lowered.as_text())
    if results is None or not all(call.startswith("lapack_") for call in calls):
        return
    try:
        machine_code = jax.devices()[0].client.serialize_executable(executable)
    except Exception:  # See `loaded`.
        return
    _cache.write(name, json.dumps({"results": results, "lapack": bool(calls)}).encode() + b"\n" + machine_code)


def _in_words(structure: Any, arguments: tuple[Any, ...]) -> Any:
    """What a program returns: like argument number i, like those from i to j, or a dict of arrays with these names."""
    for i, argument in enumerate(arguments):
        if jax.tree.structure(argument) == structure:
            return i
        for j in range(i + 1, len(arguments) + 1):
            if jax.tree.structure(arguments[i:j]) == structure:
                return [i, j]
    kind, names = structure.node_data() or (None, None)
    return names if kind is dict and _structure(names, ()) == structure else None


def _structure(words: Any, arguments: tuple[Any, ...]) -> Any:
    """What `_in_words` has described."""
    if isinstance(words, int):
        return jax.tree.structure(arguments[words])
    if all(isinstance(word, int) for word in words):
        return jax.tree.structure(arguments[slice(*words)])
    return jax.tree.structure(dict.fromkeys(words, 0))


def _make_lapack_known() -> None:
    """JAX finds LAPACK when it first lowers a call of it, and machine code calls what was found."""
    _precision.lowered(jax.jit(jax.lax.linalg.cholesky), jax.ShapeDtypeStruct((1, 1), np.float32))
