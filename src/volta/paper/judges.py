"""The rules that turn comparisons into a verdict on a claim, with the figures that decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from volta.paper.evidence import Evidence
from volta.paper.routes import All, Any, above, below, fewest_seeds
from volta.paper.wording import could_see, interval, label, listed, pair, why
from volta.stats import MARGINS, PairTest, higher_is_better

Verdict = Literal["holds", "does not hold", "no difference that matters", "cannot tell"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
TIE: Verdict = "no difference that matters"
UNKNOWN: Verdict = "cannot tell"

HALF = 0.5
"""Superiority is tested on both sides, each with half the level; what is tested against a margin has one side."""

Pair = tuple[str, str]
"""Two methods, the first of which may gain over the second."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, the sentence with its figures, the comparisons it rests on, and the seeds that would decide it."""

    verdict: Verdict
    sentence: str
    tests: tuple[PairTest, ...] = ()
    seeds_needed: int | None = None


def judge_best(metric: str, evidence: Evidence, alpha: float) -> Judgement:
    """Judge whether our method is the best on a metric.

    Better than every distinct baseline (an intersection-union test, uncorrected) holds; one baseline better (Bonferroni
    over distinct baselines) refutes; a loss below the margin to every one of them, and a lead below it over at least
    one, is a tie.
    """
    found = evidence.against_baselines(metric)
    if not found:
        return Judgement(UNKNOWN, _nothing(evidence, metric))
    wins, loses = All(above(found, 0), HALF), Any(below(found, 0), HALF)
    tie = All(above(found, -1)), Any(below(found, 1))
    nearest = _nearest(found)
    figures = pair(evidence, nearest)
    name = label(evidence, metric)
    if wins.shown(alpha):
        words = f"VOLTA is significantly better than all {len(found)} distinct baselines on {name}"
        return Judgement(HOLDS, f"{words}; {figures}.", (*found,))
    if loses.shown(alpha):
        better = loses.found(alpha)
        first = min(better, key=lambda step: step.p).test
        words = f"{len(better)} of {len(found)} distinct baselines are significantly better on {name}"
        return Judgement(FAILS, f"{words}; {pair(evidence, first)}.", (*found,))
    if all(part.shown(alpha) for part in tie):
        words = f"VOLTA and the best baselines differ by less than the margin {MARGINS[metric]:g} on {name}"
        return Judgement(TIE, f"{words}; {figures}{interval(nearest, alpha)}.", (*found,))
    standing = f"VOLTA's mean is {'' if _value(nearest) > 0 else 'not '}the best of the paper's methods"
    open_ones = sum(1 for step in wins.steps if not step.p < HALF * alpha)
    return Judgement(
        UNKNOWN,
        f"{standing}, but {open_ones} of {len(found)} distinct baselines are not separated from it on {name}; "
        f"{figures}{why(nearest)}{could_see(nearest)}.",
        (*found,),
        fewest_seeds((wins,), (loses,), tie, alpha=alpha),
    )


def judge_on_par(metric: str, evidence: Evidence, alpha: float) -> Judgement:
    """Judge whether our method loses less than the margin to every baseline, and so to the best, whichever it is."""
    found = evidence.against_baselines(metric)
    if not found:
        return Judgement(UNKNOWN, _nothing(evidence, metric))
    return _not_worse(evidence, found, _nearest(found), "the best baseline", alpha)


def judge_against_median(metric: str, evidence: Evidence, alpha: float) -> Judgement:
    """Judge whether our method loses less than the margin to the median over baselines, taken in each seed."""
    if evidence.get(evidence.ours, metric) is None or not evidence.against_baselines(metric):
        return Judgement(UNKNOWN, _nothing(evidence, metric))
    test = evidence.median(metric, evidence.set_of(metric))
    if test is None:
        return Judgement(UNKNOWN, f"No values of single seeds of {label(evidence, metric)} to take medians of.")
    return _not_worse(evidence, [test], test, "the median of the baselines", alpha)


