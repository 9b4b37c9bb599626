"""Evidence on the paper's claims: comparisons, what is printed of them, and the steps of one-sided tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volta.bench.cell_metrics import EvalSet
from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.paper.values import CIFAR10_NEAR, OURS, paper_title, paper_values
from volta.stats.bootstrap import Bootstrap, shared_row_variance
from volta.stats.comparisons import PairTest, compare_pair, compare_samples, distinct_methods
from volta.stats.results import AFTER_TEMPERATURE, OOD_AVERAGES, TEST_SET, Results, Sample, joined_notes, sample_of
from volta.stats.tests import (
    MARGINS,
    difference_sample,
    higher_is_better,
    median_of,
    paired_estimate,
    seeds_to_show,
)

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
    seeds. ``calibrated_set``: where ECE, Brier and NLL are judged. ``ood_words``: what the OOD set is called in words.
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
    ood_words: str = "near-OOD"

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

    def on_ood_set(self, name: str, words: str, without: tuple[str, ...]) -> Evidence:
        """Return the same evidence with OOD detection judged on one set, against all but some baselines."""

        def distinct(metric: str, eval_set: str) -> tuple[str, ...]:
            return tuple(method for method in self.distinct(metric, eval_set) if method not in without)

        return replace(self, near_set=name, ood_words=words, distinct=distinct)


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
        # Networks of equal size are not therefore one network.
        measured = tuple(name for name in baselines if METRICS[metric].measured and table.of(name, eval_set, metric))
        return _against_median(table, ours, measured or distinct(metric, eval_set), metric, eval_set, source)

    return Evidence(
        table.task, table.protocol, ours, baselines, near, AFTER_TEMPERATURE if treated else TEST_SET,
        table.sample, compare, distinct, median, lambda name: table.titles.get(name, name),
    )  # fmt: skip


def paper_evidence(task: str = "cifar10") -> Evidence:
    """Return the paper's printed values as evidence, so that its claims can be judged by the same rules."""
    values = {(value.method, value.set, value.metric): value.sample for value in paper_values() if value.task == task}
    no_baselines = {OURS, *(row.key for row in Ablation)}
    names = tuple(dict.fromkeys(method for method, _, _ in values if method not in no_baselines))
    ood_sets = (eval_set for _, eval_set, _ in values if EvalSet(eval_set).kind == "ood")
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
    # What is measured on a model, such as its latency, has no rows behind it.
    measured = METRICS[metric].measured
    variance, no_rows = 0.0, source if isinstance(source, str) and not measured else ""
    if isinstance(source, Bootstrap) and not measured:
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


def pair(evidence: Evidence, test: PairTest) -> str:
    """Return both means with deviation and n."""
    parts = [
        f"{evidence.title(name)} {_shown(sample)}"
        for name, sample in ((test.first, test.first_sample), (test.second, test.second_sample))
    ]
    return f"{label(evidence, test.metric)} {METRICS[test.metric].direction} {parts[0]}, {parts[1]}"


def interval(test: PairTest, alpha: float) -> str:
    """Return the gain, the interval that one-sided tests of level ``alpha`` look at, and the metric's margin."""
    margin = MARGINS.get(test.metric)
    if test.gain is None or margin is None:
        return ""
    low, high = test.gain.interval(2 * alpha)
    level = 100 * (1 - 2 * alpha)
    return f", gain {test.gain.value:+.4f} in [{low:+.4f}, {high:+.4f}] ({level:.3g} %), margin {margin:g}"


def minimum_detectable(test: PairTest) -> str:
    """Return the minimum detectable difference of the test in words, where there is one."""
    return f"; minimum detectable difference (80 % power) {test.detectable:.3g}" if test.detectable else ""


def why(test: PairTest) -> str:
    """Return why there is no test, in brackets; nothing where there is one."""
    return f" ({test.note})" if test.p is None and test.note else ""


