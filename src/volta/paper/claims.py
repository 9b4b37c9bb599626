"""The paper's claims, each in a line, with a verdict computed by rules and the figures that decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.paper.evidence import MARGINS, Evidence, Gain, evidence_of, gains
from volta.stats import ALPHA, Results, Sample

Verdict = Literal["holds", "does not hold", "cannot tell at this n"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNKNOWN: Verdict = "cannot tell at this n"

_FIVE = ("accuracy", "ece", "brier", "nll", "auroc")

Judgement = tuple[Verdict, str]
Pair = tuple[str, str]
"""Two methods, the first of which may gain over the second."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its ``statement``, the ``rule`` in words, and the function that judges it."""

    key: str
    statement: str
    rule: str
    judge: Callable[[Evidence], Judgement]


@dataclass(frozen=True)
class ClaimRow:
    """A claim judged on one task and protocol; ``sentence`` holds the deciding figures and n."""

    task: str
    protocol: str
    claim: str
    statement: str
    verdict: Verdict
    sentence: str


def judge_claims(tables: Iterable[Results]) -> list[ClaimRow]:
    """Return a verdict on each claim of the paper for every task and protocol with our method in it."""
    return [row for table in tables if table.ours for row in judge_evidence(evidence_of(table, table.ours))]


def judge_evidence(evidence: Evidence) -> list[ClaimRow]:
    """Return a verdict on each claim from one body of evidence, ours or the paper's own."""
    rows = []
    for claim in CLAIMS:
        verdict, sentence = claim.judge(evidence)
        rows.append(ClaimRow(evidence.task, evidence.protocol, claim.key, claim.statement, verdict, sentence))
    return rows


def _judge_best(metric: str, evidence: Evidence) -> Judgement:
    """Superiority: VOLTA better than every baseline after Holm holds; one baseline better after Holm refutes."""
    found = gains(evidence, [(evidence.ours, name) for name in evidence.baselines], [metric])
    if not found:
        return UNKNOWN, _nothing(evidence, metric)
    nearest = min(found, key=lambda one: one.value)
    figures = _pair(evidence, nearest)
    better = [one for one in found if _significant(one) and one.value < 0]
    open_ones = [one for one in found if not (_significant(one) and one.value > 0)]
    if better:
        return (
            FAILS,
            f"{len(better)} of {len(found)} baselines are significantly better on {_label(metric)}; {figures}.",
        )
    if not open_ones:
        return HOLDS, f"VOLTA is significantly better than all {len(found)} baselines on {_label(metric)}; {figures}."
    standing = "VOLTA's mean is the best" if nearest.value > 0 else "VOLTA's mean is not the best"
    return UNKNOWN, (
        f"{standing}, but {len(open_ones)} of {len(found)} baselines are not separated from it on {_label(metric)}; "
        f"{figures}{_why(nearest)}{_could_see(nearest)}."
    )


def _judge_not_worse(metric: str, place: float, evidence: Evidence) -> Judgement:
    """Non-inferiority: VOLTA against the baseline at ``place`` (1 best, 0.5 middle) with the metric's margin."""
    found = sorted(
        gains(evidence, [(evidence.ours, name) for name in evidence.baselines], [metric]), key=lambda one: one.value
    )
    if not found:
        return UNKNOWN, _nothing(evidence, metric)
    # Gains run from the strongest baseline up, so place 1 is the first; an even count takes the stronger middle one.
    rival = found[int((1 - place) * (len(found) - 1))]
    margin = MARGINS[metric]
    which = "the best" if place == 1 else "the middle"
    above = sum(1 for one in found if _significant(one) and one.value < 0)
    figures = (
        f"{_pair(evidence, rival)}{_interval(rival)}, margin {margin:g}; "
        f"{above} of {len(found)} baselines significantly above VOLTA"
    )
    if rival.low is None or rival.high is None:
        return UNKNOWN, f"Against {which} baseline there is no interval{_why(rival)}: {figures}."
    if rival.low > -margin:
        return HOLDS, f"VOLTA loses less than the margin to {which} baseline: {figures}."
    if rival.high < -margin:
        return FAILS, f"VOLTA loses more than the margin to {which} baseline: {figures}."
    return (
        UNKNOWN,
        f"Against {which} baseline both a tie and a loss beyond the margin are possible: {figures}{_could_see(rival)}.",
    )


