"""The paper's claims, each judged by code from a result: holds, holds in part, or does not hold here."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from retrax.experiments.results import ComplexityResult, ExperimentResult
from retrax.experiments.series import BESIDE, RIVALS
from retrax.experiments.summary import Curve, curves, exponent_text, microseconds, number, overlap, until

HOLDS, IN_PART, FAILS = "holds", "holds in part", "does not hold here"
UNDECIDED = "cannot be told from this run"
UNSETTLED = "undecided at this budget"
ALIKE = 2.0
"""Final gaps within this factor count as similar."""
WITHIN = 1.25
"""... and within this one as about the same."""
SAME = 1e-3
"""Runs on scaled data differ by rounding only; over many steps that may grow to this share of a gap."""
ADAPTIVE = ("crmsprop", "ramsgrad", "rasa-l", "rasa-r", "rasa-lr")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    claim: str
    verdict: str
    evidence: str
    leader: str = ""
    """Who leads in the order that the verdict rests on; empty where it rests on none."""
    basis: str = ""
    """The budget and the seeds that it was judged on."""


Judge = Callable[[ExperimentResult], Verdict]
LAST_FIFTH = (0.8, 0.85, 0.9, 0.95)


def verdicts(result: ExperimentResult) -> list[Verdict]:
    """The verdicts on all the claims that an experiment tests."""
    return [dataclasses.replace(settled(_JUDGES[name], result), basis=basis(result)) for name in result.claims]


def settled(judge: Judge, result: ExperimentResult) -> Verdict:
    """The verdict; undecided where another method led at some time in the last fifth of the budget."""
    found = judge(result)
    if not found.leader:
        return found
    before = [judge(until(result, share)).leader for share in LAST_FIFTH]
    others = list(dict.fromkeys(leader for leader in before if leader != found.leader))
    if not others:
        return found
    changed = f"; the lead changes in the last fifth of the budget, where {' and '.join(others)} led too"
    return dataclasses.replace(found, verdict=UNSETTLED, evidence=found.evidence + changed)


def basis(result: ExperimentResult) -> str:
    """The budget and the seeds, in words."""
    budget = result.settings.budget
    return (
        f"{budget.epochs:g} epochs, seeds {_range(budget.seeds)}, tuned on seeds {_range(budget.tuning_seeds)}"
        if result.series
        else f"seeds {_range(budget.seeds)}"
    )


def _range(seeds: tuple[int, ...]) -> str:
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"


def _by_key(result: ExperimentResult, panel: str | None = None) -> dict[str, Curve]:
    return {curve.key: curve for curve in curves(result, panel)}


def _paper(result: ExperimentResult) -> list[Curve]:
    return [curve for curve in curves(result) if curve.in_paper]


def _compared(result: ExperimentResult, panel: str | None = None) -> list[Curve]:
    """Without the series that stand in every figure."""
    return [curve for curve in curves(result, panel) if curve.key not in BESIDE]


def _final(curve: Curve) -> str:
    low, median, high = (number(value) for value in curve.final)
    return f"{curve.label} {median} [{low}, {high}]"


def rsrm_best(result: ExperimentResult) -> Verdict:
    """RSRM ends lowest; in full if its quartile band lies below the next one's."""
    ranked = sorted(_paper(result), key=lambda curve: curve.final[1])
    rsrm, rival = _by_key(result)["rsrm"], next(curve for curve in ranked if curve.key != "rsrm")
    rank = [curve.key for curve in ranked].index("rsrm") + 1
    evidence = (
        f"final gap, median [quartiles]: {_final(rsrm)}; best of the others: {_final(rival)}; {_bands(rsrm, rival)}; "
        f"rank {rank} of {len(ranked)}"
    )
    if rank > 1:
        verdict = IN_PART if overlap(rsrm, rival) and rank == 2 else FAILS
    else:
        verdict = IN_PART if overlap(rsrm, rival) else HOLDS
    claim = "RSRM outperforms the other one-sample methods for the same SFO"
    return Verdict(claim, verdict, evidence, ranked[0].label)


def _bands(one: Curve, other: Curve) -> str:
    return "their quartiles overlap" if overlap(one, other) else "their quartiles do not overlap"


