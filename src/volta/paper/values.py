"""The values and p-values the paper prints, compared with ours and with recomputed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

from volta.methods.ablation import Ablation
from volta.stats.results import Results, Sample, joined_notes
from volta.stats.tests import ALPHA, hedges_g, holm, welch

PAPER_TASKS = ("cifar10", "cifar100", "tinyimagenet")
"""The tasks of the paper, by the names the benchmark runs them under."""
STAND_IN = "digits"
"""The embedded task, which stands in for them where nothing is downloaded."""
CLAIM_TASKS = frozenset((*PAPER_TASKS, STAND_IN))
"""Where a claim of the paper is judged; other data get a leaderboard, since the paper says nothing about them."""


OURS = "volta"
"""The paper's own method, by the name the benchmark runs it under, as all methods here are."""
N_PAPER_SEEDS = 3
CIFAR10_NEAR = "ood:cifar100"
ONLY_OOD_SET = "ood:*"
"""Stands for the one OOD set of a task, whatever it is called."""

_TABLE = "table of CIFAR-10 results"
_TEXT = "text"
_ABLATION = "ablation text"
_SIGNIFICANCE = "text on significance"
_T_OF_ONE = "ablation text, of T = 1 at inference; the list of variants says τ = 1 in training"
_TABLE_METRICS = (("accuracy", "test"), ("ece", "test"), ("nll", "test"), ("brier", "test"), ("auroc", CIFAR10_NEAR))

# Accuracy, ECE, NLL, Brier, AUROC as "mean ± std", then FPR95, which has no deviation.
_CIFAR10 = {
    "mc_dropout": ("0.872 0.006", "0.0185 0.003", "0.421 0.012", "0.201 0.008", "0.8419 0.010", "0.245"),
    "swag": ("0.884 0.004", "0.0935 0.010", "0.395 0.009", "0.189 0.006", "0.7982 0.012", "0.310"),
    "temperature": ("0.870 0.005", "0.0268 0.004", "0.410 0.010", "0.198 0.007", "0.7765 0.015", "0.335"),
    "energy": ("0.868 0.006", "0.0412 0.006", "0.438 0.014", "0.210 0.009", "0.8015 0.013", "0.290"),
    "mahalanobis": ("0.865 0.007", "0.0450 0.008", "0.452 0.016", "0.215 0.010", "0.8560 0.009", "0.210"),
    "hyperbolic": ("0.871 0.005", "0.0920 0.011", "0.430 0.013", "0.205 0.009", "0.8611 0.008", "0.205"),
    "enn": ("0.869 0.006", "0.0280 0.005", "0.419 0.011", "0.202 0.008", "0.7890 0.014", "0.315"),
    "taylor_sensus": ("0.886 0.004", "0.0891 0.012", "0.432 0.015", "0.185 0.007", "0.8230 0.011", "0.275"),
    "conformal": ("0.867 0.006", "0.0345 0.006", "0.440 0.013", "0.207 0.009", "0.7802 0.016", "0.320"),
    OURS: ("0.877 0.005", "0.0100 0.003", "0.391 0.015", "0.195 0.010", "0.8023 0.008", "0.265"),
}

# Method, set, metric, "mean ± std" or the mean, where: what CIFAR-10's text prints with other digits than its table.
_RESTATED = (
    (OURS, "test", "ece", "0.0098 0.0030", _SIGNIFICANCE),
    (OURS, "test", "nll", "0.3914 0.0150", _SIGNIFICANCE),
    (OURS, "test", "brier", "0.1954 0.0100", _SIGNIFICANCE),
    (OURS, "test", "brier", "0.1750", _TEXT),
    (OURS, CIFAR10_NEAR, "auroc", "0.8023 0.0082", "text on OOD detection"),
    (OURS, "test", "accuracy", "0.864", "abstract, as the highest"),
    (OURS, "test", "accuracy", "0.862", "discussion, as the lowest"),
    ("taylor_sensus", "test", "accuracy", "0.887", "discussion"),
)