def _judge_no_help(
    pairs_of: Callable[[str], tuple[Pair, ...]], metrics: tuple[str, ...], what: str, evidence: Evidence
) -> Judgement:
    """Equivalence: every gain below its margin holds; a significant gain that may matter refutes.

    pairs_of: the name of our method → the pairs whose first member has what should not help.
    """
    pairs = pairs_of(evidence.ours)
    found = gains(evidence, pairs, metrics)
    if not found:
        return UNKNOWN, f"No pair such as {pairs[0][0]} and {pairs[0][1]} was run."
    missing = [pair for pair in pairs if all((one.first, one.second) != pair for one in found)]
    helping = [one for one in found if _significant(one) and one.value > 0 and not one.negligible]
    scope = f"{len(found)} comparisons ({len(pairs) - len(missing)} of {len(pairs)} pairs were run)"
    if helping:
        best = max(helping, key=lambda one: one.value / MARGINS[one.metric])
        return FAILS, f"{what} helps significantly in {len(helping)} of {scope}; {_pair(evidence, best)}."
    largest = max(found, key=lambda one: (one.high if one.high is not None else one.value) / MARGINS[one.metric])
    figures = f"{_pair(evidence, largest)}{_interval(largest)}, margin {MARGINS[largest.metric]:g}"
    if not missing and all(one.negligible for one in found):
        return HOLDS, f"{what} gains less than the margin in all of {scope}; the widest: {figures}."
    unresolved = sum(1 for one in found if not one.negligible)
    return UNKNOWN, (
        f"{what} helps significantly nowhere, but in {unresolved} of {scope} a gain that matters is "
        f"not excluded; the widest: {figures}{_why(largest)}{_could_see(largest)}."
    )


def _judge_matters(pair: Pair, metrics: tuple[str, ...], what: str, evidence: Evidence) -> Judgement:
    """A component matters if keeping it is significantly better somewhere and significantly worse nowhere."""
    found = gains(evidence, [pair], metrics)
    if not found:
        return UNKNOWN, f"{pair[0]} and {pair[1]} were not both run."
    better = [one for one in found if _significant(one) and one.value > 0]
    worse = [one for one in found if _significant(one) and one.value < 0]
    largest = max(found, key=lambda one: one.value / MARGINS[one.metric])
    figures = f"largest gain: {_pair(evidence, largest)}{_interval(largest)}"
    if all(one.negligible for one in found):
        return FAILS, f"{what} gains less than the margin on each of {len(found)} metrics; {figures}."
    if better and not worse:
        return HOLDS, f"{what} is significantly better on {_listed(better)}; {figures}."
    if worse and not better:
        lowest = min(worse, key=lambda one: one.value / MARGINS[one.metric])
        return FAILS, f"{what} is significantly worse on {_listed(worse)}; {_pair(evidence, lowest)}."
    mixed = f"better on {_listed(better)} and worse on {_listed(worse)}" if better else "separated on none"
    return UNKNOWN, f"{what} is {mixed} of {len(found)} metrics; {figures}{_why(largest)}{_could_see(largest)}."


def _auxiliary_pairs(ours: str) -> tuple[Pair, ...]:
    removed = (Ablation.NO_MARGIN, Ablation.NO_RECONSTRUCTION, Ablation.NO_DIVERSITY, Ablation.NO_CONTRASTIVE)
    added = (Ablation.PLUS_MARGIN, Ablation.PLUS_RECONSTRUCTION, Ablation.PLUS_DIVERSITY, Ablation.PLUS_CONTRASTIVE)
    return (*((Ablation.FULL.key, row.key) for row in removed), *((row.key, ours) for row in added))


