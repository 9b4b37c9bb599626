"""The paper's claims: a verdict for each, by a fixed rule on evidence and one-sided tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.paper.claim_evidence import (
    AllOf,
    AnyOf,
    Evidence,
    Step,
    above,
    below,
    evidence_of,
    fewest_seeds,
    interval,
    label,
    listed,
    minimum_detectable,
    pair,
    why,
)
from volta.paper.values import CLAIM_TASKS
from volta.stats.bootstrap import Bootstraps
from volta.stats.comparisons import PairTest, bootstrap_of
from volta.stats.results import TEST_SET, Results
from volta.stats.sequential import Question
from volta.stats.tests import (
    ALPHA,
    MARGINS,
    higher_is_better,
)

Verdict = Literal["supported", "refuted", "equivalent", "inconclusive", "not run"]
SUPPORTED: Verdict = "supported"
REFUTED: Verdict = "refuted"
EQUIVALENT: Verdict = "equivalent"
INCONCLUSIVE: Verdict = "inconclusive"
NOT_RUN: Verdict = "not run"

HALF = 0.5
"""Superiority is tested on both sides, each with half the level; what is tested against a margin has one side."""

Pair = tuple[str, str]
"""Two methods, the first of which may gain over the second."""


@dataclass(frozen=True)
class ClaimResult:
    """A verdict, the sentence with its figures, the comparisons it rests on, and the seeds that would decide it."""

    verdict: Verdict
    sentence: str
    tests: tuple[PairTest, ...] = ()
    seeds_needed: int | None = None


def claim_best(metric: str, evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether our method is the best on a metric.

    Supported: better than every distinct baseline (an intersection-union test, uncorrected). Refuted: one baseline is
    better (Bonferroni over distinct baselines). Equivalent: a loss below the margin to every baseline, and a lead below
    it over at least one.
    """
    found = evidence.against_baselines(metric)
    if not found:
        return ClaimResult(NOT_RUN, _nothing(evidence, metric))
    wins, loses = AllOf(above(found, 0), HALF), AnyOf(below(found, 0), HALF)
    equivalent = AllOf(above(found, -1)), AnyOf(below(found, 1))
    nearest = _nearest(found)
    figures = f"{pair(evidence, nearest)}{interval(nearest, HALF * alpha)}"
    name = label(evidence, metric)
    if wins.shown(alpha):
        words = f"VOLTA is better than all {len(found)} distinct baselines on {name} (intersection-union test)"
        return ClaimResult(SUPPORTED, f"{words}; {figures}.", (*found,))
    if loses.shown(alpha):
        better = loses.found(alpha)
        first = min(better, key=lambda step: step.p).test
        words = f"{len(better)} of {len(found)} distinct baselines are significantly better on {name}"
        words += f", by less than the margin {MARGINS[metric]:g}" if equivalent[0].shown(alpha) else ""
        words += " (Bonferroni over baselines)"
        return ClaimResult(REFUTED, f"{words}; {pair(evidence, first)}{interval(first, HALF * alpha)}.", (*found,))
    if all(part.shown(alpha) for part in equivalent):
        words = f"VOLTA and the best baselines differ by less than the margin {MARGINS[metric]:g} on {name}"
        return ClaimResult(EQUIVALENT, f"{words}; {pair(evidence, nearest)}{interval(nearest, alpha)}.", (*found,))
    standing = f"VOLTA's mean is {'' if _value(nearest) > 0 else 'not '}the best of the paper's methods"
    open_ones = sum(1 for step in wins.steps if not step.p < HALF * alpha)
    return ClaimResult(
        INCONCLUSIVE,
        f"{standing}, but {open_ones} of {len(found)} distinct baselines are not separated from it on {name}; "
        f"{figures}{why(nearest)}{minimum_detectable(nearest)}.",
        (*found,),
        fewest_seeds((wins,), (loses,), equivalent, alpha=alpha),
    )