# task, method, set, metric, value: printed in running text, without a deviation.
_IN_TEXT = (
    ("cifar10", OURS, "test", "aurc", "0.0229"),
    ("cifar10", OURS, "test", "selective_auc", "0.9770"),
    ("cifar100", OURS, "test", "accuracy", "0.665"),
    ("cifar100", OURS, "test", "ece", "0.0169"),
    ("cifar100", OURS, "test", "brier", "0.4519"),
    ("cifar100", OURS, "test", "aurc", "0.1294"),
    ("cifar100", OURS, "test", "selective_auc", "0.8705"),
    ("cifar100", OURS, "ood:cifar10", "auroc", "0.6872"),
    ("cifar100", OURS, "ood:svhn", "auroc", "0.8468"),
    ("cifar100", OURS, "ood:noise", "auroc", "0.9024"),
    ("cifar100", "taylor_sensus", "test", "accuracy", "0.627"),
    ("cifar100", "taylor_sensus", "test", "ece", "0.0313"),
    ("cifar100", "taylor_sensus", "test", "aurc", "0.1574"),
    ("cifar100", "taylor_sensus", "test", "selective_auc", "0.8425"),
    ("cifar100", "taylor_sensus", "ood:cifar10", "auroc", "0.7235"),
    ("cifar100", "taylor_sensus", "ood:svhn", "auroc", "0.8306"),
    ("cifar100", "swag", "test", "ece", "0.0932"),
    ("tinyimagenet", OURS, "test", "accuracy", "0.425"),
    ("tinyimagenet", OURS, "test", "ece", "0.0257"),
    ("tinyimagenet", OURS, "test", "brier", "0.7155"),
    ("tinyimagenet", OURS, ONLY_OOD_SET, "auroc", "0.5706"),
    ("tinyimagenet", "swag", "test", "accuracy", "0.398"),
    ("tinyimagenet", "swag", ONLY_OOD_SET, "auroc", "0.5598"),
    ("tinyimagenet", "gmm", "test", "accuracy", "0.375"),
    ("tinyimagenet", "hyperbolic", "test", "accuracy", "0.355"),
    ("tinyimagenet", "hyperbolic", "test", "ece", "0.0228"),
    ("tinyimagenet", "enn", "test", "ece", "0.0280"),
    ("tinyimagenet", "mc_dropout", ONLY_OOD_SET, "auroc", "0.5512"),
)

# Accuracy, ECE, NLL, Brier, AUROC of the ablation on CIFAR-10; None where the paper prints nothing.
_ABLATION_ROWS: dict[Ablation, tuple[str | None, ...]] = {
    Ablation.FULL: ("0.862", "0.0244", "0.4111", "0.2004", "0.8327"),
    Ablation.NO_ADAPTIVE_TEMPERATURE: ("0.864", "0.0072", "0.3907", None, "0.8203"),
    Ablation.NO_MARGIN: ("0.861", "0.0225", None, None, None),
    Ablation.NO_RECONSTRUCTION: ("0.863", "0.0235", "0.4070", "0.1984", "0.8262"),
    Ablation.NO_DIVERSITY: ("0.863", "0.0232", "0.4094", "0.1978", "0.8356"),
    Ablation.NO_CONTRASTIVE: ("0.864", "0.0238", "0.4069", "0.1966", "0.8329"),
    Ablation.SHALLOW: ("0.846", "0.0324", "0.4714", "0.2234", "0.8333"),
    Ablation.NO_MC: ("0.862", "0.0253", "0.4130", "0.1993", "0.8305"),
    Ablation.NO_TEMPERATURE: ("0.859", "0.0385", "0.4664", None, None),
}
# The paper describes them once as T = 1 at inference and once as τ = 1 in training; they stand with both rows.
_ABLATION_ROWS[Ablation.NO_POSTHOC] = _ABLATION_ROWS[Ablation.NO_ADAPTIVE_TEMPERATURE]

