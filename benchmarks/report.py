"""What a run leaves behind: tables on the screen, a JSON file, pictures, and the tables of docs/performance.md."""

from typing import Any

import numpy as np


def markdown(results: dict[str, Any]) -> str:
    """All tables, as the documentation shows them."""
    suites, parts = results["suites"], [_machine(results)]
    if results["claims"]:
        parts.append(_claims(results["claims"]))
    titles = {
        "steps": "A step",
        "variants": "Variants of a step",
        "sweep": "A sweep, per run and step",
        "transports": "Transports",
    }
    for name, title in titles.items():
        for label, result in suites.get(name, {}).items():
            parts.append(_timings(f"{title}: {label}", result))
    if "growth" in suites:
        parts.append(_growth(suites["growth"]))
    if suites.get("first-call"):
        parts.append(_first_calls(suites["first-call"]))
    if suites.get("scale"):
        parts.append(_scale(suites["scale"]))
    parts += [_race(label, result) for label, result in suites.get("races", {}).items()]
    for label, result in suites.get("accuracy", {}).items():
        parts.append(_accuracy(label, result))
    if suites.get("joint", {}).get("rows"):
        parts.append(_joint(suites["joint"]))
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def number(value: float | None) -> str:
    """Three digits, no exponent for everyday sizes."""
    if value is None or not np.isfinite(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    failed = "".join(f" Failed: {name} ({error})." for name, error in results.get("failed", {}).items())
    busy = machine["load_average"] > machine["cores"] / 2
    return (
        (
            "**The machine was busy with other work: only agreement can be read from this run, not times.** "
            if busy
            else ""
        )
        + f"Measured {machine['date']} ({results['sizes']}, load average {machine['load_average']} at the start) on "
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}: {versions}.{failed}"
    )


def _claims(claims: list[dict[str, Any]]) -> str:
    rows = [
        [c["claim"], number(c["value"]), f"{'≥' if c['least'] else '≤'} {c['bound']:g}", "yes" if c["holds"] else "no"]
        for c in claims
    ]
    return "### What should hold\n\n" + _table(["ratio", "measured", "bound", "holds"], rows)


def _timings(title: str, result: dict[str, Any]) -> str:
    rows = [
        [
            row["name"],
            number(row["median_us"]),
            f"{number(row['lower_quartile_us'])} to {number(row['upper_quartile_us'])}",
            number(row.get("ratio")),
            number(row["first_seconds"]),
            row["note"],
        ]
        for row in result["rows"]
    ]
    text = f"### {title}\n\n" + _table(["", "µs", "quartiles", "ratio", "first call, s", ""], rows)
    notes = [f"Not run: {name} ({reason})." for name, reason in result["skipped"].items()]
    if result.get("note"):
        notes.append(f"Data: {result['note']}.")
    if result.get("agreement"):
        differences = ", ".join(f"{k} {v:.0e}" if isinstance(v, float) else k for k, v in result["agreement"].items())
        notes.append(f"Largest difference from NumPy after 100 steps: {differences}.")
    return text + ("\n\n" + " ".join(notes) if notes else "")


def _growth(growth: dict[str, Any]) -> str:
    parts = ["### Growth"]
    for axis in ("n", "b", "d", "r"):
        names = [row["name"] for row in growth[axis][0]["rows"]]
        rows = []
        for point in growth[axis]:
            found = {row["name"]: row["median_us"] for row in point["rows"]}
            value = f"{point['value']:,}".replace(",", " ")
            rows.append([value, *(number(found.get(name)) for name in names), *_to_c(point)])
        header = [axis, *names, *(["RSRM / C", "quartiles"] if _to_c(growth[axis][0]) else [])]
        parts.append(f"µs a step against {axis}: {growth['fixed'][axis]}\n\n" + _table(header, rows))
    rows = [[f"{row['steps']:,}".replace(",", " "), number(row["resident_mb"])] for row in growth["memory"]]
    parts.append("Memory of the process after a run\n\n" + _table(["steps", "MB"], rows))
    return "\n\n".join(parts)


def _to_c(point: dict[str, Any]) -> list[str]:
    """RSRM's time over C's, round by round: the median and the quartiles."""
    found = {row["name"]: np.array(row["repetitions_us"]) for row in point["rows"]}
    if "C, RSRM" not in found:
        return []
    low, middle, high = np.percentile(found["retrax RSRM"] / found["C, RSRM"], [25, 50, 75])
    return [number(middle), f"{number(low)} to {number(high)}"]


