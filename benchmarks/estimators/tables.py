"""The results as tables in docs/estimators.md, between its markers."""

import pathlib
from collections.abc import Sequence
from typing import Any

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "estimators.md"


def write(results: dict[str, Any], page: pathlib.Path = PAGE) -> None:
    """Replace what stands between the markers of each suite that was run."""
    text = page.read_text(encoding="utf-8")
    for suite, rows in results.items():
        begin, end = f"<!-- {suite}: begin -->", f"<!-- {suite}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{_TABLES[suite](rows)}\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _pca(rows: list[dict[str, Any]]) -> str:
    return table(
        ("data", "contender", "seconds", "processor seconds", "peak memory, MB", "held-out variance, % of full PCA"),
        [
            (
                f"{row['data']}, {row['shape'][0]}×{row['shape'][1]}",
                row["contender"] + (f" ({row['solver']})" if row["solver"] and "rsrm" not in row["contender"] else ""),
                f"{row['seconds']:.1f}",
                f"{row['processor']:.1f}",
                f"{row['megabytes']:.0f}",
                f"{100 * row['explained']:.2f}" if "explained" in row else "",
            )
            for row in rows
        ],
    )


def _means(rows: list[dict[str, Any]]) -> str:
    names = {"retrax": "**Retrax SPDMean**", "pyriemann": "pyRiemann mean_riemann"}
    return table(
        ("matrices", "contender", "first call, ms", "next call, ms", "difference from the converged mean"),
        [
            (
                f"{row['size'][0]} of {row['size'][1]}×{row['size'][1]}",
                names[row["contender"]],
                f"{1e3 * row['first']:.1f}",
                f"{1e3 * row['second']:.1f}",
                f"{row['difference']:.0e}",
            )
            for row in rows
        ],
    )


def _emg(rows: list[dict[str, Any]]) -> str:
    return table(
        ("contender", "accuracy, %", "fit, s", "predict, s", "memory, MB"),
        [
            (
                row["contender"],
                f"{100 * row['accuracy']:.2f}",
                f"{row['fit']:.2f}",
                f"{row['predict']:.2f}",
                f"{row['megabytes']:.1f}",
            )
            for row in rows
        ],
    )


def _ica(rows: list[dict[str, Any]]) -> str:
    return table(
        ("signals", "contender", "Amari's distance", "processor seconds"),
        [(row["signals"], row["contender"], f"{row['amari']:.4f}", f"{row['processor']:.2f}") for row in rows],
    )


_TABLES = {"pca": _pca, "means": _means, "emg": _emg, "ica": _ica}