def _full_without(row: Ablation) -> Pair:
    return Ablation.FULL.key, row.key


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "best-ece",
        "VOLTA has the lowest ECE of all methods.",
        "holds if VOLTA is better than every baseline at Holm p < 0.05; does not hold if a baseline is better so",
        partial(_judge_best, "ece"),
    ),
    Claim(
        "accuracy-on-par",
        "VOLTA's accuracy is on par with the best baseline.",
        "holds if the 95 % interval of VOLTA − best baseline lies above −0.01; does not hold if it lies below",
        partial(_judge_not_worse, "accuracy", 1.0),
    ),
    Claim(
        "selective-prediction",
        "VOLTA's uncertainty gives the best selective prediction (AURC).",
        "as for best ECE, on AURC",
        partial(_judge_best, "aurc"),
    ),
    Claim(
        "ood-competitive",
        "VOLTA's OOD detection is competitive: not below the middle of the baselines on near-OOD AUROC.",
        "holds if the 95 % interval of VOLTA − middle baseline lies above −0.01; does not hold if it lies below",
        partial(_judge_not_worse, "auroc", 0.5),
    ),
    Claim(
        "auxiliary-losses-do-not-help",
        "Auxiliary losses (margin, reconstruction, diversity, contrastive) do not help.",
        "holds if every 95 % interval of the gain ends below its margin; does not hold if a gain is significant (Holm)",
        partial(_judge_no_help, _auxiliary_pairs, _FIVE, "An auxiliary loss"),
    ),
    Claim(
        "deep-encoder-matters",
        "The deep encoder matters for calibration and accuracy.",
        "holds if deep is better than shallow on a metric at Holm p < 0.05 and worse on none; does not hold if the "
        "opposite, or if every gain is below its margin",
        partial(
            _judge_matters, _full_without(Ablation.SHALLOW), ("accuracy", "ece", "brier", "nll"), "The deep encoder"
        ),
    ),
    Claim(
        "temperature-matters",
        "Temperature (learned and post-hoc) matters for calibration.",
        "as for the deep encoder, on ECE and NLL",
        partial(_judge_matters, _full_without(Ablation.NO_TEMPERATURE), ("ece", "nll"), "Temperature"),
    ),
    Claim(
        "mc-inference-does-not-help",
        "Monte Carlo inference does not help.",
        "as for auxiliary losses",
        partial(_judge_no_help, lambda ours: (_full_without(Ablation.NO_MC),), _FIVE, "Monte Carlo inference"),
    ),
)


def _significant(one: Gain) -> bool:
    return one.p_holm is not None and one.p_holm < ALPHA


def _pair(evidence: Evidence, one: Gain) -> str:
    parts = [
        f"{evidence.title(name)} {_shown(sample)}"
        for name, sample in ((one.first, one.first_sample), (one.second, one.second_sample))
    ]
    p = "" if one.p is None or one.p_holm is None else f", p = {one.p:.2g}, Holm {one.p_holm:.2g}"
    return f"{_label(one.metric)} {METRICS[one.metric].direction} {parts[0]}, {parts[1]}{p}"


def _shown(sample: Sample) -> str:
    spread = "" if sample.std is None else f" ± {sample.std:.2g}"
    return f"{sample.mean:.4f}{spread} (n = {sample.n})"


def _interval(one: Gain) -> str:
    return "" if one.low is None or one.high is None else f", gain in [{one.low:+.4f}, {one.high:+.4f}]"


def _could_see(one: Gain) -> str:
    if not one.detectable:
        return ""
    return f"; smallest difference this test sees with 80 % power: {one.detectable:.3g}"


def _why(one: Gain) -> str:
    return f" ({one.reason})" if one.reason else ""


def _nothing(evidence: Evidence, metric: str) -> str:
    if evidence.get(evidence.ours, metric) is None:
        return f"VOLTA has no {_label(metric)} in this run."
    return f"No baseline of the paper has {_label(metric)} in this run."


def _label(metric: str) -> str:
    known = METRICS[metric]
    return f"near-OOD {known.label}" if known.on_ood_sets else known.label


def _listed(found: list[Gain]) -> str:
    return ", ".join(_label(one.metric) for one in found)
