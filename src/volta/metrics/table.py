"""The one table of metrics: names, labels, direction, formula, convention, and who computes something else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import Floats, checked_row_chunks
from volta.core.errors import InputError, VoltaWarning
from volta.core.plugins import Plugin, plugins
from volta.metrics import calibration, conformal, expected_ece, ood, scoring, selective
from volta.metrics.bins import N_BINS, ClassBinCounter, ClassBins, RowStatistics, empty_rows, fill_rows
from volta.metrics.calibration import ReliabilityBins, bins_of
from volta.metrics.expected_ece import Interval, expected_ece_of
from volta.metrics.scoring import BrierDecomposition, decompose


@dataclass(frozen=True)
class ProbabilityScan:
    """The per-row values and per-class sums of (probs, labels), and what several metrics make of them."""

    rows: RowStatistics
    classes: ClassBins

    @cached_property
    def bins(self) -> ReliabilityBins:
        """The reliability bins of the top probability."""
        return bins_of(self.rows, N_BINS)

    @cached_property
    def expected_ece(self) -> Interval:
        """The ECE expected under perfect calibration."""
        return expected_ece_of(self.rows.confidence)

    @cached_property
    def decomposition(self) -> BrierDecomposition:
        """The parts of the Brier score."""
        return decompose(self.classes)


def scan_probabilities(array: Floats, labels: NDArray[np.intp]) -> ProbabilityScan:
    """Read the probabilities once, checking each chunk of rows; `labels` are checked already."""
    rows, counter = empty_rows(array), ClassBinCounter(array)
    for part, chunk in checked_row_chunks(array):
        fill_rows(rows, part, chunk, labels[part])
        counter.add(chunk, labels[part])
    return ProbabilityScan(rows, counter.result())


Family = Literal["prediction", "calibration", "selective", "ood", "conformal", "efficiency"]

PROBS = ("probs", "labels")
CONFIDENCE = ("probs",)
SELECTIVE = ("uncertainty", "correct")
OOD = ("id_scores", "ood_scores")
JOINT = ("id_scores", "correct", "ood_scores")
MODEL = ("model",)
TEMPERATURE, MSP = "test+T", "test+msp"
ARGUMENTS = (*PROBS, *SELECTIVE, *OOD, "sets", *MODEL)


@dataclass(frozen=True)
class Metric:
    """One metric; strings are plain text.

    `label` is what a reader sees on axes and in headings. `function` takes the arguments in `needs`, in that order, and
    is None for what is measured on a model; an interval that it returns counts by its estimate. `higher_is_better` is
    None where neither direction is better by itself.
    `shared` gives the same value from what `report` computes once for all metrics with these `needs`: a
    `ProbabilityScan`, `RiskSteps`, `SortedScores` or `JointScores`; a metric without it costs `report` a call of its
    `function`.
    `timing` marks what differs between two equal runs, such as a latency.
    `margin` is the smallest difference that matters: methods whose difference lies within ± `margin` are equivalent; it
    is None where equivalence makes no sense.
    `variants` names the other forms of the test rows the metric is taken on: `test+T`, probabilities after one
    temperature, for what that can change; `test+msp`, with 1 − max p as the uncertainty, for what is made from one.

    >>> from volta.metrics import METRICS
    >>> metric = METRICS["ece"]
    >>> metric.label, metric.direction, metric.needs, metric.margin, metric.variants
    ('ECE', '↓', ('probs', 'labels'), 0.01, ('test+T',))
    """

    name: str
    label: str
    family: Family
    function: Callable[..., SupportsFloat] | None
    higher_is_better: bool | None
    needs: tuple[str, ...]
    formula: str
    convention: str
    others: str
    shared: Callable[..., float] | None = None
    timing: bool = False
    margin: float | None = None
    variants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [need for need in self.needs if need not in ARGUMENTS]
        if unknown:
            raise InputError(f"metric {self.name!r} needs {unknown[0]!r}; its needs can be: {', '.join(ARGUMENTS)}")
        if self.margin is not None and not self.margin > 0:
            raise InputError(f"metric {self.name!r} has margin {self.margin}; expected a number above 0, or None")
        strange = [variant for variant in self.variants if variant not in (TEMPERATURE, MSP)]
        if strange:
            raise InputError(
                f"metric {self.name!r} has variant {strange[0]!r}; its variants can be: {TEMPERATURE}, {MSP}"
            )

    @property
    def direction(self) -> str:
        """Return ↑, ↓, or – where neither is better."""
        return "–" if self.higher_is_better is None else "↑" if self.higher_is_better else "↓"

    @property
    def on_ood_sets(self) -> bool:
        """Whether the metric is a value of an OOD set rather than of the test rows."""
        return "ood_scores" in self.needs

    @property
    def measured(self) -> bool:
        """Whether the metric is measured on a model while it runs, not computed from its predictions."""
        return self.needs == MODEL


_TOP = "15 equal-width bins (lo, hi] of the top probability, the first closed at 0"
_PER_CLASS = "15 equal-width bins (lo, hi] of each class's probability, classes summed"
_TIES = "higher = less certain; equal scores share the mean of their errors"
_OOD_POSITIVE = "OOD positive, higher score = more OOD"
_AP = "step-wise average precision over distinct scores"
_AP_OTHERS = "OpenOOD, pytorch-ood: trapezoid; TorchUncertainty, probly, scikit-learn: the same"
_FPR_OTHERS = (
    "OOD positive in OpenOOD 1.5, pytorch-ood, TorchUncertainty (nearest recall), probly; ID positive in ODIN's papers"
)
_SCOD = "a failure is an ID sample of wrong class or any OOD sample; equal scores share the mean of their failures"
_SCOD_OTHERS = "TorchUncertainty: a cost of ½ each by default, so half of this, ties in input order; FD-Shifts × 1000"
_T, _MSP = (TEMPERATURE,), (MSP,)
_BATCHES = "5 batches of 256 samples after warm-up"


def _nll(scan: ProbabilityScan) -> float:
    # A warning about floored rows points through this function, `report`'s loop and `report` to the user's line.
    return scoring.nll_of(scan.rows.true_prob, stacklevel=5)


_ROWS = (
    Metric("accuracy", "accuracy", "prediction", scoring.accuracy, True, PROBS, "mean [argmax_k p_k = y]",
           "lowest class index among equal maxima", "none known",
           shared=lambda scan: float(np.mean(scan.rows.correct)), margin=0.01),
    Metric("nll", "NLL", "prediction", scoring.nll, False, PROBS, "mean −log p_y",
           "natural log; p floored at 2.2e-308, floored samples counted, with a warning",
           "scikit-learn log_loss clips at the eps of the input's dtype", shared=_nll, margin=0.02, variants=_T),
    Metric("brier", "Brier", "prediction", scoring.brier, False, PROBS, "mean Σ_k (p_k − [y = k])²",
           "summed over classes: 0 to 2",
           "TorchUncertainty, Fortuna: the same; scikit-learn halves it for two classes",
           shared=lambda scan: scan.classes.squared_error / scan.classes.n_samples, margin=0.01, variants=_T),
    Metric("brier_reliability", "Brier reliability", "prediction", scoring.brier_reliability, False, PROBS,
           "Σ_kb n_kb (p̄_kb − ȳ_kb)² / n", _PER_CLASS, "TFP bins by argmax class; others by confidence",
           shared=lambda scan: scan.decomposition.reliability, margin=0.005, variants=_T),
    Metric("brier_resolution", "Brier resolution", "prediction", scoring.brier_resolution, True, PROBS,
           "Σ_kb n_kb (ȳ_kb − ȳ_k)² / n", _PER_CLASS, "TFP bins by argmax class; others by confidence",
           shared=lambda scan: scan.decomposition.resolution, margin=0.01, variants=_T),
    Metric("brier_uncertainty", "Brier uncertainty", "prediction", scoring.brier_uncertainty, None, PROBS,
           "Σ_k ȳ_k (1 − ȳ_k)", "a property of the labels alone", "none known",
           shared=lambda scan: scan.decomposition.uncertainty),
    Metric("brier_residual", "Brier residual", "prediction", scoring.brier_residual, None, PROBS,
           "Σ_kb [Σ (p − p̄_kb)² − 2 Σ (p − p̄_kb)(y − ȳ_kb)] / n",
           "reliability − resolution + uncertainty + residual = brier", "usually hidden",
           shared=lambda scan: scan.decomposition.residual, variants=_T),
    Metric("ece", "ECE", "calibration", calibration.ece, False, PROBS, "Σ_b (n_b/n) |acc_b − conf_b|", _TOP,
           "torchmetrics, OpenOOD: [lo, hi); netcal: 10 bins; MAPIE: 50; pytorch-ood: equal-count bins, RMS",
           shared=lambda scan: calibration.ece_of(scan.bins), margin=0.01, variants=_T),
    Metric("ece_expected", "expected ECE", "calibration", expected_ece.ece_expected, None, CONFIDENCE,
           "E Σ_b |Σ_{i in b} (B_i − conf_i)| / n, B_i ~ Bernoulli(conf_i)",
           "the ECE of a perfectly calibrated predictor with these confidences; bins as for ece",
           "none known to print it",
           shared=lambda scan: scan.expected_ece.estimate, variants=_T),
    Metric("ece_expected_low", "expected ECE, 2.5 %", "calibration", expected_ece.ece_expected_low, None, CONFIDENCE,
           "2.5 % quantile of Σ_b |Σ_{i in b} (B_i − conf_i)| / n", "as for ece_expected", "none known to print it",
           shared=lambda scan: scan.expected_ece.low, variants=_T),
    Metric("ece_expected_high", "expected ECE, 97.5 %", "calibration", expected_ece.ece_expected_high, None, CONFIDENCE,
           "97.5 % quantile of Σ_b |Σ_{i in b} (B_i − conf_i)| / n", "as for ece_expected", "none known to print it",
           shared=lambda scan: scan.expected_ece.high, variants=_T),
    Metric("mce", "MCE", "calibration", calibration.mce, False, PROBS, "max_b |acc_b − conf_b|",
           f"{_TOP}; non-empty bins only", "Fortuna: max of count · gap; bins as for ece",
           shared=lambda scan: calibration.mce_of(scan.bins), margin=0.05, variants=_T),
    Metric("ece_equal_mass", "equal-mass ECE", "calibration", calibration.ece_equal_mass, False, PROBS,
           "Σ_b |Σ_b correct − Σ_b conf| / n",
           "15 bins of exactly n/15 samples, split in proportion; equal confidences share the "
           "mean of their correctness",
           "others cut at whole samples, in input order where confidences tie",
           shared=lambda scan: calibration.equal_mass_of(scan.rows), margin=0.01, variants=_T),
    Metric("ece_classwise", "classwise ECE", "calibration", calibration.ece_classwise, False, PROBS,
           "(1/K) Σ_kb (n_kb/n) |ȳ_kb − p̄_kb|", "15 equal-width bins (lo, hi] of each class's probability",
           "some sum over classes instead of averaging", shared=lambda scan: calibration.classwise_of(scan.classes),
           margin=0.002, variants=_T),
    Metric("smece", "smooth ECE", "calibration", calibration.smece, False, PROBS,
           "σ = ∫₀¹ |(1/n) Σ_i K_σ(t, conf_i) (correct_i − conf_i)| dt, the one fixed point",
           "Gaussian kernel reflected at 0 and 1, top probability; grid of 8,192 cells, exact to 1e-6 from 0.005 up",
           "relplot: bandwidth to 1e-3, 200 evaluation points",
           shared=lambda scan: calibration.smece_of(scan.rows), margin=0.01, variants=_T),
    Metric("ece_debiased", "debiased RMS calibration error", "calibration", calibration.ece_debiased, False, PROBS,
           "√max(0, Σ_b (n_b/n) [(acc_b − conf_b)² − acc_b (1 − acc_b)/(n_b − 1)])",
           f"Kumar et al. 2019; {_TOP}; a bin of one row adds 0",
           "uncertainty-calibration: the same on equal-mass bins; Roelofs et al. 2022 sweep the number of bins",
           shared=lambda scan: calibration.ece_debiased_of(scan.bins), margin=0.01, variants=_T),
    Metric("signed_ce", "signed calibration error", "calibration", calibration.signed_ce, None, PROBS,
           "mean conf − accuracy", "above 0 overconfident, below 0 underconfident; gaps of opposite sign cancel",
           "none known", shared=lambda scan: calibration.signed_ce_of(scan.rows), margin=0.01,
           variants=_T),
    Metric("aurc", "AURC", "selective", selective.aurc, False, SELECTIVE,
           "(1/n) Σ_i errors among the i most certain / i", _TIES,
           "TorchUncertainty trapezoid on [1/n, 1]; probly 50 bins; FD-Shifts tie-aware, × 1000",
           shared=selective.aurc_of, margin=0.005, variants=_MSP),
    Metric("augrc", "AUGRC", "selective", selective.augrc, False, SELECTIVE,
           "½ err² + err (1 − err) (1 − P(wrong > right) − ½ P(wrong = right))",
           f"{_TIES}; trapezoids from coverage 0",
           "TorchUncertainty: on [1/n, 1], divided by 1 − 1/n, ties in input order; FD-Shifts the same as here, × 1000",
           shared=selective.augrc_of, margin=0.0025, variants=_MSP),
    Metric("eaurc", "e-AURC", "selective", selective.eaurc, False, SELECTIVE,
           "AURC − (1/n) Σ_{j=1..m} j/(n−m+j), m = errors", f"{_TIES}; the empirical optimum",
           "Geifman: AURC − (r + (1−r) ln(1−r)), about 2e-5 away at n = 10,000", shared=selective.eaurc_of,
           margin=0.005, variants=_MSP),
    Metric("eaurc_paper", "e-AURC (paper)", "selective", selective.eaurc_paper, False, SELECTIVE,
           "AURC − err · (1 − err)", f"{_TIES}; can be negative", "printed in the VOLTA paper only",
           shared=selective.eaurc_paper_of, margin=0.005, variants=_MSP),
    Metric("selective_auc", "selective AUC", "selective", selective.selective_auc, True, SELECTIVE, "1 − AURC", _TIES,
           "as for aurc", shared=selective.selective_auc_of, margin=0.005, variants=_MSP),
    Metric("risk_at_80", "risk at 80 %", "selective", selective.risk_at_80, False, SELECTIVE,
           "errors among the ⌈0.8 n⌉ most certain / ⌈0.8 n⌉", _TIES, "none known", shared=selective.risk_at_80_of,
           margin=0.01, variants=_MSP),
    Metric("coverage_at_5", "coverage at 5 %", "selective", selective.coverage_at_5, True, SELECTIVE,
           "largest i/n with risk of the i most certain ≤ 0.05", f"{_TIES}; 0 if no such i", "none known",
           shared=selective.coverage_at_5_of, margin=0.02, variants=_MSP),
    Metric("auroc", "AUROC", "ood", ood.auroc, True, OOD, "P(ood > id) + ½ P(ood = id)", _OOD_POSITIVE,
           "probly ignores ties: constant scores can give 1.0", shared=ood.auroc_of, margin=0.01),
    Metric("aupr_out", "AUPR-out", "ood", ood.aupr_out, True, OOD, "Σ_t (recall_t − recall_{t−1}) precision_t",
           f"{_OOD_POSITIVE}; {_AP}", _AP_OTHERS, shared=ood.aupr_out_of, margin=0.01),
    Metric("aupr_in", "AUPR-in", "ood", ood.aupr_in, True, OOD, "Σ_t (recall_t − recall_{t−1}) precision_t",
           f"ID positive, lowest score first; {_AP}", _AP_OTHERS,
           shared=lambda scores: ood.aupr_in_of(scores.id_sorted, scores.ood_up_to), margin=0.01),
    Metric("fpr95", "FPR95", "ood", ood.fpr95, False, OOD, "P(id ≥ t), t = ⌈0.95 n_ood⌉-th largest OOD score",
           f"{_OOD_POSITIVE}; first threshold with TPR ≥ 0.95", _FPR_OTHERS, shared=ood.fpr95_of, margin=0.02),
    Metric("fpr95_id", "FPR95 (ID)", "ood", ood.fpr95_id, False, OOD,
           "P(ood ≤ t), t = ⌈0.95 n_id⌉-th smallest ID score",
           "ID positive; first threshold with TPR ≥ 0.95", _FPR_OTHERS, shared=ood.fpr95_id_of, margin=0.02),
    Metric("autc", "AUTC", "ood", ood.autc, False, OOD, "½ (mean id + 1 − mean ood), scores scaled to [0, 1]",
           "scaled by the smallest and largest of all scores; infinite scores as a limit",
           "authors' code: scores taken as in [0, 1] already, lines between the steps", shared=ood.autc_of,
           margin=0.01),
    Metric("oscr", "OSCR", "ood", ood.oscr, True, JOINT,
           "(1/n_id) Σ_{i right} [P(ood > s_i) + ½ P(ood = s_i)]",
           "score of the method, not always 1 − max p; at most the accuracy",
           "Dhamija et al.: P(y) as the score of ID samples; many codes count ties in input order",
           shared=ood.oscr_of, margin=0.01),
    Metric("scod_aurc", "SCOD AURC", "ood", ood.scod_aurc, False, JOINT,
           "(1/N) Σ_i failures among the i lowest scores / i, N = n_id + n_ood",
           _SCOD, _SCOD_OTHERS, shared=ood.scod_aurc_of, margin=0.01),
    Metric("scod_augrc", "SCOD AUGRC", "ood", ood.scod_augrc, False, JOINT,
           "augrc of ID and OOD samples together", _SCOD, _SCOD_OTHERS, shared=ood.scod_augrc_of, margin=0.005),
    Metric("coverage", "coverage", "conformal", conformal.coverage, None, ("sets", "labels"), "mean [y ∈ C]",
           "to be compared with 1 − α",
           "quantile: TorchCP as here; MAPIE 'higher'; probly clips to the max; TorchUncertainty interpolates",
           margin=0.01),
    Metric("coverage_gap", "coverage gap, worst class", "conformal", conformal.coverage_gap, False, ("sets", "labels"),
           "max_k |coverage of class k − coverage of all|",
           "classes with samples only; given nominal=, against that instead",
           "TorchCP CovGap: mean over classes of |coverage − (1 − α)|, in %",
           margin=0.02),
    Metric("set_size", "set size", "conformal", conformal.set_size, False, ("sets",), "mean |C|",
           "empty sets count as 0; at equal coverage, smaller is better", "none known", margin=0.05),
    Metric("empty_sets", "empty sets", "conformal", conformal.empty_sets, False, ("sets",), "mean [C = ∅]",
           "share of samples", "none known", margin=0.01),
    Metric("latency_ms", "latency, ms", "efficiency", None, False, MODEL, "median ms per sample", _BATCHES,
           "none known", timing=True),
    Metric("latency_p95_ms", "latency p95, ms", "efficiency", None, False, MODEL,
           "95th percentile of ms per sample", _BATCHES, "none known", timing=True),
    Metric("size_mb", "size, MB", "efficiency", None, False, MODEL, "parameters × 4 bytes / 10⁶", "as if float32",
           "none known"),
    Metric("latency_features_ms", "latency on features, ms", "efficiency", None, False, MODEL,
           "median ms per sample, without the backbone", "where latency_ms is with it: paper, on images", "none known",
           timing=True),
    Metric("size_features_mb", "size on features, MB", "efficiency", None, False, MODEL,
           "parameters × 4 bytes / 10⁶, without the backbone", "where size_mb is with it: paper, on images",
           "none known"),
    Metric("peak_mb", "peak memory, MB", "efficiency", None, False, MODEL, "peak memory in MB",
           "how far the process grows at most in those predictions", "none known", timing=True),
    Metric("train_s", "training, s", "efficiency", None, False, MODEL, "training wall time in seconds",
           "fit, data loaded", "none known", timing=True),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ROWS}


def describe() -> list[dict[str, str]]:
    """Return the table as text alone: one dict of strings per metric, in the table's order.

    >>> row = describe()[0]
    >>> row["name"], row["direction"], row["formula"], row["margin"], row["variants"]
    ('accuracy', '↑', 'mean [argmax_k p_k = y]', '0.01', '–')
    """
    return [
        {
            "name": metric.name,
            "label": metric.label,
            "family": metric.family,
            "direction": metric.direction,
            "needs": ", ".join(metric.needs),
            "formula": metric.formula,
            "convention": metric.convention,
            "others": metric.others,
            "margin": "–" if metric.margin is None else f"{metric.margin:g}",
            "variants": ", ".join(metric.variants) or "–",
        }
        for metric in METRICS.values()
    ]


OWN_NAMES = frozenset(METRICS)


@cache
def plugin_metrics() -> dict[str, Metric]:
    """Return the metrics of installed packages by name; a name that the package's own table has is not theirs to take.

    A package whose metric cannot be loaded is warned of and left out: it must not take all other metrics with it.
    """
    found: dict[str, Metric] = {}
    for name, plugin in plugins("volta.metrics").items():
        if name in OWN_NAMES:
            continue
        try:
            found[name] = _checked(plugin)
        except InputError as error:
            warnings.warn(f"{error}; the metric is left out", VoltaWarning, stacklevel=2)
    return found


def _checked(plugin: Plugin) -> Metric:
    metric = plugin.load()
    if not isinstance(metric, Metric) or metric.name != plugin.name or metric.function is None:
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} is no volta.metrics.Metric of that name with a function"
        )
    return metric