def runtime_best(result: ExperimentResult) -> Verdict:
    """RSRM is lowest at the time when the fastest method has spent its SFO budget."""
    claim = "RSRM keeps its lead when measured by run time"
    paper = [curve for curve in _paper(result) if math.isfinite(curve.time[-1])]
    rsrm = _by_key(result)["rsrm"]
    if not result.timed or rsrm.key not in [curve.key for curve in paper]:
        return Verdict(claim, UNDECIDED, "run times have not been measured")
    limit = min(float(curve.time[-1]) for curve in paper)
    at_limit = sorted(paper, key=lambda curve: curve.median_at_time(limit))
    rank = [curve.key for curve in at_limit].index("rsrm") + 1
    first = at_limit[0]
    evidence = (
        f"after {number(limit)} s: RSRM {number(rsrm.median_at_time(limit))}, rank {rank} of {len(paper)}; "
        f"first {first.label} {number(first.median_at_time(limit))}"
    )
    verdict = HOLDS if rank == 1 else IN_PART if rank == 2 else FAILS
    return Verdict(claim, verdict, evidence + _busy(result), first.label)


QUIET = 0.25


def _busy(result: ExperimentResult) -> str:
    """A remark where other processes kept the machine busy while run times were measured."""
    timings = [part.timing for part in result.series if part.timing is not None]
    others, load = max(timing.others for timing in timings), max(timing.load for timing in timings)
    if math.isnan(others):
        return f" (load average {load:.1f})"
    return f" (the machine was busy: others used up to {others:.1f} cores, load average {load:.1f})" * (others > QUIET)


def adaptive_like_sgd(result: ExperimentResult) -> Verdict:
    """Adaptive methods end within a factor of 2 of RSGD."""
    by_key = _by_key(result)
    ratios = {key: by_key[key].final[1] / by_key["rsgd"].final[1] for key in ADAPTIVE}
    alike = [key for key, ratio in ratios.items() if 1 / ALIKE <= ratio <= ALIKE]
    verdict = HOLDS if len(alike) == len(ratios) else IN_PART if len(alike) * 2 >= len(ratios) else FAILS
    evidence = "final gap over RSGD's: " + ", ".join(
        f"{by_key[key].label} {number(ratio)}" for key, ratio in ratios.items()
    )
    return Verdict("On easy data adaptive methods perform like well-tuned SGD", verdict, evidence)


def rho_default(result: ExperimentResult) -> Verdict:
    """ρ₀ = 0.1 ends within a quarter of the tuned ρ₀'s gap; in part: within a factor of 2."""
    by_key = _by_key(result)
    default, tuned = by_key["rsrm"], by_key["rsrm-rho"]
    ratio = default.final[1] / tuned.final[1]
    verdict = HOLDS if ratio <= 1.25 else IN_PART if ratio <= ALIKE else FAILS
    evidence = (
        f"final gap with ρ₀=0.1: {number(default.final[1])}; with ρ₀={tuned.variant.get('rho', math.nan):g}, "
        f"the best of the tuned: {number(tuned.final[1])} (ratio {number(ratio)}); {_bands(default, tuned)}"
    )
    return Verdict("The default ρ₀ = 0.1 performs well", verdict, evidence)


def cost_per_step(result: ExperimentResult) -> Verdict:
    """RSRM's step takes at most 1.5 times RSGD's, and cRMSProp's is not the cheapest."""
    claim = "A step of RSRM costs about as much as one of RSGD (one extra transport)"
    if not result.timed:
        return Verdict(claim, UNDECIDED, "run times have not been measured")
    by_key = _by_key(result)
    micro = {key: 1e6 * by_key[key].seconds_per_step for key in ("rsrm", "rsgd", "crmsprop", "rasa-lr")}
    ratio = micro["rsrm"] / micro["rsgd"]
    verdict = HOLDS if ratio <= 1.5 else IN_PART if ratio <= 2.5 else FAILS
    times = ", ".join(f"{by_key[key].label} {value:.0f} µs" for key, value in micro.items())
    return Verdict(claim, verdict, f"run time of a step: {times}; RSRM over RSGD {number(ratio)}{_busy(result)}")