def judge_no_help(
    pairs_of: Callable[[str], tuple[Pair, ...]], metrics: tuple[str, ...], what: str, evidence: Evidence, alpha: float
) -> Judgement:
    """Judge whether something does not help: every gain shown to be below its margin holds, one above it refutes.

    A gain shown to be above 0 but not above its margin refutes nothing. pairs_of: the name of our method → the pairs
    whose first member has what should not help.
    """
    pairs = pairs_of(evidence.ours)
    found = evidence.pairs(pairs, metrics)
    if not found:
        return Judgement(UNKNOWN, f"No pair such as {pairs[0][0]} and {pairs[0][1]} was run.")
    missing = [one for one in pairs if all((test.first, test.second) != one for test in found)]
    none, some = All(below(found, 1)), Any(above(found, 1))
    scope = f"{len(found)} comparisons ({len(pairs) - len(missing)} of {len(pairs)} pairs were run)"
    if some.shown(alpha):
        helping = [step.test for step in some.found(alpha)]
        best = max(helping, key=_in_margins)
        return Judgement(
            FAILS,
            f"{what} gains more than the margin in {len(helping)} of {scope}; "
            f"{pair(evidence, best)}{interval(best, alpha)}, margin {MARGINS[best.metric]:g}.",
            (*found,),
        )
    widest = max(found, key=lambda test: _upper(test, alpha) / MARGINS[test.metric])
    figures = f"{pair(evidence, widest)}{interval(widest, alpha)}, margin {MARGINS[widest.metric]:g}"
    if not missing and none.shown(alpha):
        words = f"{what} gains less than the margin in all of {scope}"
        return Judgement(HOLDS, f"{words}; the widest: {figures}.", (*found,))
    unresolved = sum(1 for step in none.steps if not step.p < alpha)
    return Judgement(
        UNKNOWN,
        f"{what} is nowhere shown to gain more than the margin, but in {unresolved} of {scope} a gain that matters is "
        f"not excluded; the widest: {figures}{why(widest)}{could_see(widest)}.",
        (*found,),
        fewest_seeds(() if missing else (none,), (some,), alpha=alpha),
    )


def judge_matters(compared: Pair, metrics: tuple[str, ...], what: str, evidence: Evidence, alpha: float) -> Judgement:
    """Judge whether a component matters: better with it somewhere and worse nowhere, beyond what is negligible."""
    found = evidence.pairs([compared], metrics)
    if not found:
        return Judgement(UNKNOWN, f"{compared[0]} and {compared[1]} were not both run.")
    no_gain, no_loss = All(below(found, 1)), All(above(found, -1))
    helping = [step.test for step in no_gain.steps if not step.p < alpha]
    harming = [step.test for step in no_loss.steps if not step.p < alpha]
    helps, harms = Any(above(helping, 0), HALF, len(found)), Any(below(harming, 0), HALF, len(found))
    better, worse = ([step.test for step in route.found(alpha)] for route in (helps, harms))
    largest = max(found, key=_in_margins)
    figures = f"largest gain: {pair(evidence, largest)}{interval(largest, alpha)}"
    metrics_words = f"{len(found)} metrics"
    if no_gain.shown(alpha) and no_loss.shown(alpha):
        return Judgement(TIE, f"{what} changes each of {metrics_words} by less than its margin; {figures}.", (*found,))
    if better and not worse:
        return Judgement(HOLDS, f"{what} is significantly better on {listed(evidence, better)}; {figures}.", (*found,))
    if worse and not better:
        lowest = min(worse, key=_in_margins)
        words = f"{what} is significantly worse on {listed(evidence, worse)}"
        return Judgement(FAILS, f"{words}; {pair(evidence, lowest)}.", (*found,))
    if no_gain.shown(alpha):
        return Judgement(FAILS, f"{what} gains less than the margin on each of {metrics_words}; {figures}.", (*found,))
    mixed = "separated on none"
    if better:
        mixed = f"better on {listed(evidence, better)} and worse on {listed(evidence, worse)}"
    return Judgement(
        UNKNOWN,
        f"{what} is {mixed} of {metrics_words}; {figures}{why(largest)}{could_see(largest)}.",
        (*found,),
        None if better else fewest_seeds((no_gain,), (helps,), (harms,), alpha=alpha),
    )


def _not_worse(evidence: Evidence, tests: Sequence[PairTest], rival: PairTest, which: str, alpha: float) -> Judgement:
    margin = MARGINS[rival.metric]
    holds, fails = All(above(tests, -1)), Any(below(tests, -1))
    figures = f"{pair(evidence, rival)}{interval(rival, alpha)}, margin {margin:g}"
    if holds.shown(alpha):
        return Judgement(HOLDS, f"VOLTA loses less than the margin to {which}: {figures}.", (*tests,))
    if fails.shown(alpha):
        return Judgement(FAILS, f"VOLTA loses more than the margin to {which}: {figures}.", (*tests,))
    if rival.gain is None:
        return Judgement(UNKNOWN, f"Against {which} there is no interval{why(rival)}: {figures}.", (*tests,))
    return Judgement(
        UNKNOWN,
        f"Against {which} both a tie and a loss beyond the margin are possible: {figures}{could_see(rival)}.",
        (*tests,),
        fewest_seeds((holds,), (fails,), alpha=alpha),
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
