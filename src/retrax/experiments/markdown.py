"""The results as Markdown, for the documentation; pictures are expected in `figures/` beside it."""

import math

from retrax.experiments import claims
from retrax.experiments.figures import COMPOSITES, drawn_composites
from retrax.experiments.results import ComplexityResult, ExperimentResult, Results
from retrax.experiments.specs import EXPERIMENTS
from retrax.experiments.summary import TARGETS, Row, exponent_text, microseconds, number, rate_text, table


def render(results: Results) -> str:
    """A document with a section for each experiment."""
    sections = (line for result in results.values() for line in section(result))
    return "\n".join([*opening(results), *overview(results), *composites(results), *sections])


def opening(results: Results) -> list[str]:
    """The title, how the results were made, and on what."""
    environments = [result.environment for result in results.values()]
    machines = dict.fromkeys(
        f"{e.machine.processor}, {e.machine.cores} cores, {e.machine.system}" for e in environments
    )
    packages = ("python", "retrax", "jax", "numpy", "scipy")
    versions = dict.fromkeys(
        ", ".join(f"{name} {e.versions.get(name, '?')}" for name in packages) for e in environments
    )
    settings = next(iter(results.values())).settings
    jobs = max(result.settings.jobs for result in results.values())
    missing = [name for name in EXPERIMENTS if name not in results]
    return [
        "# Results",
        "",
        f"Made with `retrax reproduce{f' --jobs {jobs}' if jobs > 1 else ''}` (`retrax run NAME` for one) and "
        f"`retrax report`, on {' and '.join(machines)}, with {' and '.join(versions)}.",
        *([f"Not run: {', '.join(missing)}."] if missing else []),
        "",
        f"Step sizes were tuned by {settings.rule}. The best has the {settings.criterion}; no seed that is reported "
        f"was used for tuning. A verdict is “{claims.UNSETTLED}” where another method led at some time in the last "
        "fifth of the budget.",
        "",
    ]


def composites(results: Results) -> list[str]:
    """An overview and the paper's figures, as far as there are results for them."""
    lines = [
        line for name in drawn_composites(results) for line in (f"![{COMPOSITES[name][0]}](figures/{name}.png)", "")
    ]
    return ["## An overview, and the paper's figures", "", *lines] if lines else []


def overview(results: Results) -> list[str]:
    """All verdicts in one table."""
    lines = ["## Verdicts on the paper's claims", "", "| experiment | claim | verdict | judged on |"]
    lines.append("|---|---|---|---|")
    for name, result in results.items():
        lines += [f"| [{name}](#{name}) | {v.claim} | **{v.verdict}** | {v.basis} |" for v in claims.verdicts(result)]
    return [*lines, ""]


def section(result: ExperimentResult) -> list[str]:
    """One experiment: settings, tables, verdicts."""
    budget = result.settings.budget
    lines = [
        f"## {result.experiment}",
        "",
        f"{result.title} ({result.figure}).{' A quick run.' if result.quick else ''}",
        "",
        f"Budget {budget.epochs:g} epochs of SFO; {len(budget.seeds)} seeds reported, "
        f"{len(budget.tuning_seeds)} others used for tuning; computed in "
        f"{result.wall_seconds:.0f} s. {timing_text(result)}",
        *result.notes,
        "",
        f"![{result.title}](figures/{result.experiment}.png)",
        "",
    ]
    for panel in result.panels:
        lines += [f"Data{' of ' + panel.title if len(result.panels) > 1 else ''}: {panel.data_note}.", ""]
        lines += [*panel_table(table(result, panel.key)), ""]
    if result.complexity:
        lines += [*complexity_table(result.complexity), ""]
    lines += [f"- {v.claim}: **{v.verdict}** ({v.basis}). {v.evidence}." for v in claims.verdicts(result)]
    return [*lines, ""]


def timing_text(result: ExperimentResult) -> str:
    """How run times were measured."""
    timings = [part.timing for part in result.series if part.timing is not None]
    if not timings:
        return "Run times have not been measured."
    others = max(timing.others for timing in timings)
    busy = "" if math.isnan(others) else f", other processes using up to {others:.1f} cores"
    return (
        "Run times were measured apart, one run after another: "
        f"load average up to {max(timing.load for timing in timings):.1f}{busy}."
    )


def panel_table(rows: list[Row]) -> list[str]:
    """Rank, step size, final gap and what it took to reach shares of the start gap."""
    targets = " | ".join(f"{target:.0e}".replace("e-0", "e-") for target in TARGETS)
    lines = [
        f"| rank at 1/10, 1/2, 1 | method | best η₀ | final gap [quartiles] | µs a step | SFO (s) to {targets} |",
        "|---:|---|---|---|---:|" + "---:|" * len(TARGETS),
    ]
    for row in rows:
        low, median, high = (number(value) for value in row.curve.final)
        reached = " | ".join(_reached(*pair) for pair in row.targets)
        name = row.curve.label if row.curve.in_paper else f"*{row.curve.label}*"
        lines.append(
            f"| {', '.join(map(str, row.ranks))} | {name} | {rate_text(row.curve)} | {median} [{low}, {high}] | "
            f"{microseconds(row.curve)} | {reached} |"
        )
    return [
        *lines,
        "",
        "In italics: not in the paper. Ranks are by the median gap after a tenth, half and all of the budget. "
        "\\*: the best η₀ lay at the grid's edge, so the grid was extended.",
    ]


def _reached(sfo: float, seconds: float) -> str:
    return f"{number(sfo)} ({number(seconds, 2)})" if sfo < float("inf") else "–"


def complexity_table(entries: tuple[ComplexityResult, ...]) -> list[str]:
    """SFO for each ε, with the measured exponent beside the theory's."""
    tolerances = [point.epsilon for point in entries[0].points[::2]]
    lines = [
        "| method | " + " | ".join(f"ε={epsilon:.3g}" for epsilon in tolerances) + " | exponent [95 %] | theory |",
        "|---|" + "---:|" * (len(tolerances) + 2),
    ]
    for part in entries:
        cells = " | ".join(number(point.median) for point in part.points[::2])
        lines.append(f"| {part.entry.label} | {cells} | {exponent_text(part)} | {part.entry.exponent:.3g} |")
    return lines
