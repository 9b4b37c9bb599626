"""What a claim is judged on: samples by method, set and metric, from our records or from the paper's own table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from volta.bench.records import EvalSet
from volta.methods.ablation import Ablation
from volta.metrics import METRICS
from volta.paper.values import CIFAR10_NEAR, OURS, paper_title, paper_values
from volta.stats import Results, Sample, detectable_difference, higher_is_better, holm, welch
from volta.stats.results import TEST_SET

MARGINS = {"accuracy": 0.01, "ece": 0.01, "brier": 0.01, "nll": 0.02, "aurc": 0.005, "auroc": 0.01}
"""The smallest difference that matters in practice, by metric; a gain shown to be below it counts as none."""

PAPER_PROTOCOL = "paper (printed)"


@dataclass(frozen=True)
class Evidence:
    """The samples of one task and protocol; ``sample`` gives None where there is none.

    ``ours`` is the method the claims are about, ``baselines`` are what it is compared with.
    """

    task: str
    protocol: str
    ours: str
    baselines: tuple[str, ...]
    near_set: str
    sample: Callable[[str, str, str], Sample | None]
    title: Callable[[str], str]

    def set_of(self, metric: str) -> str:
        """Return the eval set a metric is judged on."""
        return self.near_set if METRICS[metric].on_ood_sets else TEST_SET

    def get(self, method: str, metric: str) -> Sample | None:
        """Return the sample of a method's metric on the set it is judged on."""
        return self.sample(method, self.set_of(metric), metric)


@dataclass(frozen=True)
class Gain:
    """How much ``first`` is better than ``second`` on a metric: positive is better, whatever its direction.

    ``low``, ``high``: the 95 % interval; ``p`` is Welch's, ``p_holm`` corrected over the gains judged together.
    """

    first: str
    second: str
    metric: str
    first_sample: Sample
    second_sample: Sample
    value: float
    low: float | None
    high: float | None
    p: float | None
    detectable: float | None
    reason: str
    p_holm: float | None = None

    @property
    def negligible(self) -> bool:
        """Whether the gain is shown to be below the margin that matters."""
        return self.high is not None and self.high < MARGINS[self.metric]


def evidence_of(table: Results, ours: str) -> Evidence:
    """Return the evidence in our records: the paper's baselines alone, since its claims are about them.

    ours: the name of our method in ``table``.
    """
    baselines = tuple(name for name in table.baselines if table.origins[name] == "paper")
    near = next(iter(table.near_sets), "")
    return Evidence(
        table.task, table.protocol, ours, baselines, near, table.sample, lambda name: table.titles.get(name, name)
    )


def paper_evidence(task: str = "cifar10") -> Evidence:
    """Return the paper's printed values as evidence, so that its claims can be judged by the same rules."""
    values = {(value.method, value.set, value.metric): value.sample for value in paper_values() if value.task == task}
    no_baselines = {OURS, *(row.key for row in Ablation)}
    names = dict.fromkeys(method for method, _, _ in values if method not in no_baselines)
    ood_sets = (eval_set for _, eval_set, _ in values if EvalSet.parse(eval_set).kind == "ood")
    near = CIFAR10_NEAR if task == "cifar10" else next(ood_sets, "")
    return Evidence(task, PAPER_PROTOCOL, OURS, tuple(names), near, lambda *key: values.get(key), paper_title)


def gain(evidence: Evidence, first: str, second: str, metric: str) -> Gain | None:
    """Return how much ``first`` gains over ``second``, or None where one has no such metric."""
    own, other = evidence.get(first, metric), evidence.get(second, metric)
    if own is None or other is None:
        return None
    test = welch(own, other)
    up = higher_is_better(metric)
    ends = (test.low, test.high) if up else (_negative(test.high), _negative(test.low))
    value = test.difference if up else -test.difference
    return Gain(
        first, second, metric, own, other, value, *ends, test.p, detectable_difference(own, other), test.reason
    )  # fmt: skip


def gains(evidence: Evidence, pairs: Sequence[tuple[str, str]], metrics: Sequence[str]) -> list[Gain]:
    """Return every gain there is among (first, second) pairs and metrics, Holm-corrected as one family."""
    found = [one for first, second in pairs for metric in metrics if (one := gain(evidence, first, second, metric))]
    corrected = holm([one.p for one in found])
    return [replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True)]


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
