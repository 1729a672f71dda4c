"""Figures in the paper's layout, as PNG and PDF: median line, quartile band, logarithmic gap."""

import contextlib
import io
import math
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from retrax.experiments import storage
from retrax.experiments.results import ComplexityResult, ExperimentResult, Results
from retrax.experiments.storage import Store
from retrax.experiments.styles import style_of
from retrax.experiments.summary import Curve, curves, number, rate_text

FORMATS = ("png", "pdf")
DPI = 110

# (experiment, axis) row by row; the paper's figures 1 to 4.
COMPOSITES: dict[str, tuple[str, int, tuple[tuple[str, str], ...]]] = {
    "fig1": (
        "PCA problems on the Grassmann manifold",
        3,
        (
            ("pca-syn1", "sfo"),
            ("pca-syn2", "sfo"),
            ("pca-syn3", "sfo"),
            ("pca-syn1", "time"),
            ("pca-mnist", "sfo"),
            ("pca-covtype", "sfo"),
            ("pca-syn1-eta", "sfo"),
            ("pca-syn1-batch", "sfo"),
        ),
    ),
    "fig2": (
        "ICA problems on the Stiefel manifold",
        3,
        (("ica-yaleb", "sfo"), ("ica-cifar100", "sfo"), ("ica-coil100", "sfo")),
    ),
    "fig3": (
        "RC problems on the SPD manifold",
        3,
        (("rc-syn1", "sfo"), ("rc-yaleb", "sfo"), ("rc-kylberg", "sfo")),
    ),
    "fig4": (
        "Optimality gap against run time",
        3,
        tuple(
            (name, "time")
            for name in (
                "pca-syn2",
                "pca-syn3",
                "pca-mnist",
                "pca-covtype",
                "ica-yaleb",
                "ica-cifar100",
                "ica-coil100",
                "rc-syn1",
                "rc-yaleb",
                "rc-kylberg",
            )
        ),
    ),
}
_AXES = {"sfo": "SFO", "time": "Run time (s)"}


def draw_experiment(result: ExperimentResult, store: Store) -> list[Path]:
    """The figure of one experiment: each panel against SFO and against run time."""
    panels = [(panel.key, panel.title) for panel in result.panels]
    rows = len(panels) + bool(result.complexity)
    with _figure(2, rows) as (figure, axes):
        for row, (key, title) in enumerate(panels):
            found = curves(result, key)
            for column, axis in enumerate(("sfo", "time")):
                _draw(axes[row][column], found, axis, with_beside=True)
                axes[row][column].set_title(f"{textwrap.fill(title, 40)}\nagainst {_AXES[axis]}", fontsize=8)
            _legend(axes[row][1], outside=True)
        if result.complexity:
            _draw_complexity(axes[-1][0], result.complexity)
            axes[-1][1].set_visible(False)
        return _save(figure, store.out / "figures" / result.experiment)


def drawn_composites(results: Results) -> list[str]:
    """Which of the paper's figures there are results for."""
    return [name for name, (_, _, cells) in COMPOSITES.items() if any(cell in results for cell, _ in cells)]


def draw_composites(results: Results, store: Store) -> list[Path]:
    """The paper's figures from whatever results exist; a missing one leaves a labelled gap."""
    written = []
    for name in drawn_composites(results):
        title, columns, cells = COMPOSITES[name]
        with _figure(columns, math.ceil(len(cells) / columns)) as (figure, axes):
            flat = [axis for row in axes for axis in row]
            for index, (axis, (experiment, horizontal)) in enumerate(zip(flat, cells, strict=False)):
                _cell(axis, results.get(experiment), experiment, horizontal, f"({chr(97 + index)})")
            for axis in flat[len(cells) :]:
                axis.set_visible(False)
            figure.suptitle(title, fontsize=10)
            written += _save(figure, store.out / "figures" / name)
    return written


