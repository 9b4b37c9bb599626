"""What a claim is judged on: comparisons of methods, from our records or from the paper's own table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from volta.bench.records import EvalSet
from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.paper.values import CIFAR10_NEAR, OURS, paper_title, paper_values
from volta.stats import Bootstrap, PairTest, Results, Sample, compare_pair, sample_of
from volta.stats.best import distinct_methods
from volta.stats.comparisons import AFTER_TEMPERATURE, OOD_AVERAGES
from volta.stats.csv_rows import joined_notes
from volta.stats.intervals import shared_row_variance
from volta.stats.paired import difference_sample, median_of, paired_estimate
from volta.stats.pairs import compare_samples
from volta.stats.ranks import higher_is_better
from volta.stats.results import TEST_SET

PAPER_PROTOCOL = "paper (printed)"
FAIR_PROTOCOL = "fair"
CALIBRATED_METRICS = ("ece", "brier", "nll")
"""What one temperature moves."""

Compare = Callable[[str, str, str, str], PairTest | None]
"""(first, second, metric, set) → their comparison, or None where one of them has no such metric."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one task and protocol.

    ``ours`` is the method the claims are about, ``baselines`` are what it is compared with. ``distinct``: (metric, set)
    → the baselines whose values are not those of an earlier one, so that methods on one network count once.
    ``median``: (metric, set) → our method against the median of the baselines, or None where there are no values of
    seeds. ``calibrated_set``: where ECE, Brier and NLL are judged.
    """

    task: str
    protocol: str
    ours: str
    baselines: tuple[str, ...]
    near_set: str
    calibrated_set: str
    sample: Callable[[str, str, str], Sample | None]
    compare: Compare
    distinct: Callable[[str, str], tuple[str, ...]]
    median: Callable[[str, str], PairTest | None]
    title: Callable[[str], str]

    def set_of(self, metric: str) -> str:
        """Return the eval set a metric is judged on."""
        if METRICS[metric].on_ood_sets:
            return self.near_set
        return self.calibrated_set if metric in CALIBRATED_METRICS else TEST_SET

    def get(self, method: str, metric: str) -> Sample | None:
        """Return the sample of a method's metric on the set it is judged on."""
        return self.sample(method, self.set_of(metric), metric)

    def against_baselines(self, metric: str) -> list[PairTest]:
        """Return our method against each distinct baseline that has the metric."""
        eval_set = self.set_of(metric)
        found = (self.compare(self.ours, name, metric, eval_set) for name in self.distinct(metric, eval_set))
        return [test for test in found if test is not None]

    def pairs(self, pairs: Iterable[tuple[str, str]], metrics: Iterable[str]) -> list[PairTest]:
        """Return every comparison there is among (first, second) pairs and metrics."""
        wanted = [(first, second, metric) for first, second in pairs for metric in metrics]
        found = (self.compare(first, second, metric, self.set_of(metric)) for first, second, metric in wanted)
        return [test for test in found if test is not None]

    def as_predicted(self) -> Evidence:
        """Return the same evidence with ECE, Brier and NLL of the probabilities as the methods give them."""
        return replace(self, calibrated_set=TEST_SET)


def evidence_of(table: Results, ours: str, source: Bootstrap | str = "") -> Evidence:
    """Return the evidence in our records: the paper's baselines alone, since its claims are about them.

    Under `fair` ECE, Brier and NLL are those after one temperature fitted to each method's own validation predictions,
    where the records hold them: otherwise VOLTA, which fits a temperature, would be compared with methods left raw.

    ours: the name of our method in ``table``; source: the bootstrap of its rows, or why there is none.
    """
    baselines = tuple(name for name in table.baselines if table.origins[name] == "paper")
    treated = table.protocol == FAIR_PROTOCOL and bool(table.of(ours, AFTER_TEMPERATURE, "ece"))
    near = OOD_AVERAGES[0] if table.of(ours, OOD_AVERAGES[0], "auroc") else next(iter(table.near_sets), "")

    def compare(first: str, second: str, metric: str, eval_set: str) -> PairTest | None:
        test = compare_pair(table, first, second, metric, eval_set, source, interval=False)
        return None if test.difference is None else test

    def distinct(metric: str, eval_set: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(distinct_methods(table, baselines, metric, eval_set).values()))

    def median(metric: str, eval_set: str) -> PairTest | None:
        return _against_median(table, ours, distinct(metric, eval_set), metric, eval_set, source)

    return Evidence(
        table.task, table.protocol, ours, baselines, near, AFTER_TEMPERATURE if treated else TEST_SET,
        table.sample, compare, distinct, median, lambda name: table.titles.get(name, name),
    )  # fmt: skip


def paper_evidence(task: str = "cifar10") -> Evidence:
    """Return the paper's printed values as evidence, so that its claims can be judged by the same rules."""
    values = {(value.method, value.set, value.metric): value.sample for value in paper_values() if value.task == task}
    no_baselines = {OURS, *(row.key for row in Ablation)}
    names = tuple(dict.fromkeys(method for method, _, _ in values if method not in no_baselines))
    ood_sets = (eval_set for _, eval_set, _ in values if EvalSet.parse(eval_set).kind == "ood")
    near = CIFAR10_NEAR if task == "cifar10" else next(ood_sets, "")

    def compare(first: str, second: str, metric: str, eval_set: str) -> PairTest | None:
        own, other = values.get((first, eval_set, metric)), values.get((second, eval_set, metric))
        return None if own is None or other is None else compare_samples(first, second, metric, eval_set, (own, other))

    return Evidence(
        task, PAPER_PROTOCOL, OURS, names, near, TEST_SET, lambda *key: values.get(key), compare,
        lambda metric, eval_set: names, lambda metric, eval_set: None, paper_title,
    )  # fmt: skip


def _against_median(
    table: Results, ours: str, baselines: tuple[str, ...], metric: str, eval_set: str, source: Bootstrap | str
) -> PairTest | None:
    """Compare our method with the median over baselines in each seed, on each resample of the rows likewise."""
    own = table.of(ours, eval_set, metric)
    middle: Mapping[int, float] = median_of([table.of(name, eval_set, metric) for name in baselines])
    differences = difference_sample(own, middle)
    if differences is None:
        return None
    seeds = sorted(set(own) & set(middle))
    variance, no_rows = 0.0, source if isinstance(source, str) else ""
    if isinstance(source, Bootstrap):
        draws = [source.row_draws(metric, eval_set, name, seeds) for name in (ours, *baselines)]
        known = [one for one in draws if one is not None]
        if len(known) == len(draws):
            variance = shared_row_variance(known[0] - np.median(known[1:], axis=0))
        else:
            no_rows = "rows not resampled: no stored predictions of one of them"
    estimate = None if no_rows else paired_estimate(differences, variance)
    return PairTest(
        ours, f"the median of {len(baselines)} baselines", metric, eval_set, differences.n,
        sample_of(own[seed] for seed in seeds), sample_of(middle[seed] for seed in seeds),
        paired=True,
        difference=differences.mean,
        gain=None if estimate is None else estimate if higher_is_better(metric) else estimate.negated(),
        note=joined_notes(differences.why_untestable, no_rows),
    )  # fmt: skip
