"""The report: one HTML page with everything in it, so that it works without a network and without a server."""

import dataclasses
import html
import json
import math
from importlib import resources

import numpy as np

from retrax.experiments import claims
from retrax.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED, UNSETTLED, Verdict
from retrax.experiments.encoding import to_json
from retrax.experiments.results import ComplexityResult, ExperimentResult, Panel, Point, Results
from retrax.experiments.series import BESIDE
from retrax.experiments.styles import Style, style_of
from retrax.experiments.summary import (
    TARGETS,
    Curve,
    Row,
    curves,
    exponent_text,
    microseconds,
    number,
    rate_text,
    setting_text,
    table,
)

_CLASSES = {HOLDS: "holds", IN_PART: "part", FAILS: "fails"}
_SIGNS = {HOLDS: "✓", IN_PART: "◐", FAILS: "✗"}


@dataclasses.dataclass(frozen=True, eq=False)
class Line:
    """A curve as the page's script draws it; `x` has the values for each kind of horizontal axis."""

    key: str
    label: str
    note: str
    shown: bool
    style: Style
    x: dict[str, np.ndarray]
    low: np.ndarray
    mid: np.ndarray
    high: np.ndarray


@dataclasses.dataclass(frozen=True)
class Chart:
    """What the page's script draws in one frame."""

    title: str
    kinds: dict[str, str]
    y: str
    logx: bool
    series: tuple[Line, ...]


Charts = dict[str, Chart]


def render(results: Results) -> str:
    """The page as text."""
    judged = {name: claims.verdicts(result) for name, result in results.items()}
    charts: Charts = {}
    sections = "\n".join(_section(result, judged[name], charts) for name, result in results.items())
    filled = {
        "STYLE": _asset("report.css"),
        "SCRIPT": _asset("report.js"),
        "NAVIGATION": "".join(f'<li><a href="#{name}">{name}</a></li>' for name in results),
        "LEAD": _lead(results, judged),
        "VERDICTS": _verdict_table(judged),
        "SECTIONS": sections,
        "ENVIRONMENT": _environment(results),
        "DATA": json.dumps(to_json(charts), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/"),
    }
    text = _asset("report.html")
    for key, value in filled.items():
        text = text.replace(f"@@{key}@@", value)
    return text


def _asset(name: str) -> str:
    return (resources.files("retrax.experiments") / "assets" / name).read_text(encoding="utf-8")


def _lead(results: Results, judged: dict[str, list[Verdict]]) -> str:
    flat = [verdict.verdict for verdicts in judged.values() for verdict in verdicts]
    counts = ", ".join(f"{flat.count(kind)} {text}" for kind, text in _COUNTED if flat.count(kind))
    quick = " Some are quick runs with small budgets, marked so." if any(r.quick for r in results.values()) else ""
    count = "1 experiment" if len(results) == 1 else f"{len(results)} experiments"
    return f"{count}; of {len(flat)} verdicts: {counts}.{quick}"


_COUNTED = (
    (HOLDS, "hold"),
    (IN_PART, "hold in part"),
    (FAILS, "do not hold here"),
    (UNSETTLED, "are undecided at this budget"),
    (UNDECIDED, "cannot be told from these runs"),
)


def _badge(verdict: str) -> str:
    kind = _CLASSES.get(verdict, "open")
    return f'<span class="badge {kind}"><span aria-hidden="true">{_SIGNS.get(verdict, "?")}</span> {verdict}</span>'


def _verdict_table(judged: dict[str, list[Verdict]]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><a href="#{name}">{name}</a></th><td>{html.escape(verdict.claim)}</td>'
        f"<td>{_badge(verdict.verdict)}</td></tr>"
        for name, verdicts in judged.items()
        for verdict in verdicts
    )
    head = '<tr><th scope="col">Experiment</th><th scope="col">Claim</th><th scope="col">Verdict</th></tr>'
    return f'<div class="scroll" tabindex="0"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _section(result: ExperimentResult, verdicts: list[Verdict], charts: Charts) -> str:
    name = result.experiment
    quick = " · <strong>quick run</strong>" if result.quick else ""
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">',
        f'<h2 id="{name}-title">{html.escape(result.title)}</h2>',
        f'<p class="meta"><code>{name}</code> · {result.figure}{quick}</p>',
        '<ul class="verdicts">',
        *(
            f"<li>{_badge(v.verdict)} {html.escape(v.claim)}<br>"
            f"<small>{html.escape(v.basis)}: {html.escape(v.evidence)}</small></li>"
            for v in verdicts
        ),
        "</ul>",
    ]
    for panel in result.panels:
        parts += _panel(result, panel, charts)
    if result.complexity:
        parts += _complexity(result, charts)
    parts += [_settings(result), "</section>"]
    return "\n".join(parts)


