"""Which methods may be the best on a metric: a confidence set that pays for having looked who leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volta.stats.bootstrap import Bootstrap
from volta.stats.paired import equal_values
from volta.stats.pairs import compare_pair
from volta.stats.ranks import higher_is_better
from volta.stats.results import Results


def best_method(table: Results, methods: Sequence[str], metric: str, eval_set: str) -> str | None:
    """Return the method with the best mean over seeds, the first of equals, or None where none has the metric."""
    means = {name: sample.mean for name in methods if (sample := table.sample(name, eval_set, metric)) is not None}
    if not means:
        return None
    return max(means, key=lambda name: means[name] if higher_is_better(metric) else -means[name])


def distinct_methods(table: Results, methods: Sequence[str], metric: str, eval_set: str) -> dict[str, str]:
    """Return method → the first method with the same values, but for rounding, in every seed.

    Only methods that have the metric. Post-hoc methods on one network have the same probabilities, and so the same
    accuracy, ECE, Brier and NLL.
    """
    firsts: dict[str, Mapping[int, float]] = {}
    found = {}
    for name in methods:
        if values := table.of(name, eval_set, metric):
            found[name] = next((one for one, others in firsts.items() if equal_values(values, others)), name)
            firsts.setdefault(found[name], values)
    return found


def p_best(
    table: Results, methods: Sequence[str], metric: str, eval_set: str, source: Bootstrap | str = ""
) -> dict[str, float | None]:
    """Return for each method the p-value against «this method is the best of all».

    pᵢ = min(1, m minⱼ pⱼᵢ), pⱼᵢ the one-sided p against «j is not better than i» and m the number of other distinct
    methods. The truly best method is better than no other one, so by Bonferroni's bound pᵢ < α happens to it in at most
    a share α of runs: the methods with pᵢ ≥ α are a 1 − α confidence set of the best, whoever leads by chance and
    however many methods are compared. None where no pair can be tested (one seed).
    Reference: Hsu, Annals of Statistics 9 (1981), with Bonferroni's bound instead of equal variances.
    """
    leader = distinct_methods(table, methods, metric, eval_set)
    distinct = list(dict.fromkeys(leader.values()))
    found: dict[str, float | None] = {}
    worse: dict[str, list[float]] = {name: [] for name in distinct}
    for index, first in enumerate(distinct):
        for second in distinct[index + 1 :]:
            gain = compare_pair(table, first, second, metric, eval_set, source, interval=False).gain
            if gain is not None:
                worse[first].append(gain.p_below(0.0))
                worse[second].append(gain.p_above(0.0))
    for name in distinct:
        found[name] = min(1.0, len(worse[name]) * min(worse[name])) if worse[name] else None
    return {name: found[own] for name, own in leader.items()}
