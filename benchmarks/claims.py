"""What should hold, as ratios of one run: each with its bound, its value, and whether it holds."""

from typing import Any

import numpy as np

from benchmarks import engine, first_call, growth, steps, variants
from benchmarks.timing import ratio_of


def check(suites: dict[str, Any]) -> list[dict[str, Any]]:
    """One line for each claim that this run can judge."""
    lines: list[dict[str, Any]] = []

    def add(text: str, value: float | None, bound: float, least: bool = False) -> None:
        if value is not None:
            holds = value >= bound if least else value <= bound
            lines.append({"claim": text, "value": value, "bound": bound, "least": least, "holds": bool(holds)})

    for label, result in suites.get("steps", {}).items():
        if label == "PCA on Gr(100,10)":
            add("RSRM step / C (Cholesky QR) step, Gr(100,10)", ratio_of(result, steps.RSRM, steps.C_CHOLESKY), 1.6)
            add("RSRM step / C (polar) step, Gr(100,10)", ratio_of(result, steps.RSRM, steps.C_POLAR), 1.6)
            add("geoopt RSGD step / RSRM step", ratio_of(result, steps.GEOOPT_RSGD, steps.RSRM), 15, least=True)
            add("geoopt RAdam step / RSRM step", ratio_of(result, steps.GEOOPT_RADAM, steps.RSRM), 25, least=True)
            add("RSRM step / RSGD step at equal SFO", ratio_of(result, steps.RSRM, steps.RSGD), 1.6)
        if label == "centroid on SPD(43)":
            add("RSRM step / pymanopt's gradient + retraction, SPD(43)", ratio_of(result, steps.RSRM, "pymanopt"), 1.0)
        if label == "centroid on SPD(10)":
            add("RSRM step / plain JAX scan, SPD(10)", ratio_of(result, steps.RSRM, steps.PLAIN), 0.5)
    for label, result in suites.get("sweep", {}).items():
        add(f"sweep / single run, {label}", ratio_of(result, engine.SWEPT, engine.SINGLE), 0.8)
    for label, result in suites.get("transports", {}).items():
        isometric = "RSRM, parallel" if label.startswith("Grassmann") else "RSRM, rotation"
        add(f"isometric / projection, {label}", ratio_of(result, isometric, "RSRM, projection"), 1.5)
    for label, result in suites.get("variants", {}).items():
        add(f"own loss / ready-made, {label}", ratio_of(result, variants.OWN, variants.READY), 1.5)
    for axis, bound in (("d", 1.3), ("b", 1.5), ("r", 1.5)):
        ratios = [_ratio_to_c(point) for point in suites.get("growth", {}).get(axis, [])]
        if ratios and None not in ratios:
            add(f"RSRM / C, the largest over {axis}", max(ratios), bound)
    for label, bound in (("PCA on Gr(100,10)", 0.5), ("centroid on SPD(10)", 2.0)):
        if label in suites.get("first-call", {}):
            add(f"first call, cache on, s: {label}", suites["first-call"][label][first_call.KINDS[2]], bound)
    if curve := suites.get("growth", {}).get("n"):
        times = [_median(point, growth.CURVES[0]) for point in curve]
        add(f"step at n = {curve[-1]['value']:.0e} / at n = {curve[0]['value']:.0e}", times[-1] / times[0], 1.5)
    times = {row["name"]: row["seconds"] for row in suites.get("joint", {}).get("rows", [])}
    own = [np.median(runs) for name, runs in times.items() if name.startswith("retrax") and runs and None not in runs]
    if own and "pyRiemann rjd" in times:
        add("joint diagonalization: best retrax time / rjd time", min(own) / times["pyRiemann rjd"][0], 1.0)
    return lines


def _ratio_to_c(point: dict[str, Any]) -> float | None:
    return ratio_of(point, growth.CURVES[0], growth.CURVES[2])


def _median(point: dict[str, Any], name: str) -> float:
    return next(row["median_us"] for row in point["rows"] if row["name"] == name)
