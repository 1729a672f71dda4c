"""One measurement in a process of its own: `python -m benchmarks.estimators.worker MODULE FUNCTION JSON`.

Prints what the function returns, as JSON. Peak memory is of one contender only because nothing else ran before it.
"""

import importlib
import json
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any


def private_megabytes() -> float:
    """Memory that belongs to this process alone: pages of mapped files do not count, whoever reads them."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("RssAnon is not told here: these figures need Linux")


class Meter:
    """Seconds, processor seconds and the peak of private memory above its value at the start, of a `with` block."""

    def __enter__(self) -> "Meter":
        self._before = self._peak = private_megabytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.processor = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self._done.set()
        self._thread.join()
        self.megabytes = max(self._peak, private_megabytes()) - self._before

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._peak = max(self._peak, private_megabytes())

    def as_dict(self) -> dict[str, float]:
        """For the JSON file."""
        return {"seconds": self.seconds, "processor": self.processor, "megabytes": self.megabytes}


def measure(function: str, **arguments: Any) -> dict[str, Any]:
    """Run `module:function` with these arguments in a new process."""
    module, _, name = function.partition(":")
    command = [sys.executable, "-m", "benchmarks.estimators.worker", module, name, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{function} {arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    given_module, given_name, given_arguments = sys.argv[1:]
    print(json.dumps(getattr(importlib.import_module(given_module), given_name)(**json.loads(given_arguments))))