def _cell(axis: Any, result: ExperimentResult | None, name: str, horizontal: str, letter: str) -> None:
    kind = "SFO" if horizontal == "sfo" else "run time"
    if result is None:
        axis.text(0.5, 0.5, f"{name}\nnot run", ha="center", va="center", color="0.4", transform=axis.transAxes)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_title(f"{letter} {name} vs. {kind}", fontsize=8)
        return
    _draw(axis, curves(result), horizontal, with_beside=False)
    axis.set_title(f"{letter} {name} vs. {kind}{' (quick)' if result.quick else ''}", fontsize=8)
    _legend(axis, outside=False)


@contextlib.contextmanager
def _figure(columns: int, rows: int) -> Iterator[tuple[Any, Any]]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "font.size": 7,
        "axes.linewidth": 0.6,
        "pdf.fonttype": 42,
        "axes.grid": True,
        "grid.linewidth": 0.3,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(3.5 * columns, 2.75 * rows + 0.2), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(rows, columns, squeeze=False)


def _draw(axis: Any, found: list[Curve], horizontal: str, with_beside: bool) -> None:
    """Median lines with quartile bands."""
    lowest, highest = math.inf, 0.0
    for position, curve in enumerate(found):
        if not (curve.in_paper or with_beside):
            continue
        style = style_of(curve.key, position)
        x = curve.sfo if horizontal == "sfo" else curve.time
        low, median, high = (np.where(row > 0, row, np.nan) for row in _finite(curve.quartiles))
        axis.fill_between(x, low, high, color=style.light, alpha=0.15, linewidth=0)
        axis.plot(
            x,
            median,
            color=style.light,
            linestyle=(0, style.dash) if style.dash else "-",
            linewidth=style.width,
            marker=style.marker,
            markersize=3.2,
            markevery=(position % 5 + 1, max(1, len(x) // 8)),
            label=f"{curve.label} ({rate_text(curve)})",
        )
        shown = median[np.isfinite(median)]
        if len(shown):
            lowest, highest = min(lowest, float(shown.min())), max(highest, float(shown[0]))
    axis.set_yscale("log")
    if 0 < lowest < highest:
        axis.set_ylim(lowest / 1.6, highest * 1.6)
    axis.set_xlabel(_AXES[horizontal])
    axis.set_ylabel("Optimality gap")
    if horizontal == "sfo":
        axis.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)


def _finite(rows: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(rows), rows, np.nan)


def _legend(axis: Any, outside: bool) -> None:
    handles, _ = axis.get_legend_handles_labels()
    if not handles:
        return
    if outside:
        axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=7, handlelength=3.6, frameon=False)
    else:
        axis.legend(
            loc="upper right",
            ncols=2,
            columnspacing=0.8,
            fontsize=4.6,
            handlelength=3.6,
            framealpha=0.75,
            borderpad=0.3,
            labelspacing=0.25,
        )


def _draw_complexity(axis: Any, entries: tuple[ComplexityResult, ...]) -> None:
    """SFO over ε, both logarithmic."""
    for position, part in enumerate(entries):
        entry, style = part.entry, style_of(part.entry.key, position)
        points = [(point.epsilon, point.median) for point in part.points if math.isfinite(point.median)]
        axis.plot(
            [epsilon for epsilon, _ in points],
            [sfo for _, sfo in points],
            color=style.light,
            linestyle=(0, style.dash) if style.dash else "-",
            marker=style.marker,
            markersize=4,
            label=f"{entry.label}: slope {number(part.exponent)} (theory {entry.exponent:.3g})",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.invert_xaxis()
    axis.set_xlabel("ε")
    axis.set_ylabel("SFO until ‖grad F‖ ≤ ε")
    axis.set_title("Oracle calls to reach a gradient norm", fontsize=8)
    axis.legend(fontsize=6, frameon=False, handlelength=3.6)


def _save(figure: Any, stem: Path) -> list[Path]:
    paths = []
    for kind in FORMATS:
        buffer = io.BytesIO()
        metadata = {"CreationDate": None} if kind == "pdf" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
        path = stem.with_suffix(f".{kind}")
        storage.write_bytes(path, _with_palette(buffer) if kind == "png" else buffer.getvalue())
        paths.append(path)
    return paths


def _with_palette(buffer: io.BytesIO) -> bytes:
    """The image with 256 colours: a third of the size, and no difference to be seen in line drawings."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(buffer) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, format="PNG", optimize=True)
    return small.getvalue()