def _panel(result: ExperimentResult, panel: Panel, charts: Charts) -> list[str]:
    identity = f"{result.experiment}{'-' + panel.key if panel.key else ''}"
    found = curves(result, panel.key)
    lines = tuple(_line(curve, position) for position, curve in enumerate(found))
    kinds = {"sfo": "SFO", "time": "Run time (s)"} if result.timed else {"sfo": "SFO"}
    charts[identity] = Chart(panel.title, kinds, "Optimality gap", False, lines)
    heading = f"<h3>{html.escape(panel.title)}</h3>" if len(result.panels) > 1 else ""
    return [heading, _chart(identity), f'<p class="meta">{_data_text(panel)}</p>', _table(table(result, panel.key))]


def _data_text(panel: Panel) -> str:
    shape = "×".join(map(str, panel.shape))
    return html.escape(
        f"Data: {panel.data_note}. n = {panel.samples}, {panel.manifold} of {shape} matrices, "
        f"{panel.dtype}, smallest F = {panel.optimum:.10g}."
    )


def _line(curve: Curve, position: int) -> Line:
    low, median, high = curve.quartiles
    style, axes = style_of(curve.key, position), {"sfo": curve.sfo}
    if np.isfinite(curve.time).any():
        axes["time"] = curve.time
    shown = curve.in_paper or curve.key in BESIDE
    return Line(curve.key, curve.label, setting_text(curve), shown, style, axes, low, median, high)


def _complexity(result: ExperimentResult, charts: Charts) -> list[str]:
    identity = f"{result.experiment}-sfo"
    title = "Oracle calls until ‖grad F‖ ≤ ε"
    lines = tuple(_complexity_line(part, position) for position, part in enumerate(result.complexity))
    charts[identity] = Chart(title, {"epsilon": "ε"}, "SFO", True, lines)
    return [f"<h3>{title}</h3>", _chart(identity), _complexity_table(result.complexity)]


def _complexity_line(part: ComplexityResult, position: int) -> Line:
    entry, points = part.entry, [point for point in reversed(part.points) if math.isfinite(point.median)]
    epsilons, values = (np.array([getattr(p, name) for p in points]) for name in ("epsilon", "median"))
    style, note = style_of(entry.key, position), f"theory {entry.exponent:.3g}"
    return Line(entry.key, entry.label, note, True, style, {"epsilon": epsilons}, values, values, values)


def _chart(identity: str) -> str:
    fallback = "<noscript>The curves need JavaScript; the table does not.</noscript>"
    return f'<div class="chart" data-chart="{identity}">{fallback}</div>'