_TITLES = {
    OURS: "VOLTA",
    "mc_dropout": "MC Dropout",
    "swag": "SWAG",
    "temperature": "Temperature scaling",
    "energy": "Energy",
    "mahalanobis": "Mahalanobis",
    "hyperbolic": "Hyperbolic",
    "enn": "ENN",
    "taylor_sensus": "Taylor-Sensus",
    "conformal": "Split conformal",
    "gmm": "GMM density",
}


@dataclass(frozen=True)
class PaperValue:
    """One printed value; ``mean`` and ``std`` are kept as text, so that how far they were rounded is known.

    ``set`` is a stored set name, or ``ONLY_OOD_SET``.
    """

    task: str
    method: str
    set: str
    metric: str
    mean: str
    std: str | None
    source: str

    @property
    def sample(self) -> Sample:
        """The value as a sample of the paper's three seeds."""
        return Sample(N_PAPER_SEEDS, float(self.mean), None if self.std is None else float(self.std))


def paper_values() -> tuple[PaperValue, ...]:
    """Return the values that the paper prints for its tasks: the CIFAR-10 table, the text, the ablation.

    A value that is printed twice with other digits is there twice. What the table prints then comes last, so that
    it is the one that a dictionary keeps; what repeats the same digits elsewhere is left out.
    """
    return tuple(_values())


def paper_title(method: str) -> str:
    """Return a method's name for a person."""
    return _TITLES.get(method, method)


def half_unit(decimal: str) -> float:
    """Return half a unit of the last printed digit: how far the true value can be from the printed one."""
    exponent = Decimal(decimal).as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent)


def _values() -> Iterator[PaperValue]:
    for method, eval_set, metric, cell, source in _RESTATED:
        mean, _, std = cell.partition(" ")
        yield PaperValue("cifar10", method, eval_set, metric, mean, std or None, source)
    for method, cells in _CIFAR10.items():
        for (metric, eval_set), cell in zip(_TABLE_METRICS, cells, strict=False):
            mean, std = cell.split()
            yield PaperValue("cifar10", method, eval_set, metric, mean, std, _TABLE)
        yield PaperValue("cifar10", method, CIFAR10_NEAR, "fpr95", cells[-1], None, _TABLE)
    for task, method, eval_set, metric, value in _IN_TEXT:
        yield PaperValue(task, method, eval_set, metric, value, None, _TEXT)
    for row, values in _ABLATION_ROWS.items():
        source = _T_OF_ONE if values is _ABLATION_ROWS[Ablation.NO_POSTHOC] else _ABLATION
        for (metric, eval_set), published in zip(_TABLE_METRICS, values, strict=True):
            if published is not None:
                yield PaperValue("cifar10", row.key, eval_set, metric, published, None, source)


@dataclass(frozen=True)
class PaperComparison:
    """One value of the paper and ours; ``difference`` is ours − paper, ``difference_std`` the same in deviations.

    The deviation is √((s_ours² + s_paper²)/2) where both are known, else the one that is; ``note`` says which.
    ``p``: Welch's test of ours against the printed mean ± std with n = 3, where it prints a deviation.
    """

    task: str
    protocol: str
    method: str
    set: str
    metric: str
    paper_mean: float
    paper_std: float | None
    paper_source: str
    n: int
    mean: float | None
    std: float | None
    difference: float | None
    difference_std: float | None
    p: float | None
    note: str


def compare_with_paper(tables: Iterable[Results]) -> list[PaperComparison]:
    """Return the values that the paper prints for the tasks in ``tables``, and ours where we have one."""
    return [
        _compare(table, value)
        for table in tables
        if not table.is_external
        for value in paper_values()
        if value.task == table.task
    ]


