"""The gallery is made from `examples/`: each script is run and becomes a page, with its figures and what it prints.

A script whose data set is not at hand is shown without being run, and its page says so.
"""

import re
import warnings
from pathlib import Path
from typing import Any

import retrax as rx

_TITLE = re.compile(r'"""\n.+\n=+\n')  # a script that begins with a title in reStructuredText is a page
_LOADED = re.compile(r'rx\.datasets\.load\("(\w+)"\)')


def missing_data(script: Path) -> list[str]:
    """The data sets that a script loads and that are not here."""
    files = rx.datasets.available()
    return [name for name in dict.fromkeys(_LOADED.findall(script.read_text(encoding="utf-8"))) if not files.get(name)]


def settings(examples: Path, target: Path) -> dict[str, Any]:
    """What sphinx-gallery is told."""
    scripts = sorted(examples.glob("*.py"))
    others = [re.escape(path.name) for path in scripts if not _TITLE.match(path.read_text(encoding="utf-8"))]
    runnable = [re.escape(path.name) for path in scripts if not missing_data(path)]
    warnings.filterwarnings("ignore", message=".*Agg.*cannot be shown", category=UserWarning)
    return {
        "examples_dirs": [str(examples)],
        "gallery_dirs": [str(target)],
        "filename_pattern": rf"[/\\]({'|'.join(runnable)})$" if runnable else "^nothing$",
        "ignore_pattern": rf"({'|'.join(others)})$" if others else "^nothing$",
        "write_computation_times": False,  # that page loads a script from elsewhere
        "show_signature": False,
        "download_all_examples": False,
        "remove_config_comments": True,
        "matplotlib_animations": False,
        "within_subsection_order": "FileNameSortKey",
        "capture_repr": (),
        "plot_gallery": "True",
        "reset_modules_order": "before",
        "thumbnail_size": (400, 280),
    }


def _say_what_is_missing(app: Any, docname: str, source: list[str]) -> None:
    folder, _, name = docname.rpartition("/")
    script = Path(app.srcdir).parent / "examples" / f"{name}.py"
    if folder != "gallery" or not script.exists():
        return
    missing = missing_data(script)
    if not missing:
        return
    note = (
        f".. note::\n\n   This page was built where the data set {' and '.join(missing)} is not at hand, so the script "
        f"is shown without being run. ``retrax data fetch {missing[0]}`` brings it.\n\n"
    )
    lines = source[0].splitlines(keepends=True)
    title = next(number for number, line in enumerate(lines) if re.match(r"(=+|-+)\s*$", line))
    source[0] = "".join([*lines[: title + 1], "\n", note, *lines[title + 1 :]])


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _say_what_is_missing)
    return {"parallel_read_safe": True}