def _table(rows: list[Row]) -> str:
    targets = "".join(f'<th scope="col" class="n">to 10<sup>−{k}</sup></th>' for k in range(1, len(TARGETS) + 1))
    head = (
        '<tr><th scope="col" class="n">Rank at 1/10, 1/2, 1</th><th scope="col">Method</th><th scope="col">Best η₀</th>'
        '<th scope="col" class="n">Final gap</th><th scope="col" class="n">Quartiles</th>'
        f'<th scope="col" class="n">µs a step</th>{targets}</tr>'
    )
    body = "".join(_table_row(row) for row in rows)
    caption = (
        "Median over seeds; ranks after a tenth, half and all of the budget. “To 10⁻ᵏ”: SFO, and seconds below it, "
        "until the gap was that share of its start. "
        "Methods in italics stand beside the paper’s. * the best η₀ lay at the grid’s edge, so the grid was extended."
    )
    return (
        f'<p class="meta">{caption}</p><div class="scroll" tabindex="0"><table><thead>{head}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _table_row(row: Row) -> str:
    low, median, high = (number(value) for value in row.curve.final)
    label = html.escape(row.curve.label)
    name = label if row.curve.in_paper else f"<em>{label}</em>"
    reached = "".join(
        f'<td class="n">{number(sfo)}<br><small>{number(seconds, 2)} s</small></td>'
        if seconds < float("inf")
        else '<td class="n">–</td>'
        for sfo, seconds in row.targets
    )
    return (
        f'<tr><td class="n">{", ".join(map(str, row.ranks))}</td><th scope="row">{name}</th>'
        f"<td>{html.escape(rate_text(row.curve))}</td>"
        f'<td class="n">{median}</td><td class="n">{low} – {high}</td>'
        f'<td class="n">{microseconds(row.curve)}</td>{reached}</tr>'
    )


def _complexity_table(entries: tuple[ComplexityResult, ...]) -> str:
    tolerances = "".join(f'<th scope="col" class="n">ε={point.epsilon:.3g}</th>' for point in entries[0].points[::2])
    rows = []
    for part in entries:
        cells = "".join(_complexity_cell(point) for point in part.points[::2])
        rows.append(
            f'<tr><th scope="row">{part.entry.label}</th>{cells}<td class="n">{exponent_text(part)}</td>'
            f'<td class="n">{part.entry.exponent:.3g}</td></tr>'
        )
    head = (
        f'<tr><th scope="col">Method</th>{tolerances}<th scope="col" class="n">Exponent [95 %]</th>'
        '<th scope="col" class="n">Theory</th></tr>'
    )
    caption = (
        "SFO until E‖grad F‖, at an iterate drawn from the second half of the run, was ≤ ε; median over seeds, one "
        "step size for all ε (below). RSVRG, RSRG and RSPIDER in the online setting: large batch B = (σ/ε)², small "
        "batch b and period m as powers of σ/ε, constants 1, the best step size for each ε. Exponents with 95 % "
        "intervals (bootstrap over seeds)."
    )
    return (
        f'<p class="meta">{caption}</p><div class="scroll" tabindex="0"><table><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _complexity_cell(point: Point) -> str:
    batches = ", ".join(f"{name}={size}" for name, size in point.batches.items())
    return f'<td class="n">{number(point.median)}<br><small>η={point.rate:g}, {batches}</small></td>'


def _settings(result: ExperimentResult) -> str:
    settings, budget = result.settings, result.settings.budget
    items = {
        "Budget": f"{budget.epochs:g} epochs of SFO",
        "Seeds": f"{len(budget.seeds)} reported, {len(budget.tuning_seeds)} others for tuning",
        "Grid of η₀": ", ".join(f"{rate:g}" for rate in budget.grid),
        "Chosen by": settings.criterion,
        "Tuned by": settings.rule,
        "Schedules": settings.schedules,
        "Batches": "; ".join(
            f"{part.series.label} {part.series.batch_size}"
            + (f", first {part.series.first_batch_size}" if part.series.first_batch_size else "")
            for part in result.series
        ),
        "Notes": " ".join([*result.notes, *dict.fromkeys(_series_notes(result))]) or "none",
        "Computed in": f"{result.wall_seconds:.0f} s with {settings.jobs} process(es)",
    }
    rows = "".join(f"<dt>{key}</dt><dd>{html.escape(value)}</dd>" for key, value in items.items())
    return f"<details><summary>Settings</summary><dl>{rows}</dl></details>"


def _series_notes(result: ExperimentResult) -> list[str]:
    return [f"{part.series.label}: {part.series.note}." for part in result.series if part.series.note]


def _environment(results: Results) -> str:
    seen: dict[str, list[str]] = {}
    for name, result in results.items():
        facts = {**result.environment.versions, **dataclasses.asdict(result.environment.machine)}
        seen.setdefault(", ".join(f"{key} {value}" for key, value in facts.items()), []).append(name)
    rows = "".join(
        f"<dt>{html.escape(', '.join(names) if len(seen) > 1 else 'All experiments')}</dt><dd>{html.escape(text)}</dd>"
        for text, names in seen.items()
    )
    return f"<dl>{rows}</dl>"
