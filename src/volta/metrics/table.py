"""The one table of metrics: names, direction, formula, convention, and who computes something else."""

from collections.abc import Callable
from dataclasses import dataclass

from volta.metrics import brierscore, calibration, conformal, detection, scoring, selective

_PROBS = ("probs", "labels")
_SELECTIVE = ("uncertainty", "correct")
_OOD = ("id_scores", "ood_scores")
_MODEL = ("model",)

_TOP = "15 equal-width bins (lo, hi] of the top probability, the first closed at 0"
_PER_CLASS = "15 equal-width bins (lo, hi] of each class's probability, classes summed"
_TIES = "higher = less certain; equal scores share the mean of their errors"
_OOD_POSITIVE = "OOD positive, higher score = more OOD"
_AP = "step-wise average precision over distinct scores"
_AP_OTHERS = "OpenOOD, pytorch-ood: trapezoid; TorchUncertainty, probly, scikit-learn: the same"
_FPR_OTHERS = (
    "OOD positive in OpenOOD 1.5, pytorch-ood, TorchUncertainty, probly, oodeel; ID positive in ODIN's "
    "papers; TorchUncertainty takes the nearest recall, maybe below 0.95"
)
_BATCHES = "5 batches of 256 rows after warm-up"


@dataclass(frozen=True)
class Metric:
    """One metric; strings are plain text.

    `function` takes the arguments in `needs`, in that order, and is None for what is measured on a model.
    `higher_is_better` is None where neither direction is better by itself.
    """

    name: str
    family: str
    function: Callable[..., float] | None
    higher_is_better: bool | None
    needs: tuple[str, ...]
    formula: str
    convention: str
    others: str

    @property
    def direction(self) -> str:
        """Return ↑, ↓, or – where neither is better."""
        return "–" if self.higher_is_better is None else "↑" if self.higher_is_better else "↓"


