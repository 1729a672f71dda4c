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
from retrax.experiments.series import BESIDE
from retrax.experiments.storage import Store
from retrax.experiments.styles import METHODS, Style, style_of
from retrax.experiments.summary import Curve, curves, exponent_text, setting_text

FORMATS = ("png", "pdf")
DPI = 110

# (experiment, axis) row by row; an overview with one experiment of each family, and the paper's figures 1 to 4.
COMPOSITES: dict[str, tuple[str, int, tuple[tuple[str, str], ...]]] = {
    "overview": (
        "One of each: principal components, joint diagonalization, centroid",
        3,
        (("pca-mnist", "sfo"), ("ica-yaleb", "sfo"), ("rc-syn1", "sfo")),
    ),
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
_SHORT = {"sfo": "SFO", "time": "run time"}


def draw_experiment(result: ExperimentResult, store: Store) -> list[Path]:
    """The figure of one experiment: each panel against SFO and, once it has been measured, against run time."""
    kinds = ("sfo", "time") if result.timed else ("sfo",)
    rows = len(result.panels) + bool(result.complexity)
    with _figure(len(kinds), rows) as (figure, axes):
        for row, panel in enumerate(result.panels):
            found = curves(result, panel.key)
            for column, kind in enumerate(kinds):
                left = _draw(axes[row][column], found, kind, with_settings=True)
                title = f"{textwrap.fill(panel.title, 40)}\nagainst {_AXES[kind]}"
                axes[row][column].set_title(title + left, fontsize=8)
            axes[row][-1].legend(
                loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=7, handlelength=4.5, frameon=False
            )
        if result.complexity:
            groups = {"Table 1": False, "RSRM and RSGD with other batches and other noise": True}
            for axis, (title, varied) in zip(axes[-1], groups.items(), strict=False):
                _draw_complexity(axis, [part for part in result.complexity if part.entry.varied == varied], title)
        return _save(figure, store.out / "figures" / result.experiment)


def _cells(name: str, results: Results) -> list[tuple[str, ExperimentResult, str]]:
    """(letter in the paper, result, axis) of the panels of a figure that have been run."""
    cells = enumerate(COMPOSITES[name][2])
    there = [(chr(97 + index), results[cell], kind) for index, (cell, kind) in cells if cell in results]
    return [(letter, result, kind) for letter, result, kind in there if kind == "sfo" or result.timed]


def drawn_composites(results: Results) -> list[str]:
    """Which of the composite figures there are results for."""
    return [name for name in COMPOSITES if _cells(name, results)]


def draw_composites(results: Results, store: Store) -> list[Path]:
    """The overview and the paper's figures, with the panels that have been run, in order, with letters."""
    written = []
    for name in drawn_composites(results):
        title, columns, _ = COMPOSITES[name]
        cells = _cells(name, results)
        columns = min(columns, len(cells))
        with _figure(columns, math.ceil(len(cells) / columns)) as (figure, axes):
            flat = [axis for row in axes for axis in row]
            shared: dict[str, Any] = {}
            for axis, (letter, result, kind) in zip(flat, cells, strict=False):
                _cell(axis, result, kind, letter, shared)
            for axis in flat[len(cells) :]:
                axis.set_visible(False)
            if shared:
                figure.legend(
                    shared.values(), shared, loc="outside lower center", ncols=5, fontsize=7, handlelength=4.5,
                    frameon=False,
                )  # fmt: skip
            figure.suptitle(title, fontsize=10)
            written += _save(figure, store.out / "figures" / name)
    return written


def _cell(axis: Any, result: ExperimentResult, kind: str, letter: str, shared: dict[str, Any]) -> None:
    """A panel; methods that all panels have in common go into the shared legend, others stand below the panel."""
    found = [curve for curve in curves(result) if curve.in_paper or curve.key in BESIDE]
    common = all(curve.key in METHODS for curve in found)
    left = _draw(axis, found, kind, with_settings=False)
    quick = " (quick)" if result.quick else ""
    axis.set_title(f"({letter}) {result.experiment} vs. {_SHORT[kind]}{quick}{left}", fontsize=8)
    handles, labels = axis.get_legend_handles_labels()
    if common:
        shared.update(zip(labels, handles, strict=True))
    else:
        below = (0.5, -0.2)
        axis.legend(loc="upper center", bbox_to_anchor=below, ncols=2, fontsize=6, handlelength=4.5, frameon=False)


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
        figure = Figure(figsize=(3.7 * columns + (1.8 if columns < 3 else 0), 3.1 * rows + 0.5), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(rows, columns, squeeze=False)


def _draw(axis: Any, found: list[Curve], kind: str, with_settings: bool) -> str:
    """Median lines with quartile bands; returns a line that names the series which end off the axis, if any."""
    medians = {}
    for position, curve in enumerate(found):
        x = curve.sfo if kind == "sfo" else curve.time
        low, median, high = (np.where((row > 0) & np.isfinite(row), row, np.nan) for row in curve.quartiles)
        medians[curve.label] = median
        _plot(axis, x, median, (low, high), style_of(curve.key, position), position, _label(curve, with_settings))
    axis.set_yscale("log")
    axis.set_xlabel(_AXES[kind])
    axis.set_ylabel("Optimality gap")
    if kind == "sfo":
        axis.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=True)
    bottom = min((float(np.nanmin(median)) for median in medians.values() if np.isfinite(median).any()), default=0.0)
    top = max((float(median[0]) for median in medians.values() if np.isfinite(median[0])), default=0.0)
    if not 0 < bottom < top:
        return ""
    axis.set_ylim(bottom / 1.6, top * 1.6)
    left = [label for label, median in medians.items() if not median[-1] <= top * 1.6]
    return f"\nends off the axis: {', '.join(left)}" if left else ""


def _label(curve: Curve, with_settings: bool) -> str:
    beside = ", not in the paper" if curve.key in BESIDE else ""
    return f"{curve.label} ({setting_text(curve)}{beside})" if with_settings else f"{curve.label}{beside}"


def _plot(
    axis: Any, x: np.ndarray, median: np.ndarray, band: tuple[np.ndarray, np.ndarray], style: Style, position: int,
    label: str,
) -> None:  # fmt: skip
    axis.fill_between(x, *band, color=style.light, alpha=0.15, linewidth=0)
    axis.plot(
        x,
        median,
        color=style.light,
        linestyle=(0, style.dash) if style.dash else "-",
        linewidth=style.width,
        marker=style.marker,
        markersize=style.marker_size,
        markerfacecolor=style.light if style.filled else "white",
        markeredgecolor="white" if style.filled else style.light,
        markeredgewidth=0.4 if style.filled else 0.9,
        markevery=(position % 5 + 1, max(1, len(x) // 8)),
        label=label,
    )


def _draw_complexity(axis: Any, entries: list[ComplexityResult], title: str) -> None:
    """SFO over ε, both logarithmic."""
    for position, part in enumerate(entries):
        style = style_of(part.entry.key, position)
        points = [(point.epsilon, point.median) for point in part.points if math.isfinite(point.median)]
        axis.plot(
            [epsilon for epsilon, _ in points],
            [sfo for _, sfo in points],
            color=style.light,
            linestyle=(0, style.dash) if style.dash else "-",
            marker=style.marker,
            markersize=4,
            label=f"{part.entry.label}: {exponent_text(part)}",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.invert_xaxis()
    axis.set_xlabel("ε")
    axis.set_ylabel("SFO until E‖grad F‖ ≤ ε")
    axis.set_title(title, fontsize=8)
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1, fontsize=6, frameon=False, handlelength=4.5,
        title="exponent [95 %]", title_fontsize=6,
    )  # fmt: skip


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