def _accuracy(label: str, result: dict[str, Any]) -> str:
    header = ["", *(f"seconds to {target:g} of the first gap" for target in result["targets"]), "range", ""]
    rows = []
    for row in result["rows"]:
        last = [run[-1] for run in row["seconds"] if run[-1] is not None]
        spread = f"{number(min(last))} to {number(max(last))}" if last else "-"
        rows.append([row["name"], *(number(second) for second in row["median_seconds"]), spread, row["note"]])
    return f"### Time to accuracy: {label}\n\n" + _table(header, rows)


def _first_calls(calls: dict[str, Any]) -> str:
    kinds = list(next(iter(calls.values())))
    rows = [[label, *(number(seconds[kind]) for kind in kinds)] for label, seconds in calls.items()]
    return "### Seconds of the first call\n\n" + _table(["", *kinds], rows)


def _scale(scale: dict[str, Any]) -> str:
    header = ["d", "one process, ms a step", "two devices, ms a step", "two / one", "memory of the run / the point's"]
    rows = [
        [f"{row['d']:,}".replace(",", " "), *(number(row[name]) for name in ("one", "two", "ratio", "memory"))]
        for row in scale["rows"]
    ]
    return f"### Scale: {scale['label']}\n\n" + _table(header, rows) + f"\n\n{scale['note']}"


_OURS = "retrax"


def _race(label: str, race: dict[str, Any]) -> str:
    """Seconds to each target, for each n; who is first from which n on; and what was left out."""
    names = list(dict.fromkeys(name for row in race["rows"] for name in row["seconds"]))
    rows = []
    for row in race["rows"]:
        for name in names:
            found = row["seconds"].get(name, "not run")
            cells = [found, "", ""] if isinstance(found, str) else [_reached(s, race["limit"]) for s in found]
            rows.append([f"{row['n']:,}".replace(",", " ") if name == names[0] else "", name, *cells])
    text = _table(["n", "", *(f"to {target:g}" for target in race["targets"])], rows)
    notes = "".join(f"\n\n{note}." for note in race.get("notes", ()))
    return f"### From the call to an accuracy, in seconds: {label}\n\n{text}\n\n{_crossings(race, names)}{notes}"


def _reached(seconds: float | None, limit: float) -> str:
    return f"not within {limit:g} s" if seconds is None else number(seconds)


def _crossings(race: dict[str, Any], names: list[str]) -> str:
    """From which n on the first one sees no need to look at all samples in every step; and from which on it is ours."""
    ours = [name for name in names if name.startswith(_OURS)]
    peers = [name for name in names if name not in ours]
    sparing = [name for name in names if name not in race.get("passes", ())]
    rows = []
    for k, target in enumerate(race["targets"]):
        firsts = [_first(row["seconds"], names, k) for row in race["rows"]]
        any_of_them = _from(race, [first in sparing for first in firsts])
        mine = [
            _from(race, [_first(row["seconds"], [*peers, name], k) == name for row in race["rows"]]) for name in ours
        ]
        rows.append([f"to {target:g}", any_of_them, *mine, firsts[-1] or "nobody"])
    header = ["first", "a stochastic method", *ours, "at the largest n"]
    return "From which n on:\n\n" + _table(header, rows)


def _first(seconds: dict[str, Any], names: list[str], k: int) -> str | None:
    """Who of them reaches target k first."""
    times = {name: found[k] for name, found in seconds.items() if name in names and not isinstance(found, str)}
    arrived = {name: time for name, time in times.items() if time is not None}
    return min(arrived, key=lambda name: arrived[name]) if arrived else None


def _from(race: dict[str, Any], holds: list[bool]) -> str:
    """The smallest n from which on it holds for all n shown."""
    counts = [row["n"] for row in race["rows"]]
    held = [n for i, n in enumerate(counts) if all(holds[i:])]
    return f"n = {held[0]:g}" if held else "at no n shown"


def _joint(joint: dict[str, Any]) -> str:
    rows = []
    for row in joint["rows"]:
        reached = [second for second in row["seconds"] if second is not None]
        spread = f"{number(min(reached))} to {number(max(reached))}" if len(reached) > 1 else ""
        median = number(float(np.median(reached))) if reached else "not reached"
        rows.append([row["name"], median, spread, row["note"]])
    title = f"### Time to within {joint['within']:.1%} of rjd: {joint['label']}"
    return f"{title}\n\n" + _table(["", "seconds", "range", ""], rows) + f"\n\nData: {joint['note']}."