_ROWS = (
    Metric("accuracy", "prediction", scoring.accuracy, True, _PROBS, "mean [argmax_k p_k = y]",
           "lowest class index among equal maxima", "none known"),
    Metric("nll", "prediction", scoring.nll, False, _PROBS, "mean −log p_y",
           "natural log; p floored at 2.2e-308, floored rows counted and warned about",
           "scikit-learn log_loss clips at the eps of the input's dtype"),
    Metric("brier", "prediction", brierscore.brier, False, _PROBS, "mean Σ_k (p_k − [y = k])²",
           "summed over classes: 0 to 2",
           "TorchUncertainty, Fortuna: the same; scikit-learn halves it for two classes"),
    Metric("brier_reliability", "prediction", brierscore.brier_reliability, False, _PROBS,
           "Σ_kb n_kb (p̄_kb − ȳ_kb)² / n", _PER_CLASS, "TFP bins by argmax class; others by confidence"),
    Metric("brier_resolution", "prediction", brierscore.brier_resolution, True, _PROBS,
           "Σ_kb n_kb (ȳ_kb − ȳ_k)² / n", _PER_CLASS, "TFP bins by argmax class; others by confidence"),
    Metric("brier_uncertainty", "prediction", brierscore.brier_uncertainty, None, _PROBS,
           "Σ_k ȳ_k (1 − ȳ_k)", "a property of the labels alone", "none known"),
    Metric("brier_residual", "prediction", brierscore.brier_residual, None, _PROBS,
           "Σ_kb [Σ (p − p̄_kb)² − 2 Σ (p − p̄_kb)(y − ȳ_kb)] / n",
           "reliability − resolution + uncertainty + residual = brier", "usually hidden"),
    Metric("ece", "calibration", calibration.ece, False, _PROBS, "Σ_b (n_b/n) |acc_b − conf_b|", _TOP,
           "torchmetrics [lo, hi) with 1.0 in an extra bin; OpenOOD [lo, hi) drops 1.0 and bins raw outputs; "
           "netcal 10 bins, last closed; MAPIE (lo, hi], 49 real bins of 50; probly floor(15 conf); "
           "pytorch-ood equal-count bins, RMS, drops the most confident bin"),
    Metric("mce", "calibration", calibration.mce, False, _PROBS, "max_b |acc_b − conf_b|",
           f"{_TOP}; non-empty bins only", "Fortuna: max of count · gap; bins as for ece"),
    Metric("ece_equal_mass", "calibration", calibration.ece_equal_mass, False, _PROBS,
           "Σ_b |Σ_b correct − Σ_b conf| / n",
           "15 bins of exactly n/15 rows, a row on a cut split in proportion; equal confidences share the "
           "mean of their correctness",
           "others cut at whole rows, in input order where confidences tie"),
    Metric("ece_classwise", "calibration", calibration.ece_classwise, False, _PROBS,
           "(1/K) Σ_kb (n_kb/n) |ȳ_kb − p̄_kb|", "15 equal-width bins (lo, hi] of each class's probability",
           "some sum over classes instead of averaging"),
    Metric("aurc", "selective", selective.aurc, False, _SELECTIVE,
           "(1/n) Σ_i errors among the i most certain / i", _TIES,
           "TorchUncertainty trapezoid on [1/n, 1]; probly 50 bins; FD-Shifts tie-aware, × 1000"),
    Metric("eaurc", "selective", selective.eaurc, False, _SELECTIVE,
           "AURC − (1/n) Σ_{j=1..m} j/(n−m+j), m = errors", f"{_TIES}; the empirical optimum",
           "Geifman: AURC − (r + (1−r) ln(1−r)), about 2e-5 away at n = 10,000"),
    Metric("eaurc_paper", "selective", selective.eaurc_paper, False, _SELECTIVE, "AURC − err · (1 − err)",
           f"{_TIES}; can be negative", "printed in the VOLTA paper only"),
    Metric("selective_auc", "selective", selective.selective_auc, True, _SELECTIVE, "1 − AURC", _TIES,
           "as for aurc"),
    Metric("risk_at_80", "selective", selective.risk_at_80, False, _SELECTIVE,
           "errors among the ⌈0.8 n⌉ most certain / ⌈0.8 n⌉", _TIES, "none known"),
    Metric("coverage_at_5", "selective", selective.coverage_at_5, True, _SELECTIVE,
           "largest i/n with risk of the i most certain ≤ 0.05", f"{_TIES}; 0 if no such i", "none known"),
    Metric("auroc", "ood", detection.auroc, True, _OOD, "P(ood > id) + ½ P(ood = id)", _OOD_POSITIVE,
           "probly ignores ties: constant scores can give 1.0"),
    Metric("aupr_out", "ood", detection.aupr_out, True, _OOD, "Σ_t (recall_t − recall_{t−1}) precision_t",
           f"{_OOD_POSITIVE}; {_AP}", _AP_OTHERS),
    Metric("aupr_in", "ood", detection.aupr_in, True, _OOD, "Σ_t (recall_t − recall_{t−1}) precision_t",
           f"ID positive, lowest score first; {_AP}", _AP_OTHERS),
    Metric("fpr95", "ood", detection.fpr95, False, _OOD, "P(id ≥ t), t = ⌈0.95 n_ood⌉-th largest OOD score",
           f"{_OOD_POSITIVE}; first threshold with TPR ≥ 0.95", _FPR_OTHERS),
    Metric("fpr95_id", "ood", detection.fpr95_id, False, _OOD,
           "P(ood ≤ t), t = ⌈0.95 n_id⌉-th smallest ID score",
           "ID positive; first threshold with TPR ≥ 0.95", _FPR_OTHERS),
    Metric("coverage", "conformal", conformal.coverage, None, ("sets", "labels"), "mean [y ∈ C]",
           "to be compared with 1 − α",
           "quantile: TorchCP ⌈(n+1)(1−α)⌉-th, inf beyond n, as here; MAPIE «higher»; probly clips to the "
           "max; TorchUncertainty interpolates"),
    Metric("set_size", "conformal", conformal.set_size, False, ("sets",), "mean |C|",
           "empty sets count as 0; at equal coverage, smaller is better", "none known"),
    Metric("empty_sets", "conformal", conformal.empty_sets, False, ("sets",), "mean [C = ∅]",
           "share of rows", "none known"),
    Metric("latency_ms", "efficiency", None, False, _MODEL, "median ms per sample", _BATCHES, "none known"),
    Metric("latency_p95_ms", "efficiency", None, False, _MODEL, "95th percentile of ms per sample", _BATCHES,
           "none known"),
    Metric("size_mb", "efficiency", None, False, _MODEL, "parameters × 4 bytes / 10⁶", "as if float32",
           "none known"),
    Metric("peak_mb", "efficiency", None, False, _MODEL, "peak memory in MB",
           "how far the process grows at most in those predictions", "none known"),
    Metric("train_s", "efficiency", None, False, _MODEL, "training wall time in seconds", "fit, data loaded",
           "none known"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ROWS}


def describe() -> list[dict[str, str]]:
    """Return the table as text alone: one dict of strings per metric, in the table's order."""
    return [
        {
            "name": metric.name,
            "family": metric.family,
            "direction": metric.direction,
            "needs": ", ".join(metric.needs),
            "formula": metric.formula,
            "convention": metric.convention,
            "others": metric.others,
        }
        for metric in METRICS.values()
    ]
