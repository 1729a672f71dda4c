"""The command `retrax data`: list, verify, fetch and prepare data sets. A thin shell around the package."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any

from .download import fetch, verify
from .errors import DataError
from .features import KINDS, load_covariances
from .progress_display import reporting
from .registry import REGISTRY, RegistryEntry, available, data_directory


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the subcommand `data` to the subparsers of the main command."""
    parser: argparse.ArgumentParser = subparsers.add_parser("data", help="list, verify, fetch and prepare data sets")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument(
        "--data", metavar="DIR", help="data folder (default: RETRAX_DATA, else the user's cache folder)"
    )
    names = ", ".join(REGISTRY)

    actions.add_parser("list", parents=[folder], help="which data sets are there, and where to get the others")
    check = actions.add_parser("verify", parents=[folder], help="compare checksums and read everything")
    check.add_argument("names", nargs="*", metavar="NAME", help=f"data sets (default: all that are there): {names}")
    download = actions.add_parser("fetch", parents=[folder], help="download the official files of a data set")
    download.add_argument("name", metavar="NAME", help=names)
    download.add_argument("--mirror", metavar="URL", help="take the files from this address instead")
    prepare = actions.add_parser("features", parents=[folder], help="compute and keep the covariances of a data set")
    prepare.add_argument("name", metavar="NAME", help="an image data set")
    prepare.add_argument("--kind", choices=KINDS, default="gabor", help="43×43 or 5×5 (default: %(default)s)")
    prepare.add_argument("--cache", metavar="DIR", help="where to keep them (default: the user's cache folder)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out a parsed `retrax data` command; returns the exit code, raises DataError for a user's mistake."""
    actions = {"list": _list, "verify": _verify, "fetch": _fetch, "features": _features}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    rows = [(REGISTRY[name], path.name if path else None) for name, path in available(args.data).items()]
    if sys.stdout.isatty() and importlib.util.find_spec("rich"):
        _table(str(data_directory(args.data)), rows)
        return 0
    print(f"data folder: {data_directory(args.data)}")
    for source, file in rows:
        print(f"{source.name:9} {file or 'missing':32} {source.what}" + ("" if file else f"; from {source.origin}"))
    return 0


def _table(title: str, rows: list[tuple[RegistryEntry, str | None]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("name", "file", "what it is", "official files from"):
        table.add_column(heading, overflow="fold")
    for source, file in rows:
        table.add_row(source.name, file or "[red]missing[/red]", source.what, source.origin)
    Console().print(table)


def _verify(args: argparse.Namespace) -> int:
    names = args.names or [name for name, path in available(args.data).items() if path]
    if not names:
        raise DataError(f"there is no data set in {data_directory(args.data)}: see `retrax data list`")
    failures = []
    for name in names:
        try:
            print(f"{name}: ok, {verify(name, args.data)}", flush=True)
        except DataError as error:
            failures.append(f"{name}: {error}")
            if len(names) > 1:
                print(f"{name}: FAILED", flush=True)
    if failures:
        count = f"{len(failures)} of {len(names)} data sets failed: " if len(names) > 1 else ""
        raise DataError(count + " | ".join(failures))
    return 0


def _fetch(args: argparse.Namespace) -> int:
    for path in fetch(args.name, args.data, progress=True, base_url=args.mirror):
        print(path)
    return 0


def _features(args: argparse.Namespace) -> int:
    with reporting(f"{args.name} {args.kind} covariances") as report:
        covariances, note = load_covariances(args.name, args.kind, args.data, args.cache, report)
    print(f"{args.name}: {covariances.shape[0]}×{covariances.shape[1]}×{covariances.shape[2]}, {note}")
    return 0
