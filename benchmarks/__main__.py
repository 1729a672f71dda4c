"""`python -m benchmarks [--brief] [--only SUITE] [--out DIR] [--write-docs]`: all measurements in one process."""

import argparse
import json
import pathlib
import time
import traceback
from collections.abc import Iterator
from typing import Any

import rich.console
import rich.markdown

from benchmarks import (
    accuracy,
    claims,
    docs,
    engine,
    first_call,
    growth,
    joint,
    machine,
    plots,
    races,
    report,
    scale,
    sizes,
    steps,
    variants,
)

SUITES = {
    "steps": steps.run,
    "growth": growth.run,
    "variants": variants.run,
    "sweep": engine.sweep,
    "first-call": first_call.run,
    "scale": scale.run,
    "races": races.run,
    "transports": engine.transports,
    "accuracy": accuracy.run,
    "joint": joint.run,
}
BRIEFLY = tuple(name for name in SUITES if name not in ("joint", "accuracy"))
"""What --brief runs: all but pyRiemann's rjd, which takes eight minutes, and the races without compiling."""
RESULTS = pathlib.Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure retrax side by side with others."
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--brief", action="store_true", help="what docs/performance.md shows: below half an hour")
    extent.add_argument("--quick", action="store_true", help="fewer problems and repetitions: some minutes")
    extent.add_argument("--tiny", action="store_true", help="only show that everything runs; the figures mean nothing")
    parser.add_argument("--only", choices=SUITES, action="append", help="this suite; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="where results go (default: %(default)s)")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the results into docs/performance.md; alone: the last ones"
    )
    options = parser.parse_args(arguments)
    path = options.out / "benchmarks.json"
    if options.write_docs and not (options.only or options.brief or options.quick or options.tiny):
        docs.write(json.loads(path.read_text(encoding="utf-8")), options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    size = sizes.TINY if options.tiny else sizes.QUICK if options.quick else sizes.FULL
    size = sizes.BRIEF if options.brief else size
    for results in run(size, options.only or (BRIEFLY if options.brief else SUITES)):
        path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if "growth" in results["suites"]:
        plots.draw(results["suites"]["growth"], options.out)
    (options.out / "benchmarks.md").write_text(report.markdown(results), encoding="utf-8")
    rich.console.Console().print(rich.markdown.Markdown(report.markdown(results)))
    print(f"Written: {path}")
    if options.write_docs:
        docs.write(results, options.out)


def run(size: sizes.Sizes, names: Any) -> Iterator[dict[str, Any]]:
    """The chosen suites in turn; after each, all results so far, so that none is lost if a later one fails."""
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:6.0f} s] {text}", flush=True)

    results: dict[str, Any] = {"machine": machine.describe(), "sizes": size.name, "suites": {}, "failed": {}}
    for name in SUITES:
        if name in names:
            try:
                results["suites"][name] = SUITES[name](size, say)
            except Exception as error:  # the others are worth having
                traceback.print_exc()
                results["failed"][name] = f"{type(error).__name__}: {error}"
            results["claims"] = claims.check(results["suites"])
            results["seconds"] = time.perf_counter() - started
            yield results


if __name__ == "__main__":
    main()
