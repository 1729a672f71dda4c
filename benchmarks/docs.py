"""Puts the tables and pictures of the last run into docs/performance.md, between its two markers."""

import pathlib
import shutil
from typing import Any

from benchmarks import report

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "performance.md"


def write(results: dict[str, Any], pictures: pathlib.Path, page: pathlib.Path = PAGE) -> None:
    """Replace what stands between the markers; the text around them stays."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has lost its markers {BEGIN} and {END}")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    images = sorted(pictures.glob("*.png"))
    folder = page.parent / "images" / "performance"
    for image in images:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, folder / image.name)
    links = "\n".join(f"![{image.stem}](images/performance/{image.name})" for image in images)
    middle = report.markdown(results) + (f"\n{links}\n" if links else "")
    page.write_text(f"{before}{BEGIN}\n{middle}{END}{after}", encoding="utf-8")