def _compare(table: Results, value: PaperValue) -> PaperComparison:
    paper = value.sample
    eval_set = value.set if value.set != ONLY_OOD_SET else next(iter(table.near_sets), value.set)
    ours = table.sample(value.method, eval_set, value.metric)
    protocol_note = "" if table.protocol == "paper" else f"the paper's own protocol is not {table.protocol!r}"
    about = table.task, table.protocol, value.method, eval_set, value.metric, paper.mean, paper.std, value.source
    if ours is None:
        note = joined_notes("not measured in this run", protocol_note)
        return PaperComparison(*about, 0, None, None, None, None, None, note)
    difference = ours.mean - paper.mean
    scale, scale_note = _scale(ours, paper)
    test = welch(ours, paper)
    test_note = test.reason if paper.testable else "no test: the paper prints no standard deviation"
    return PaperComparison(
        *about, ours.n, ours.mean, ours.std, difference, difference / scale if scale else None, test.p,
        joined_notes(scale_note, test_note, protocol_note),
    )  # fmt: skip


def _scale(ours: Sample, paper: Sample) -> tuple[float, str]:
    if ours.std is not None and paper.std is not None:
        scale, note = math.sqrt((ours.std**2 + paper.std**2) / 2), ""
    elif ours.std is not None:
        scale, note = ours.std, "in our standard deviations"
    elif paper.std is not None:
        scale, note = paper.std, "in the paper's standard deviations"
    else:
        return 0.0, "no standard deviation on either side"
    return scale, note if scale else "the standard deviation is 0"


# Metric → baseline → what the paper prints about the p of VOLTA against it.
_TABLE_STATEMENTS: dict[str, dict[str, str]] = {
    "accuracy": {"taylor_sensus": "p = 0.0435"},
    "ece": dict.fromkeys(_CIFAR10, "p < 0.05") | {"hyperbolic": "p = 0.061"},
    "nll": dict.fromkeys(("energy", "enn", "taylor_sensus"), "p < 0.05"),
    "auroc": {
        **dict.fromkeys(("swag", "temperature", "energy", "hyperbolic", "enn", "taylor_sensus"), "p > 0.09"),
        **{"mc_dropout": "p = 0.007", "mahalanobis": "p = 0.0096"},
    },
}
_BRIER_STATEMENT = "p > 0.2"

# Ablation row → p against the full model on accuracy, ECE, Brier, NLL, AUROC; "-" where nothing is printed.
_ABLATION_METRICS = ("accuracy", "ece", "brier", "nll", "auroc")
_ABLATION_STATEMENTS = {
    Ablation.NO_ADAPTIVE_TEMPERATURE: ("= 0.2173", "= 0.0112", "-", "= 0.0744", "= 0.1969"),
    Ablation.NO_MARGIN: ("= 0.8505", "= 0.4791", "> 0.7", "> 0.7", "> 0.7"),
    Ablation.NO_RECONSTRUCTION: ("= 0.8484", "= 0.7206", "= 0.6951", "= 0.7331", "= 0.3376"),
    Ablation.NO_DIVERSITY: ("= 0.7016", "= 0.6313", "= 0.4833", "= 0.8850", "= 0.6341"),
    Ablation.NO_CONTRASTIVE: ("> 0.69", "> 0.69", "> 0.69", "> 0.69", "> 0.69"),
    Ablation.SHALLOW: ("= 0.0892", "= 0.0506", "= 0.0374", "= 0.0101", "= 0.9434"),
    Ablation.NO_MC: ("= 0.6792", "= 0.8229", "= 0.7214", "= 0.8488", "= 0.6963"),
    Ablation.NO_TEMPERATURE: ("= 0.2602", "= 0.0790", "-", "= 0.1054", "-"),
}
_ABLATION_STATEMENTS[Ablation.NO_POSTHOC] = _ABLATION_STATEMENTS[Ablation.NO_ADAPTIVE_TEMPERATURE]


