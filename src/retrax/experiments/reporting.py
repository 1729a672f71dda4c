"""Turns results into figures, tables and pages, and says in a few lines what was found."""

from retrax.experiments import claims, figures, markdown, page
from retrax.experiments.results import ExperimentResult, Results
from retrax.experiments.specs import EXPERIMENTS, UsageError
from retrax.experiments.storage import Store, prepare, write_text
from retrax.experiments.summary import number, setting_text, table


def draw(result: ExperimentResult, store: Store) -> None:
    """The figure of one experiment."""
    figures.draw_experiment(result, store)


def sum_up(result: ExperimentResult, computed: bool = True) -> str:
    """What was found in an experiment, in a few lines."""
    lines = [f"{result.experiment}: {result.title}{' (quick)' if result.quick else ''}"]
    if not computed:
        lines[0] += f"; already done (delete {result.experiment}.json to run it again)"
    for panel in result.panels:
        row = table(result, panel.key)[0]
        lines.append(
            f"  lowest final gap{' in ' + panel.title if len(result.panels) > 1 else ''}: "
            f"{row.curve.label} {number(row.curve.final[1])} with {setting_text(row.curve)}"
        )
    lines += [
        f"  {verdict.claim}: {verdict.verdict.upper()} ({verdict.basis}: {verdict.evidence})"
        for verdict in claims.verdicts(result)
    ]
    return "\n".join(lines)


def load_results(store: Store) -> Results:
    """The results that are there, in the order of the specs."""
    found = {name: store.result(name) for name in EXPERIMENTS}
    return {name: result for name, result in found.items() if result is not None}


def write_report(store: Store) -> str:
    """Figures, the page and the Markdown tables of all results; returns what to tell the user."""
    results = load_results(store)
    if not results:
        raise UsageError(f"no results in {store.out}: first `retrax run pca-syn1 --out {store.out}`")
    prepare(store.out)
    for result in results.values():
        draw(result, store)
    figures.draw_composites(results, store)
    write_text(store.out / "report.html", page.render(results))
    write_text(store.out / "report.md", markdown.render(results))
    return _closing(store, results)


def _closing(store: Store, results: Results) -> str:
    lines = []
    judged = [(name, verdict) for name, result in results.items() for verdict in claims.verdicts(result)]
    for kind in (claims.HOLDS, claims.IN_PART, claims.FAILS, claims.UNSETTLED, claims.UNDECIDED):
        those = [f"{verdict.claim} [{name}]" for name, verdict in judged if verdict.verdict == kind]
        if those:
            lines.append(f"{kind} ({len(those)}): {'; '.join(those)}")
    lines.append(f"Report: {store.out / 'report.html'} (open it in a browser; it needs no network)")
    lines.append(
        f"Figures: {store.out / 'figures'} (PNG and PDF). Tables: {store.out / 'report.md'}. All numbers: *.json"
    )
    return "\n".join(lines)
