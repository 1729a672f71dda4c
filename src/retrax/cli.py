"""The command `retrax`: list, run and report the experiments, and look after the data. A thin shell."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from retrax._extras import MissingExtraError, explain
from retrax.experiments.environment import single_threaded_operations
from retrax.experiments.specs import EXPERIMENTS, Experiment, UsageError, find

if TYPE_CHECKING:
    from retrax.experiments.running import Conditions
    from retrax.experiments.storage import Store

USER_MISTAKE, FAILURE, INTERRUPTED = 2, 1, 130
MAX_SEEDS, MAX_JOBS = 1000, 256


class _Parser(argparse.ArgumentParser):
    """Mistakes get one line that says what is wrong and where to look; a shortened flag is a mistake."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(USER_MISTAKE, f"retrax: error: {message}; see `{self.prog} --help`\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    single_threaded_operations()
    parsed = _parser().parse_args(arguments)
    from retrax.datasets import DataError

    try:
        return int(parsed.run(parsed))
    except (UsageError, DataError, MissingExtraError) as error:
        return _fail(USER_MISTAKE, f"error: {error}")
    except ModuleNotFoundError as error:
        explained = explain(error)
        if explained is None:
            raise
        return _fail(USER_MISTAKE, f"error: {explained}")
    except KeyboardInterrupt:
        again = "; the same command continues with what is missing" if hasattr(parsed, "jobs") else ""
        return _fail(INTERRUPTED, f"interrupted{again}")
    except BrokenPipeError:  # the reader of a pipe went away, as in `retrax list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


def _fail(code: int, message: str) -> int:
    print(f"retrax: {' '.join(message.split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    from retrax import __version__
    from retrax.datasets import commands

    parser = _Parser(prog="retrax", description="Stochastic optimization on Riemannian manifolds: the experiments.")
    parser.add_argument("--version", action="version", version=f"retrax {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    place, running, out = _common_options()

    listing = subparsers.add_parser(
        "list", parents=[place, out], help="the experiments, and whether their data are there"
    )
    listing.set_defaults(run=_list)
    run = subparsers.add_parser("run", parents=[running, place, out], help="run experiments")
    run.add_argument("names", nargs="+", metavar="NAME", help="experiments; see `retrax list`")
    run.set_defaults(run=_run)
    everything = subparsers.add_parser(
        "reproduce", parents=[running, place, out], help="run all experiments that the data allow, then report"
    )
    everything.set_defaults(run=_reproduce)
    report = subparsers.add_parser("report", parents=[out], help="figures, tables and a page from the results so far")
    report.set_defaults(run=_report)
    commands.add_parser(subparsers)
    return parser


def _common_options() -> tuple[_Parser, ...]:
    place, running, out = (_Parser(add_help=False) for _ in range(3))
    place.add_argument("--data", metavar="DIR", help="data folder (default: RETRAX_DATA, else the user's cache folder)")
    place.add_argument(
        "--cache", metavar="DIR", help="folder of computed features (default: RETRAX_CACHE, else likewise)"
    )
    out.add_argument("--out", metavar="DIR", type=Path, default=Path("results"), help="results (default: %(default)s)")
    running.add_argument("--quick", action="store_true", help="smaller budgets: minutes instead of hours")
    running.add_argument(
        "--seeds", metavar="N", type=_whole(MAX_SEEDS), help="runs of each method (default: 5, quick 3)"
    )
    running.add_argument("--epochs", metavar="X", type=_positive, help="SFO budget, in passes over the data")
    running.add_argument(
        "--jobs", metavar="N", type=_whole(MAX_JOBS), default=1,
        help="processes at a time; run times are measured by one, at the end (default: 1)",
    )  # fmt: skip
    return place, running, out


def _whole(largest: int) -> Any:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = 0
        if not 1 <= value <= largest:
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {largest}, not {text!r}")
        return value

    return convert


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return value


def _list(args: argparse.Namespace) -> int:
    from retrax.experiments import workloads
    from retrax.experiments.storage import Store

    place, store = workloads.Place(args.data, args.cache), Store(args.out)
    rows = []
    for experiment in EXPERIMENTS.values():
        there = workloads.is_available(experiment.problem, place)
        data = "synthetic" if not experiment.needs else experiment.needs if there else f"{experiment.needs} MISSING"
        rows.append((experiment.name, experiment.figure, data, _state(store, experiment.name), experiment.title))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]]).rstrip())
    if any("MISSING" in row[2] for row in rows):
        print(
            "MISSING data: `retrax data list` says where they come from, --data or RETRAX_DATA where to look for them"
        )
    return 0


