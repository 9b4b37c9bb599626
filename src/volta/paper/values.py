"""The values the VOLTA paper prints, as printed, and where it prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from volta.methods.ablation import Ablation
from volta.stats import Sample

OURS = "volta"
"""The paper's own method, by the name the benchmark runs it under, as all methods here are."""
N_PAPER_SEEDS = 3
CIFAR10_NEAR = "ood:cifar100"
ONLY_OOD_SET = "ood:*"
"""Stands for the one OOD set of a task, whatever it is called."""

_TABLE = "table of CIFAR-10 results"
_TEXT = "text"
_ABLATION = "ablation text"
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
    """Return every value the paper prints for its tasks: the CIFAR-10 table, the text, the ablation."""
    return tuple(_values())


def paper_title(method: str) -> str:
    """Return a method's name for a person."""
    return _TITLES.get(method, method)


def half_unit(decimal: str) -> float:
    """Return half a unit of the last printed digit: how far the true value can be from the printed one."""
    exponent = Decimal(decimal).as_tuple().exponent
    return 0.5 * 10.0 ** int(exponent)


def _values() -> Iterator[PaperValue]:
    for method, cells in _CIFAR10.items():
        for (metric, eval_set), cell in zip(_TABLE_METRICS, cells, strict=False):
            mean, std = cell.split()
            yield PaperValue("cifar10", method, eval_set, metric, mean, std, _TABLE)
        yield PaperValue("cifar10", method, CIFAR10_NEAR, "fpr95", cells[-1], None, _TABLE)
    for task, method, eval_set, metric, value in _IN_TEXT:
        yield PaperValue(task, method, eval_set, metric, value, None, _TEXT)
    for row, values in _ABLATION_ROWS.items():
        for (metric, eval_set), published in zip(_TABLE_METRICS, values, strict=True):
            if published is not None:
                yield PaperValue("cifar10", row.key, eval_set, metric, published, None, _ABLATION)
