"""All that is said of two samples in a table of tests."""

from __future__ import annotations

from dataclasses import dataclass

from volta.stats.csv_rows import joined_notes
from volta.stats.power import detectable_difference
from volta.stats.samples import Sample
from volta.stats.welch import hedges_g, welch


@dataclass(frozen=True)
class PairTest:
    """Welch's test, Hedges' g and the detectable difference of two samples; ``note`` says what is undefined and why."""

    difference: float
    p: float | None
    hedges_g: float | None
    detectable_difference: float | None
    note: str


def compare_pair(first: Sample, second: Sample) -> PairTest:
    """Compare ``first`` with ``second``."""
    test = welch(first, second)
    g = hedges_g(first, second)
    no_g = "no variance on either side: Hedges' g is undefined" if g is None and not test.reason else ""
    return PairTest(test.difference, test.p, g, detectable_difference(first, second), joined_notes(test.reason, no_g))
