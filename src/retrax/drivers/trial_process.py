"""The script of a process that compiles one program, takes a step of it on zeros, and hands its machine code back.

Whatever happens to it happens to nobody else. It knows neither Retrax nor JAX: jaxlib alone is there in a tenth of a
second. Its arguments are where to import from and how long it may live; the request comes by stdin: a line of JSON with
the compiler's options and the arguments' shapes and types, then the program in StableHLO.
"""

import contextlib
import json
import math
import mmap
import os
import signal
import sys
import types
from typing import Any


def main(places: str, seconds: str) -> None:
    """Answer one request."""
    sys.path[:0] = places.split(os.pathsep)
    _restrain(int(seconds))
    answer = os.dup(1)
    os.dup2(2, 1)  # What a library prints is no part of the answer.
    from jaxlib import xla_client

    client: Any = xla_client.make_cpu_client()
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    request = json.loads(sys.stdin.buffer.readline())
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(request["options"].items())
    options.executable_build_options.use_spmd_partitioning = True  # as JAX sets it
    options.executable_build_options.use_shardy_partitioner = request["shardy"]
    program = client.compile_and_load(sys.stdin.buffer.read(), devices, options)
    _take_a_step(client, program, request["arguments"])
    with open(answer, "wb") as file:
        file.write(client.serialize_executable(program))


def _restrain(seconds: int) -> None:
    """Leave no core file, and do not outlive whoever waits."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _take_a_step(client: Any, program: Any, arguments: list[tuple[list[int], str]]) -> None:
    import numpy as np

    _stand_in_for_jax()

    def argument(shape: list[int], dtype: str) -> Any:
        if not shape:
            return np.ones((), dtype)
        # Pages that nobody writes to take no memory, however many samples there are.
        pages = mmap.mmap(-1, max(1, math.prod(shape) * np.dtype(dtype).itemsize))
        return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)

    given = [client.buffer_from_pyval(argument(*kind)) for kind in arguments]
    for (result,) in program.execute_sharded(given).disassemble_into_single_device_arrays():
        result.block_until_ready()


def _stand_in_for_jax() -> None:
    """What jaxlib asks JAX for when it makes an array: a description. JAX itself would take longer than compiling."""
    jax, core = types.ModuleType("jax"), types.ModuleType("jax.core")
    jax.core, core.ShapedArray = core, lambda *_, **__: None  # type: ignore[attr-defined]
    sys.modules.update({"jax": jax, "jax.core": core})


if __name__ == "__main__":
    main(*sys.argv[1:])