def small_rates_beat_sgd(result: ExperimentResult) -> Verdict:
    """RSRM with η₀ = 0.005 and 0.001 against the best-tuned RSGD."""
    found = _compared(result)
    rsgd = next(curve for curve in found if curve.key == "rsgd")
    better = [c.rate for c in found if c.rate is not None and c.key != "rsgd" and c.final[1] < rsgd.final[1]]
    named = [rate for rate in (0.005, 0.001) if rate in better]
    verdict = HOLDS if len(named) == 2 else IN_PART if named else FAILS
    finals = ", ".join(f"{curve.rate:g}: {number(curve.final[1])}" for curve in found if curve.key != "rsgd")
    evidence = (
        f"RSGD (η₀={rsgd.rate:g}) {number(rsgd.final[1])}; RSRM by η₀: {finals}. RSRM beats it at "
        f"{len(better)} of {len(found) - 1} step sizes ({', '.join(f'{rate:g}' for rate in better) or 'none'}). "
        "Step sizes depend on the data's scale, which the paper does not give"
    )
    return Verdict("RSRM with η₀ = 0.005 and 0.001 outperforms the best-tuned SGD", verdict, evidence)


def first_batch_insensitive(result: ExperimentResult) -> Verdict:
    """Final gaps for all first batches within a factor of 2, and none of the larger ones best by that much."""
    found = _compared(result)
    finals = {curve.label.split("=")[1]: curve.final[1] for curve in found}
    spread = max(finals.values()) / min(finals.values())
    verdict = HOLDS if spread <= ALIKE else IN_PART if spread <= ALIKE**2 else FAILS
    evidence = "final gap by |S₀|: " + ", ".join(f"{size}: {number(gap)}" for size, gap in finals.items())
    return Verdict(
        "RSRM is insensitive to the first batch, and a larger one brings no benefit",
        verdict,
        f"{evidence}; largest over smallest {number(spread)}",
    )


def slow_then_lower(result: ExperimentResult) -> Verdict:
    """RSRM is not first after a tenth of the budget, and is first at the end."""
    paper = _paper(result)
    early = 0.1 * float(paper[0].sfo[-1])
    ranks = []
    for value in (lambda curve: curve.median_at_sfo(early), lambda curve: curve.final[1]):
        ranks.append([curve.key for curve in sorted(paper, key=value)].index("rsrm") + 1)
    slow, lower = ranks[0] > 1, ranks[1] == 1
    verdict = HOLDS if slow and lower else IN_PART if lower else FAILS
    evidence = f"rank of RSRM after a tenth of the budget {ranks[0]}, at the end {ranks[1]}, of {len(paper)}"
    leader = min(paper, key=lambda curve: curve.final[1]).label
    return Verdict("RSRM is slow in the first epochs, then converges to a lower value", verdict, evidence, leader)