@dataclass(frozen=True)
class PaperTestRow:
    """A comparison of the paper: its ``statement``, and Welch's p recomputed from its published mean ± std, n = 3 each.

    ``p_low``, ``p_high``: the range of p over all values that round to the published ones; ``agrees``: whether some p
    in that range satisfies the statement; ``same_verdict``: whether p and the statement fall on the same side of 0.05.
    """

    task: str
    first: str
    second: str
    metric: str
    set: str
    mean_first: float | None
    mean_second: float | None
    statement: str
    p: float | None
    p_low: float | None
    p_high: float | None
    p_holm: float | None
    hedges_g: float | None
    agrees: bool | None
    same_verdict: bool | None
    note: str


def recompute_paper_tests() -> list[PaperTestRow]:
    """Return VOLTA against every baseline of the CIFAR-10 table on the five metrics, then the ablation's statements.

    Holm's family is the table's 45 tests. Posterior Networks (printed ECE p = 0.076) is not in the table, so its p
    cannot be recomputed.
    """
    values = {
        (value.method, value.metric): value
        for value in paper_values()
        if value.task == "cifar10" and value.metric != "fpr95"
    }
    rows = list(_table_rows(values))
    corrected = holm([row.p for row in rows])
    rows = [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]
    return rows + list(_ablation_rows(values))


def _table_rows(values: dict[tuple[str, str], PaperValue]) -> Iterator[PaperTestRow]:
    for (method, metric), theirs in values.items():
        ours = values[OURS, metric]
        if method == OURS or theirs.std is None:
            continue
        p = welch(ours.sample, theirs.sample).p
        low, high = rounding_range(ours, theirs)
        of_most = metric == "brier"
        statement = _BRIER_STATEMENT if of_most else _TABLE_STATEMENTS[metric].get(method, "")
        yield PaperTestRow(
            "cifar10", OURS, method, metric, theirs.set, ours.sample.mean, theirs.sample.mean, statement,
            p, low, high, None, hedges_g(ours.sample, theirs.sample),
            _agrees(statement, low, high), _same_verdict(statement, p),
            "the paper says so of most baselines" if of_most else "",
        )  # fmt: skip


def _ablation_rows(values: dict[tuple[str, str], PaperValue]) -> Iterator[PaperTestRow]:
    for ablation, statements in _ABLATION_STATEMENTS.items():
        for metric, statement in zip(_ABLATION_METRICS, statements, strict=True):
            if statement == "-":
                continue
            full, row = values[Ablation.FULL.key, metric], values.get((ablation.key, metric))
            yield PaperTestRow(
                "cifar10", Ablation.FULL.key, ablation.key, metric, full.set, full.sample.mean,
                None if row is None else row.sample.mean, f"p {statement}", None, None, None, None, None, None, None,
                "the paper prints no standard deviation here",
            )  # fmt: skip


def rounding_range(first: PaperValue, second: PaperValue) -> tuple[float, float]:
    """Return the smallest and largest Welch p over the corners of what rounds to the published means and deviations."""
    p_values = []
    for signs in product((-1, 0, 1), repeat=4):
        p = welch(_moved(first, *signs[:2]), _moved(second, *signs[2:])).p
        if p is not None:
            p_values.append(p)
    return min(p_values), max(p_values)


def _moved(value: PaperValue, mean_step: int, std_step: int) -> Sample:
    std = value.std or "0"
    mean = float(value.mean) + mean_step * half_unit(value.mean)
    return Sample(N_PAPER_SEEDS, mean, max(0.0, float(std) + std_step * half_unit(std)))


def _agrees(statement: str, low: float, high: float) -> bool | None:
    if not statement:
        return None
    _, relation, bound = statement.split()
    if relation == "<":
        return low < float(bound)
    if relation == ">":
        return high > float(bound)
    return low - half_unit(bound) <= float(bound) <= high + half_unit(bound)


def _same_verdict(statement: str, p: float | None) -> bool | None:
    if not statement or p is None:
        return None
    _, relation, bound = statement.split()
    said = float(bound) <= ALPHA if relation == "<" else relation == "=" and float(bound) < ALPHA
    return said == (p < ALPHA)
