"""`python -m tests.fuzz --calls N`: so many calls in processes of their own, and a summary of how they ended.

An abort ends a worker, not the fuzzer: the call that it was in is a finding. Exit status 1 if there was an abort, a
hang or a silent wrong result, or if less than 99 % of the refusals are in our own words.
"""

import argparse
import collections
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PER_WORKER = 2000


def work(first: int, count: int) -> None:
    """A worker: one line for each call, written before and after."""
    from tests.fuzz.calls import call

    for number in range(first, first + count):
        print(f"begin\t{number}", flush=True)
        print("\t".join(("end", str(number), *call(number))).replace("\n", " "), flush=True)


def fuzz(first: int, calls: int, seconds: float) -> tuple[collections.Counter[str], list[str]]:
    """Make calls until there are enough, or time is up: how they ended, and what was found."""
    ends: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    start, number = time.monotonic(), first
    while number < first + calls and time.monotonic() - start < seconds:
        count = min(PER_WORKER, first + calls - number)
        reached = _watch_worker(number, count, start + seconds, ends, findings)
        number = reached + 1
    return ends, findings


def _watch_worker(first: int, count: int, deadline: float, ends: collections.Counter[str], findings: list[str]) -> int:
    """Run a worker; returns the number of the last call that it began."""
    command = [sys.executable, "-m", "tests.fuzz", "--worker", str(first), str(count)]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    begun = first
    assert worker.stdout is not None
    for line in worker.stdout:
        kind, number, *rest = line.rstrip("\n").split("\t")
        if kind == "begin":
            begun = int(number)
            continue
        ends[rest[1]] += 1
        if rest[1] not in ("good", "ours"):
            findings.append("\t".join((number, *rest)))
        if time.monotonic() > deadline:
            worker.kill()
            worker.wait()
            return begun
    if worker.wait() != 0:
        ends["ABORT"] += 1
        findings.append(f"{begun}\t\tABORT\tthe process ended with {worker.returncode}")
    return begun


def verdict(ends: collections.Counter[str]) -> bool:
    """Whether nothing bad was found."""
    refusals = ends["ours"] + ends["foreign words"] + ends["wrong type"]
    return not (ends["ABORT"] or ends["HANG"] or ends["SILENT"]) and ends["ours"] >= 0.99 * refusals


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0, help="the number of the first call")
    parser.add_argument("--only", type=int, help="make one call, here, and show its end")
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return 0
    if arguments.only is not None:
        from tests.fuzz.calls import call

        print(*call(arguments.only), sep="\n")
        return 0
    ends, findings = fuzz(arguments.seed, arguments.calls, arguments.seconds)
    for finding in findings:
        print(finding)
    print(f"{ends.total()} calls: " + ", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return 0 if verdict(ends) else 1


if __name__ == "__main__":
    sys.exit(main())