def label(evidence: Evidence, metric: str) -> str:
    """Return a metric's name with the set it is judged on, where that is not the test rows as predicted."""
    known = METRICS[metric]
    if known.on_ood_sets:
        return f"{evidence.ood_words} {known.label}"
    after = metric in CALIBRATED_METRICS and evidence.calibrated_set == AFTER_TEMPERATURE
    return f"{known.label} after temperature" if after else known.label


def listed(evidence: Evidence, tests: Iterable[PairTest]) -> str:
    """Return the metrics of some comparisons."""
    return ", ".join(label(evidence, test.metric) for test in tests)


def _two_digits(value: float) -> str:
    """Return a number in two digits, never with an exponent."""
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def _shown(sample: Sample | None) -> str:
    if sample is None:
        return "–"
    spread = "" if sample.std is None else f" ± {_two_digits(sample.std)}"
    return f"{sample.mean:.4f}{spread} (n = {sample.n})"


@dataclass(frozen=True)
class Step:
    """A one-sided test: that the gain of ``test`` lies above ``bound``, or below it where ``above`` is False."""

    test: PairTest
    bound: float
    above: bool

    @property
    def p(self) -> float:
        """The p-value; 1 where there is no test."""
        gain = self.test.gain
        if gain is None:
            return 1.0
        return gain.p_above(self.bound) if self.above else gain.p_below(self.bound)

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show it, None where the gain lies on the other side or no number would do."""
        gain = self.test.gain
        if gain is None or gain.constant or (gain.value > self.bound) != self.above:
            return None
        needed = seeds_to_show(gain, self.bound, alpha)
        return None if needed is None else max(self.test.n, needed)


@dataclass(frozen=True)
class AllOf:
    """Every step must be shown: an intersection-union test, which needs no correction.

    Reference: Berger, Technometrics 24 (1982).
    """

    steps: tuple[Step, ...]
    share: float = 1.0

    def shown(self, alpha: float) -> bool:
        """Whether every step is shown at its share of ``alpha``."""
        return bool(self.steps) and all(step.p < self.share * alpha for step in self.steps)

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show all."""
        needed = [step.seeds(self.share * alpha) for step in self.steps]
        return None if not needed or None in needed else max(n for n in needed if n is not None)


@dataclass(frozen=True)
class AnyOf:
    """One of the steps must be shown, which is paid for by Bonferroni's bound over the ``n_tests`` there were."""

    steps: tuple[Step, ...]
    share: float = 1.0
    n_tests: int | None = None

    def level(self, alpha: float) -> float:
        """Return the level each step is tested at."""
        return self.share * alpha / max(1, self.n_tests or len(self.steps))

    def found(self, alpha: float) -> list[Step]:
        """Return the steps that are shown."""
        return [step for step in self.steps if step.p < self.level(alpha)]

    def shown(self, alpha: float) -> bool:
        """Whether a step is shown."""
        return bool(self.found(alpha))

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show one."""
        needed = [n for step in self.steps if (n := step.seeds(self.level(alpha))) is not None]
        return min(needed, default=None)


def above(tests: Iterable[PairTest], margins: float) -> tuple[Step, ...]:
    """Return a step a test: its gain lies above ``margins`` times its metric's margin."""
    return tuple(Step(test, margins * MARGINS[test.metric], True) for test in tests)


def below(tests: Iterable[PairTest], margins: float) -> tuple[Step, ...]:
    """Return a step a test: its gain lies below ``margins`` times its metric's margin."""
    return tuple(Step(test, margins * MARGINS[test.metric], False) for test in tests)


def fewest_seeds(*routes: Sequence[AllOf | AnyOf], alpha: float) -> int | None:
    """Return the number of seeds at which the nearest route is complete; a route needs all of its parts."""
    totals = []
    for route in routes:
        needed = [part.seeds(alpha) for part in route]
        if needed and None not in needed:
            totals.append(max(n for n in needed if n is not None))
    return min(totals, default=None)