def claim_on_par(metric: str, evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether our method loses less than the margin to every baseline, and so to the best, whichever it is."""
    found = evidence.against_baselines(metric)
    if not found:
        return ClaimResult(NOT_RUN, _nothing(evidence, metric))
    return _not_worse(evidence, found, _nearest(found), "the best baseline", alpha)


def claim_against_median(metric: str, evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether our method loses less than the margin to the median over baselines, taken in each seed."""
    if evidence.get(evidence.ours, metric) is None or not evidence.against_baselines(metric):
        return ClaimResult(NOT_RUN, _nothing(evidence, metric))
    test = evidence.median(metric, evidence.set_of(metric))
    if test is None:
        return ClaimResult(INCONCLUSIVE, f"No per-seed values of {label(evidence, metric)} to take medians of.")
    return _not_worse(evidence, [test], test, "the median of the baselines", alpha)


def claim_no_help(
    pairs_of: Callable[[str], tuple[Pair, ...]], metrics: tuple[str, ...], what: str, evidence: Evidence, alpha: float
) -> ClaimResult:
    """Judge whether something does not help: supported if every gain is below its margin, refuted if one is above.

    A significant gain below its margin does not refute. pairs_of: the name of our method → the pairs
    whose first member has what should not help.
    """
    pairs = pairs_of(evidence.ours)
    found = evidence.pairs(pairs, metrics)
    if not found:
        return ClaimResult(NOT_RUN, f"No pair such as {pairs[0][0]} and {pairs[0][1]} was run.")
    missing = [one for one in pairs if all((test.first, test.second) != one for test in found)]
    none, some = AllOf(below(found, 1)), AnyOf(above(found, 1))
    scope = f"{len(found)} comparisons ({len(pairs) - len(missing)} of {len(pairs)} pairs were run)"
    if some.shown(alpha):
        helping = [step.test for step in some.found(alpha)]
        best = max(helping, key=_in_margins)
        return ClaimResult(
            REFUTED,
            f"{what} gains more than the margin in {len(helping)} of {scope}; "
            f"{pair(evidence, best)}{interval(best, alpha)}.",
            (*found,),
        )
    widest = max(found, key=lambda test: _upper(test, alpha) / MARGINS[test.metric])
    figures = f"{pair(evidence, widest)}{interval(widest, alpha)}"
    if not missing and none.shown(alpha):
        words = f"{what} gains less than the margin in all of {scope}"
        return ClaimResult(SUPPORTED, f"{words}; the widest: {figures}.", (*found,))
    unresolved = sum(1 for step in none.steps if not step.p < alpha)
    return ClaimResult(
        INCONCLUSIVE,
        f"{what} is nowhere shown to gain more than the margin, but in {unresolved} of {scope} a gain that matters is "
        f"not excluded; the widest: {figures}{why(widest)}{minimum_detectable(widest)}.",
        (*found,),
        fewest_seeds(() if missing else (none,), (some,), alpha=alpha),
    )


def claim_matters(compared: Pair, metrics: tuple[str, ...], what: str, evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether a component matters: better with it somewhere and worse nowhere, beyond what is negligible."""
    found = evidence.pairs([compared], metrics)
    if not found:
        return ClaimResult(NOT_RUN, f"{compared[0]} and {compared[1]} were not both run.")
    no_gain, no_loss = AllOf(below(found, 1)), AllOf(above(found, -1))
    helping = [step.test for step in no_gain.steps if not step.p < alpha]
    harming = [step.test for step in no_loss.steps if not step.p < alpha]
    helps, harms = AnyOf(above(helping, 0), HALF, len(found)), AnyOf(below(harming, 0), HALF, len(found))
    better, worse = ([step.test for step in route.found(alpha)] for route in (helps, harms))
    largest = max(found, key=_in_margins)
    figures = f"largest gain: {pair(evidence, largest)}{interval(largest, alpha)}"
    metrics_words = f"{len(found)} metrics"
    correction = f"Bonferroni over {metrics_words}"
    if no_gain.shown(alpha) and no_loss.shown(alpha):
        return ClaimResult(
            EQUIVALENT, f"{what} changes each of {metrics_words} by less than its margin; {figures}.", (*found,)
        )
    if better and not worse:
        return ClaimResult(
            SUPPORTED, f"{what} is better on {listed(evidence, better)} ({correction}); {figures}.", (*found,)
        )
    if worse and not better:
        lowest = min(worse, key=_in_margins)
        words = f"{what} is worse on {listed(evidence, worse)} ({correction})"
        return ClaimResult(REFUTED, f"{words}; {pair(evidence, lowest)}{interval(lowest, alpha)}.", (*found,))
    if no_gain.shown(alpha):
        return ClaimResult(
            REFUTED, f"{what} gains less than the margin on each of {metrics_words}; {figures}.", (*found,)
        )
    mixed = "separated on none"
    if better:
        mixed = f"better on {listed(evidence, better)} and worse on {listed(evidence, worse)}"
    return ClaimResult(
        INCONCLUSIVE,
        f"{what} is {mixed} of {metrics_words}; {figures}{why(largest)}{minimum_detectable(largest)}.",
        (*found,),
        None if better else fewest_seeds((no_gain,), (helps,), (harms,), alpha=alpha),
    )


COST_MARGIN = 0.1
"""By what share a cost may exceed the median of the baselines before it counts."""
_EXACT = 1e-12
"""Stands for the error of a number of parameters, which has none, as a share of it."""


def claim_lightweight(evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether latency and size of our method are at most a tenth above the median over baselines."""
    steps = []
    for metric in ("latency_ms", "size_mb"):
        test = evidence.median(metric, TEST_SET)
        if test is not None and test.gain is not None and test.second_sample is not None:
            typical = test.second_sample.mean
            if test.gain.constant:
                test = replace(test, gain=replace(test.gain, row_error=_EXACT * typical))
            steps.append(Step(test, -COST_MARGIN * typical, True))
    if len(steps) < 2:
        return ClaimResult(NOT_RUN, "No latency and size of VOLTA and of a baseline over two seeds in this run.")
    light, heavy = AllOf((*steps,)), AnyOf(tuple(replace(step, above=False) for step in steps))
    figures = "; ".join(pair(evidence, step.test) for step in steps)
    tests = tuple(step.test for step in steps)
    if light.shown(alpha):
        words = "Neither latency nor size of VOLTA is more than 10 % above the median of the baselines"
        return ClaimResult(SUPPORTED, f"{words}: {figures}.", tests)
    if heavy.shown(alpha):
        names = " and ".join(METRICS[step.test.metric].label for step in heavy.found(alpha))
        return ClaimResult(REFUTED, f"More than 10 % above the median of the baselines: {names}; {figures}.", tests)
    return ClaimResult(
        INCONCLUSIVE, f"An excess of 10 % over the median is neither shown nor excluded: {figures}.", tests
    )


def claim_trade_off(evidence: Evidence, alpha: float) -> ClaimResult:
    """Judge whether each baseline that detects OOD better than our method is worse calibrated, by more than the margin.

    Refuted if the ECE of one of them is not: it has the better detection at no such price.
    """
    found = evidence.against_baselines("auroc")
    name, price = label(evidence, "auroc"), label(evidence, "ece")
    if not found:
        return ClaimResult(NOT_RUN, _nothing(evidence, "auroc"))
    ahead = [(evidence.ours, step.test.second) for step in AnyOf(below(found, 0), HALF).found(alpha)]
    if not ahead:
        nearest = _nearest(found)
        words = (
            f"No baseline is shown to be better on {name}; {pair(evidence, nearest)}{interval(nearest, HALF * alpha)}."
        )
        return ClaimResult(INCONCLUSIVE, words, (*found,))
    priced = (*evidence.pairs(ahead, ("ece",)),)
    cheap = AnyOf(below(priced, 1)).found(alpha)
    scope = f"{len(ahead)} baselines that are significantly better on {name} (Bonferroni over baselines)"
    if AllOf(above(priced, 1)).shown(alpha):
        least = _nearest(priced)
        words = f"Each of the {scope} loses more than the margin on {price}; {pair(evidence, least)}"
        return ClaimResult(SUPPORTED, f"{words}{interval(least, alpha)}.", priced)
    if not cheap:
        return ClaimResult(INCONCLUSIVE, f"What the {scope} lose on {price} is not known well enough.", priced)
    best = min((step.test for step in cheap), key=_value)
    words = f"{len(cheap)} of the {scope} lose less than the margin on {price}, or nothing"
    figures = f"{pair(evidence, best)}{interval(best, alpha)}"
    return ClaimResult(REFUTED, f"{words}; {figures}.", priced)


def _not_worse(evidence: Evidence, tests: Sequence[PairTest], rival: PairTest, which: str, alpha: float) -> ClaimResult:
    not_inferior, inferior = AllOf(above(tests, -1)), AnyOf(below(tests, -1))
    figures = f"{pair(evidence, rival)}{interval(rival, alpha)}"
    if not_inferior.shown(alpha):
        return ClaimResult(SUPPORTED, f"VOLTA loses less than the margin to {which}: {figures}.", (*tests,))
    if inferior.shown(alpha):
        return ClaimResult(REFUTED, f"VOLTA loses more than the margin to {which}: {figures}.", (*tests,))
    if rival.gain is None:
        return ClaimResult(INCONCLUSIVE, f"Against {which} there is no interval{why(rival)}: {figures}.", (*tests,))
    return ClaimResult(
        INCONCLUSIVE,
        f"Against {which} equivalence and inferiority both remain possible: {figures}{minimum_detectable(rival)}.",
        (*tests,),
        fewest_seeds((not_inferior,), (inferior,), alpha=alpha),
    )


def _nearest(tests: Sequence[PairTest]) -> PairTest:
    """Return the comparison with the strongest rival: the one our method gains least over."""
    return min(tests, key=_value)


def _value(test: PairTest) -> float:
    if test.gain is not None:
        return test.gain.value
    return (test.difference or 0.0) * (1 if higher_is_better(test.metric) else -1)


def _in_margins(test: PairTest) -> float:
    return _value(test) / MARGINS[test.metric]


def _upper(test: PairTest, alpha: float) -> float:
    return _value(test) if test.gain is None else test.gain.interval(2 * alpha)[1]


def _nothing(evidence: Evidence, metric: str) -> str:
    if evidence.get(evidence.ours, metric) is None:
        return f"VOLTA has no {label(evidence, metric)} in this run."
    return f"No baseline of the paper has {label(evidence, metric)} in this run."


_FIVE = ("accuracy", "ece", "brier", "nll", "auroc")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its ``statement``, the ``rule`` in words, and the function that judges it at a level.

    ``as_predicted``: ECE, Brier and NLL are always those of the probabilities as the method gives them. ``tasks``: the
    tasks it is about, all if empty. ``timed``: it rests on timings, which more seeds do not decide.
    """

    key: str
    statement: str
    rule: str
    judge: Callable[[Evidence, float], ClaimResult]
    as_predicted: bool = False
    tasks: tuple[str, ...] = ()
    timed: bool = False


@dataclass(frozen=True)
class ClaimRow:
    """A claim judged on one task and protocol; ``sentence`` holds the deciding figures and n.

    ``n``: the fewest seeds that its comparisons rest on; ``alpha``: the level it was judged at; ``seeds_needed``: the
    estimated number of seeds that decides it with 80 % probability, where it is undecided and a number is in sight;
    ``methods``: the methods it compares, separated by spaces.
    """

    task: str
    protocol: str
    claim: str
    statement: str
    verdict: Verdict
    sentence: str
    n: int
    alpha: float
    seeds_needed: int | None
    methods: str


def evaluate_claims(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[ClaimRow]:
    """Return a verdict on each claim of the paper for every protocol of its tasks, and of `digits`, that VOLTA ran."""
    return [
        row
        for table in tables
        if table.ours and table.task in CLAIM_TASKS
        for row in evaluate_evidence(evidence_of(table, table.ours, bootstrap_of(bootstraps, table)), alpha)
    ]


def evaluate_evidence(evidence: Evidence, alpha: float = ALPHA) -> list[ClaimRow]:
    """Return a verdict on each claim from one body of evidence, ours or the paper's own."""
    rows = []
    for claim in CLAIMS:
        if claim.tasks and evidence.task not in claim.tasks:
            continue
        found = claim.judge(evidence.as_predicted() if claim.as_predicted else evidence, alpha)
        known = (evidence.ours, *evidence.baselines, *(row.key for row in Ablation))
        compared = dict.fromkeys(name for test in found.tests for name in (test.first, test.second))
        if any(name not in known for name in compared):
            compared |= dict.fromkeys(evidence.baselines)
        rows.append(
            ClaimRow(
                evidence.task, evidence.protocol, claim.key, claim.statement, found.verdict, found.sentence,
                min((test.n for test in found.tests), default=0), alpha, found.seeds_needed,
                " ".join(name for name in compared if name in known),
            )
        )  # fmt: skip
    return rows


def questions_of(claims: Iterable[ClaimRow]) -> list[Question]:
    """Return the claims as questions of :func:`volta.stats.decide`; one that nothing was run for is not asked."""
    timed = {claim.key for claim in CLAIMS if claim.timed}
    return [
        Question(
            f"{row.task} · {row.protocol} · {row.claim}",
            tuple(row.methods.split()),
            "" if row.verdict in (INCONCLUSIVE, NOT_RUN) else row.verdict,
            row.n,
            row.seeds_needed,
            row.sentence,
        )
        for row in claims
        if row.methods and row.claim not in timed
    ]


def _auxiliary_pairs(ours: str) -> tuple[Pair, ...]:
    removed = (Ablation.NO_MARGIN, Ablation.NO_RECONSTRUCTION, Ablation.NO_DIVERSITY, Ablation.NO_CONTRASTIVE)
    added = (Ablation.ADD_MARGIN, Ablation.ADD_RECONSTRUCTION, Ablation.ADD_DIVERSITY, Ablation.ADD_CONTRASTIVE)
    return (*((Ablation.FULL.key, row.key) for row in removed), *((row.key, ours) for row in added))


def _full_without(row: Ablation) -> Pair:
    return Ablation.FULL.key, row.key


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "best-ece",
        "VOLTA has the lowest ECE of all methods.",
        "supported if VOLTA is better than every baseline (two-sided p < 0.05 each); refuted if a baseline is better "
        "(Bonferroni over baselines); equivalent if VOLTA loses less than 0.01 to every baseline and leads by less "
        "than 0.01 over one",
        partial(claim_best, "ece"),
    ),
    Claim(
        "accuracy-on-par",
        "VOLTA's accuracy is on par with the best baseline.",
        "supported if VOLTA loses less than 0.01 to every baseline; refuted if it loses more to one of them",
        partial(claim_on_par, "accuracy"),
    ),
    Claim(
        "selective-prediction",
        "VOLTA's uncertainty gives the best selective prediction (AURC).",
        "as for best ECE, on AURC by each method's own score, margin 0.005",
        partial(claim_best, "aurc"),
    ),
    Claim(
        "ood-competitive",
        "VOLTA's OOD detection is competitive: not below the middle of the baselines on near-OOD AUROC.",
        "supported if VOLTA loses less than 0.01 to the median over baselines, taken in each seed; refuted if it loses "
        "more",
        partial(claim_against_median, "auroc"),
    ),
    Claim(
        "auxiliary-losses-do-not-help",
        "Auxiliary losses (margin, reconstruction, diversity, contrastive) do not help.",
        "supported if every gain is below its margin; refuted if one is above it",
        partial(claim_no_help, _auxiliary_pairs, _FIVE, "An auxiliary loss"),
    ),
    Claim(
        "deep-encoder-matters",
        "The deep encoder matters for calibration and accuracy.",
        "supported if deep is better than shallow on a metric and worse on none, negligible differences aside; refuted "
        "if the opposite, or if every gain is below its margin; equivalent if every difference is",
        partial(
            claim_matters, _full_without(Ablation.SHALLOW), ("accuracy", "ece", "brier", "nll"), "The deep encoder"
        ),
    ),
    Claim(
        "temperature-matters",
        "Temperature (learned and post-hoc) matters for calibration.",
        "as for the deep encoder, on ECE and NLL of the probabilities as predicted",
        partial(claim_matters, _full_without(Ablation.NO_TEMPERATURE), ("ece", "nll"), "Temperature"),
        as_predicted=True,
    ),
    Claim(
        "mc-inference-does-not-help",
        "Monte Carlo inference does not help.",
        "as for auxiliary losses",
        partial(claim_no_help, lambda ours: (_full_without(Ablation.NO_MC),), _FIVE, "Monte Carlo inference"),
    ),
    Claim(
        "lightweight",
        "VOLTA is lightweight: fast and small.",
        "supported if neither latency nor size is more than 10 % above the median over baselines; refuted if one is",
        claim_lightweight,
        timed=True,
    ),
    Claim(
        "ood-costs-calibration",
        "Better OOD detection than VOLTA's costs calibration.",
        "supported if every baseline that is better on near-OOD AUROC loses more than 0.01 on ECE; refuted if one "
        "loses less",
        claim_trade_off,
    ),
    Claim(
        "second-on-svhn",
        "On SVHN VOLTA's OOD detection is second only to Taylor-Sensus.",
        "supported if VOLTA is better than every other baseline; refuted if another is better; equivalent as for best "
        "ECE, margin 0.01",
        lambda found, alpha: claim_best("auroc", found.on_ood_set("ood:svhn", "SVHN", ("taylor_sensus",)), alpha),
        tasks=("cifar100",),
    ),
    Claim(
        "third-on-noise",
        "On uniform noise VOLTA's OOD detection is far above all baselines but the GMM density and Mahalanobis.",
        "supported if VOLTA is better than every other baseline; refuted if another is better; equivalent as for best "
        "ECE, margin 0.01",
        lambda found, alpha: claim_best("auroc", found.on_ood_set("ood:noise", "noise", ("gmm", "mahalanobis")), alpha),
        tasks=("cifar100",),
    ),
)
