"""`python -m tests.fuzz --calls N`: so many calls in processes of their own, and a summary of how they ended.

An abort or a hang ends a worker, not the fuzzer: the call that it was in is a finding. Exit status 1 if there was an
abort, a hang or a silent wrong result, or if less than 99 % of the refusals are in our own words.
"""

import argparse
import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PER_WORKER, PER_REPORT = 50_000, 500
MOST_MAPS = 30_000
"""Memory maps of a worker, of which compiled programs keep many; a process may have 65,530."""
MOST_BYTES = 4 << 30
"""A worker's memory, so that a size that makes no sense does not take that of the machine."""
PATIENCE = 1500.0
"""Seconds of the clock after which a call that even its own alarm does not end is given up, on a busy machine too."""


def work(first: int, count: int, place: str) -> None:
    """A worker: it writes the number of each call into a file before it makes it, and tells how calls ended."""
    from tests.fuzz.calls import BAD, call

    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    ends: collections.Counter[str] = collections.Counter()
    descriptor = os.open(place, os.O_WRONLY)
    for number in range(first, first + count):
        os.pwrite(descriptor, b"%20d" % number, 0)
        name, end, words = call(number)
        ends[f"{name}\t{end}"] += 1
        if end in BAD:
            print("\t".join(("found", str(number), name, end, words)).replace("\n", " "), flush=True)
        last = number == first + count - 1
        if last or (number - first + 1) % PER_REPORT == 0:
            print("ends\t" + json.dumps(ends), flush=True)
            ends.clear()
            if len(Path("/proc/self/maps").read_bytes().splitlines()) > MOST_MAPS:
                return


class Fuzzer:
    """Calls in workers, one after the other; how they ended, by what was called, and what was found."""

    def __init__(self) -> None:
        self.ends: collections.Counter[tuple[str, str]] = collections.Counter()
        self.findings: list[str] = []

    def run(self, first: int, calls: int, seconds: float) -> None:
        """Make calls until there are enough, or time is up."""
        deadline, number = time.monotonic() + seconds, first
        while number < first + calls and time.monotonic() < deadline:
            number = self._watch(number, min(PER_WORKER, first + calls - number), deadline) + 1

    def _watch(self, first: int, count: int, deadline: float) -> int:
        """Run a worker; returns the number of the last call that it began."""
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        with tempfile.NamedTemporaryFile() as place:
            command = [sys.executable, "-m", "tests.fuzz", "--worker", str(first), str(count), place.name]
            worker = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
            )
            listener = threading.Thread(target=self._listen, args=(worker,))
            listener.start()
            begun, since, stopped = first - 1, time.monotonic(), ""
            while worker.poll() is None and not stopped:
                listener.join(0.2)
                number = int(Path(place.name).read_bytes() or first - 1)
                if number != begun:
                    begun, since = number, time.monotonic()
                if time.monotonic() > deadline:
                    stopped = "time is up"
                elif time.monotonic() - since > PATIENCE:
                    stopped = "HANG"
            if stopped:
                worker.kill()
            worker.wait()
            listener.join()
            begun = int(Path(place.name).read_bytes() or first)
        if stopped == "HANG" or (not stopped and worker.returncode != 0):
            end = stopped or "ABORT"
            self.ends["?", end] += 1
            self.findings.append(f"{begun}\t?\t{end}\tthe process ended with {worker.returncode}")
        return begun

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            kind, rest = line.rstrip("\n").split("\t", 1)
            if kind == "found":
                self.findings.append(rest)
            else:
                for key, count in json.loads(rest).items():
                    name, end = key.split("\t")
                    self.ends[name, end] += count

    def total(self, *ends: str) -> int:
        """How many calls ended so."""
        return sum(count for (_, end), count in self.ends.items() if end in ends)

    def report(self, seconds: float) -> bool:
        """Print the findings and a summary; returns whether nothing bad was found."""
        from tests.fuzz.calls import OURS, REFUSALS

        for finding in self.findings:
            print(finding)
        names = sorted({name for name, _ in self.ends})
        for name in names:
            print(f"{name}: " + ", ".join(f"{n} {end}" for (one, end), n in self.ends.most_common() if one == name))
        ours, refusals = self.total(OURS), self.total(*REFUSALS)
        aborts, hangs, silent = self.total("ABORT"), self.total("HANG"), self.total("SILENT")
        print(
            f"{self.ends.total()} calls in {seconds:.0f} s ({self.ends.total() / max(seconds, 1e-9):.0f} a second): "
            f"{aborts} aborts, {hangs} hangs, {silent} silent wrong results; "
            f"of {refusals} refusals {100 * ours / max(refusals, 1):.3f} % in our own words"
        )
        return not (aborts or hangs or silent) and ours >= 0.99 * refusals


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0, help="the number of the first call")
    parser.add_argument("--only", type=int, help="make one call, here, and show its end")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        first, count, place = arguments.worker
        work(int(first), int(count), place)
        return 0
    if arguments.only is not None:
        from tests.fuzz.calls import call

        print(*call(arguments.only), sep="\n")
        return 0
    fuzzer, start = Fuzzer(), time.monotonic()
    fuzzer.run(arguments.seed, arguments.calls, arguments.seconds)
    return 0 if fuzzer.report(time.monotonic() - start) else 1


if __name__ == "__main__":
    sys.exit(main())