def roughness(curve: Curve) -> float:
    """How much log₁₀ gap goes up and down from record to record in the second half of a run: median over seeds."""
    half = curve.gap[:, curve.gap.shape[1] // 2 :]
    logs = np.log10(np.maximum(half, 1e-300))
    return float(np.median(np.std(np.diff(logs, axis=1), axis=1)))


def stable(result: ExperimentResult) -> Verdict:
    """RSRM's curve is smoother than all of the others'."""
    paper = _paper(result)
    rough = {curve.label: roughness(curve) for curve in paper}
    smoother = [label for label, value in rough.items() if label != "RSRM" and value > rough["RSRM"]]
    share = len(smoother) / (len(paper) - 1)
    verdict = HOLDS if share == 1 else IN_PART if share >= 0.5 else FAILS
    evidence = "standard deviation of log₁₀ gap between records, second half: " + ", ".join(
        f"{label} {number(value)}" for label, value in rough.items()
    )
    return Verdict("RSRM converges more stably than the others", verdict, evidence)


def adaptive_fail(result: ExperimentResult) -> Verdict:
    """cRMSProp and RASA end above twice RSGD's final gap."""
    by_key = _by_key(result)
    keys = ("crmsprop", "rasa-l", "rasa-r", "rasa-lr")
    ratios = {by_key[key].label: by_key[key].final[1] / by_key["rsgd"].final[1] for key in keys}
    worse = [label for label, ratio in ratios.items() if ratio > ALIKE]
    verdict = HOLDS if len(worse) == len(keys) else IN_PART if worse else FAILS
    evidence = "final gap over RSGD's: " + ", ".join(f"{label} {number(ratio)}" for label, ratio in ratios.items())
    return Verdict("On the real data cRMSProp and RASA fail to perform comparably", verdict, evidence)


def _measured(result: ExperimentResult) -> dict[str, ComplexityResult]:
    return {part.entry.key: part for part in result.complexity}


def _near_theory(part: ComplexityResult) -> bool:
    """Whether the theory's exponent lies in the interval or within 0.2 of it (the theory leaves out logarithms)."""
    return part.interval[0] - 0.2 <= part.entry.exponent <= part.interval[1] + 0.2


def exponents(result: ExperimentResult) -> Verdict:
    """RSRM's exponent is near -3, and RSGD's and RASA's are smaller beyond doubt: the intervals do not overlap."""
    rows = [part for part in result.complexity if not part.entry.varied]
    text = ", ".join(f"{part.entry.label} {exponent_text(part)} (theory {part.entry.exponent:.3g})" for part in rows)
    tuned = ", ".join(f"{p.entry.label} {number(p.tuned_exponent)}" for p in rows if math.isfinite(p.tuned_exponent))
    by_key = _measured(result)
    rsrm, others = by_key["rsrm"], [by_key[key] for key in ("rsgd", "rasa-lr")]
    if any(math.isnan(part.exponent) for part in (rsrm, *others)):
        verdict = UNDECIDED
    else:
        steeper = [other.interval[1] < rsrm.interval[0] for other in others]
        verdict = HOLDS if all(steeper) and _near_theory(rsrm) else IN_PART if any(steeper) else FAILS
    return Verdict(
        "RSRM needs Õ(ε⁻³) oracle calls where RSGD and RASA need O(ε⁻⁴)",
        verdict,
        f"exponents [95 %] with one η₀ for all ε: {text}; with η₀ chosen for each ε: {tuned or '–'}",
    )


def _needed(parts: list[ComplexityResult]) -> tuple[float, list[float]]:
    """The smallest ε that all of them reached, and the SFO of each."""
    reached = [{point.epsilon: point.median for point in part.points if math.isfinite(point.median)} for part in parts]
    common = min(set.intersection(*(set(one) for one in reached)), default=math.nan)
    return common, [one.get(common, math.nan) for one in reached]


def one_sample(result: ExperimentResult) -> Verdict:
    """With batches of one sample RSRM's exponent is near -3."""
    by_key = _measured(result)
    one = by_key["rsrm"]
    verdict = UNDECIDED if math.isnan(one.exponent) else HOLDS if _near_theory(one) else FAILS
    texts = []
    for key in ("rsrm", "rsgd"):
        parts = [by_key[name] for name in (key, f"{key}-b10", f"{key}-b100")]
        epsilon, needed = _needed(parts)
        shown = ", ".join(
            f"b={part.entry.batch_size} {number(sfo)} (exponent {exponent_text(part)})"
            for part, sfo in zip(parts, needed, strict=True)
        )
        texts.append(f"{parts[0].entry.label}'s SFO to ε={epsilon:.3g}: {shown}")
    return Verdict("RSRM needs no large batch: Õ(ε⁻³) with batches of one sample", verdict, "; ".join(texts))


def noise(result: ExperimentResult) -> Verdict:
    """What RSRM needs grows with σ², and is far less without noise."""
    by_key = _measured(result)
    parts = [by_key[key] for key in ("rsrm", "rsrm-noise4", "rsrm-noise16")]
    (epsilon, needed), silent = _needed(parts), by_key["rsrm-noise0"].points[-1]
    if not (math.isfinite(epsilon) and math.isfinite(silent.median)):
        verdict, power = UNDECIDED, math.nan
    else:
        power = float(np.polyfit(np.log([part.entry.noise for part in parts]), np.log(needed), 1)[0])
        verdict = HOLDS if power > 0 and silent.median < min(needed) else FAILS
    values = ", ".join(f"{part.entry.noise}σ² {number(sfo)}" for part, sfo in zip(parts, needed, strict=True))
    return Verdict(
        "What RSRM needs grows with the noise, and without noise it is faster than Õ(ε⁻³)",
        verdict,
        f"SFO to ε={epsilon:.3g}: {values}, that is (σ²)^{power:.2f}; without noise {number(silent.median)} "
        f"for ε={silent.epsilon:.3g}",
    )


def full_gradients(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: what finite-sum methods do when full gradients are allowed."""
    by_key = _by_key(result, "finite")
    rsrm, reduced = by_key["rsrm"], min((by_key["rsvrg"], by_key["rsrg"]), key=lambda curve: curve.final[1])
    overtaken = reduced.final[1] < rsrm.final[1]
    crossing = next((float(s) for s in reduced.sfo if reduced.median_at_sfo(s) < rsrm.median_at_sfo(s)), math.inf)
    samples = result.panels[0].samples
    evidence = f"final gap: {_final(rsrm)}; {_final(reduced)}; " + (
        f"{reduced.label} is lower from epoch {number(crossing / samples)} on"
        if overtaken
        else "not within this budget"
    )
    return Verdict(
        "Beyond the paper: with full gradients allowed, RSVRG and RSRG overtake the one-sample methods",
        HOLDS if overtaken else FAILS,
        evidence,
    )


def transports_alike(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: whether projection, which its theory excludes, costs anything."""
    texts, spreads = [], []
    for panel in result.panels:
        found = _compared(result, panel.key)
        finals = [curve.final[1] for curve in found]
        spreads.append(max(finals) / min(finals))
        shown = ", ".join(f"{c.label} {number(c.final[1])} ({microseconds(c)} µs a step)" for c in found)
        texts.append(f"{panel.title}: {shown}")
    verdict = HOLDS if max(spreads) <= 1.25 else IN_PART if max(spreads) <= ALIKE else FAILS
    return Verdict(
        "Beyond the paper: projection does as well as the isometric transports that the theory asks for",
        verdict,
        "; ".join(texts),
    )


def untuned_best(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: RSRM without a step size against the paper's methods, each with its best one."""
    untuned, rivals = _by_key(result)["rsrm-untuned"], _paper(result)
    best = min(rivals, key=lambda curve: curve.final[1])
    others = [curve for curve in curves(result) if curve.key != untuned.key]
    everyone = min(others, key=lambda curve: curve.final[1])
    ratio, widest = (untuned.final[1] / other.final[1] for other in (best, everyone))
    verdict = HOLDS if ratio <= 1 and widest <= WITHIN else IN_PART if ratio <= WITHIN else FAILS
    evidence = (
        f"final gap: {_final(untuned)}; best of the paper's, tuned: {_final(best)} (ratio {number(ratio)}); "
        f"best of all, tuned: {_final(everyone)} (ratio {number(widest)})"
    )
    return Verdict("Beyond the paper: RSRM without a step size ends as low as the best tuned method", verdict, evidence)


def untuned_ahead(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: RSRM without a step size against others that need none."""
    keys = [part.key for part in RIVALS]
    texts, ahead = [], []
    for panel in result.panels:
        by_method = {curve.key.removeprefix(f"{panel.key}-"): curve for curve in curves(result, panel.key)}
        rivals = [by_method[key] for key in keys if key in by_method]
        if not rivals:
            continue
        untuned, best = by_method["rsrm-untuned"], min(rivals, key=lambda curve: curve.final[1])
        ahead.append(untuned.final[1] <= best.final[1])
        texts.append(f"{panel.title}: {_final(untuned)}, best rival {_final(best)}")
    verdict = HOLDS if all(ahead) else IN_PART if 2 * sum(ahead) >= len(ahead) else FAILS
    claim = "Beyond the paper: RSRM without a step size ends below RDoG, RDoWG, NRDoG and STORM+"
    return Verdict(claim, verdict, "; ".join(texts))


def any_scale(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: data times a factor, the same run."""
    finals = {curve.label: curve.final[1] for curve in curves(result, "scale")}
    spread = max(finals.values()) / min(finals.values()) - 1
    return Verdict(
        "Beyond the paper: RSRM without a step size does not feel the scale of the data",
        HOLDS if spread < SAME else FAILS,
        f"final gaps, relative to the scale, over 10⁻³ to 10³: apart by {spread:.1g} of their size",
    )


def any_batch(result: ExperimentResult) -> Verdict:
    """Not a claim of the paper: any batch size does, at equal SFO."""
    finals = {curve.label: curve.final[1] for curve in curves(result, "batch")}
    ratio = max(finals.values()) / min(finals.values())
    verdict = HOLDS if ratio <= 1.3 else IN_PART if ratio <= ALIKE else FAILS
    return Verdict(
        "Beyond the paper: RSRM without a step size needs no particular batch size",
        verdict,
        f"final gap: {', '.join(f'{label} {number(value)}' for label, value in finals.items())} "
        f"(apart by a factor of {number(ratio)})",
    )


_JUDGES: dict[str, Judge] = {
    judge.__name__: judge
    for judge in (
        rsrm_best,
        runtime_best,
        adaptive_like_sgd,
        rho_default,
        cost_per_step,
        small_rates_beat_sgd,
        first_batch_insensitive,
        slow_then_lower,
        stable,
        adaptive_fail,
        exponents,
        one_sample,
        noise,
        full_gradients,
        transports_alike,
        untuned_best,
        untuned_ahead,
        any_scale,
        any_batch,
    )
}
