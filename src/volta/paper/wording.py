"""The figures of a comparison as words in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from volta.metrics import METRICS
from volta.paper.evidence import CALIBRATED_METRICS, Evidence
from volta.stats import PairTest, Sample
from volta.stats.comparisons import AFTER_TEMPERATURE


def pair(evidence: Evidence, test: PairTest) -> str:
    """Return both means with deviation and n, and the p of their difference."""
    parts = [
        f"{evidence.title(name)} {_shown(sample)}"
        for name, sample in ((test.first, test.first_sample), (test.second, test.second_sample))
    ]
    p = "" if test.p is None else f", {'paired ' if test.paired else ''}p {_p(test.p)}"
    return f"{label(evidence, test.metric)} {METRICS[test.metric].direction} {parts[0]}, {parts[1]}{p}"


def interval(test: PairTest, alpha: float) -> str:
    """Return the interval that the one-sided tests of level ``alpha`` against a margin look at."""
    if test.gain is None:
        return ""
    low, high = test.gain.interval(2 * alpha)
    return f", gain in [{low:+.4f}, {high:+.4f}] ({100 * (1 - 2 * alpha):.3g} %)"


def could_see(test: PairTest) -> str:
    """Return the smallest difference the test sees, in words, where there is one."""
    if not test.detectable:
        return ""
    return f"; smallest difference this test sees with 80 % power: {test.detectable:.3g}"


def why(test: PairTest) -> str:
    """Return why there is no test, in brackets; nothing where there is one."""
    return f" ({test.note})" if test.p is None and test.note else ""


def label(evidence: Evidence, metric: str) -> str:
    """Return a metric's name with the set it is judged on, where that is not the test rows as predicted."""
    known = METRICS[metric]
    if known.on_ood_sets:
        return f"near-OOD {known.label}"
    after = metric in CALIBRATED_METRICS and evidence.calibrated_set == AFTER_TEMPERATURE
    return f"{known.label} after temperature" if after else known.label


def listed(evidence: Evidence, tests: Iterable[PairTest]) -> str:
    """Return the metrics of some comparisons."""
    return ", ".join(label(evidence, test.metric) for test in tests)


def _two_digits(value: float) -> str:
    """Return a number in two digits, never with an exponent."""
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def _p(p: float) -> str:
    # Below this a p-value is what floating point leaves of a tail, at last 0.
    return "< 1e-16" if p < 1e-16 else f"= {p:.2g}"


def _shown(sample: Sample | None) -> str:
    if sample is None:
        return "–"
    spread = "" if sample.std is None else f" ± {_two_digits(sample.std)}"
    return f"{sample.mean:.4f}{spread} (n = {sample.n})"