def _state(store: "Store", name: str) -> str:
    try:
        result = store.result(name)
    except UsageError:
        return "unreadable"
    return "" if result is None else "done (quick)" if result.quick else "done"


def _run(args: argparse.Namespace) -> int:
    from retrax.experiments import workloads

    experiments = [find(name) for name in dict.fromkeys(args.names)]
    for experiment in experiments:
        workloads.require(experiment.problem, workloads.Place(args.data, args.cache))
    _carry_out(experiments, args)
    names = " and ".join(f"{args.out}/figures/{experiment.name}.png" for experiment in experiments)
    print(
        f"Figures: {names}. All numbers: {args.out}/NAME.json. A page with everything: retrax report --out {args.out}"
    )
    return 0


def _reproduce(args: argparse.Namespace) -> int:
    from retrax.experiments import workloads

    place = workloads.Place(args.data, args.cache)
    possible = [one for one in EXPERIMENTS.values() if workloads.is_available(one.problem, place)]
    for experiment in EXPERIMENTS.values():
        if experiment not in possible:
            print(f"skipping {experiment.name}: no {experiment.needs} in the data folder (`retrax data list`)")
    _carry_out(possible, args)
    return _report(args)


def _carry_out(experiments: list[Experiment], args: argparse.Namespace) -> None:
    """Run experiments one after another, then measure run times, draw and sum up."""
    from concurrent.futures.process import BrokenProcessPool

    from retrax.experiments import display, reporting, running, storage, units, workloads

    storage.prepare(args.out)
    run = running.Conditions(
        storage.Store(args.out),
        units.Asked(args.quick, args.seeds, args.epochs),
        workloads.Place(args.data, args.cache),
        args.jobs,
    )
    experiments = [workloads.at_hand(experiment, run.place) for experiment in experiments]
    unfinished = [experiment for experiment in experiments if not running.is_finished(experiment, run)]
    if unfinished:
        display.open_display().line(_estimate(unfinished, run))
    computed = {}
    try:
        for experiment in experiments:
            with display.open_display() as shown:
                computed[experiment.name] = running.run_experiment(experiment, run, shown)
    except BrokenProcessPool as error:
        raise UsageError("a worker process died (out of memory?): try again with --jobs 1; it continues") from error
    for experiment in experiments:  # last, when nothing else is at work: run times
        result, fresh = computed[experiment.name]
        with display.open_display() as shown:
            result, timed = running.time_experiment(experiment, result, run, shown)
        reporting.draw(result, run.store)
        print(reporting.sum_up(result, fresh or timed), flush=True)


def _estimate(experiments: list[Experiment], run: "Conditions") -> str:
    """What there is to do, and about how long it will take here."""
    from retrax.experiments import estimate
    from retrax.experiments.display import duration

    names = [one.name for one in experiments]
    needed = {one.name: estimate.seconds(one, run.asked, run.place, run.jobs, names) for one in experiments}
    each = ", ".join(f"{name} {duration(seconds)}" for name, seconds in needed.items())
    whole = f"about {duration(sum(needed.values()))} with {run.jobs} process{'es' if run.jobs > 1 else ''}"
    return f"{whole}, by steps measured now and less what is there already: {each}"


def _report(args: argparse.Namespace) -> int:
    from retrax.experiments import reporting, storage

    print(reporting.write_report(storage.Store(args.out)))
    return 0
