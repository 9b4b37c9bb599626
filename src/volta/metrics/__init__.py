"""Metrics of probabilities, uncertainty scores and prediction sets: NumPy only, float64, exact under ties."""

from volta.core.quantile import conformal_quantile
from volta.metrics.brierscore import (
    BrierDecomposition,
    brier,
    brier_decomposition,
    brier_reliability,
    brier_residual,
    brier_resolution,
    brier_uncertainty,
)
from volta.metrics.calibration import (
    ReliabilityBins,
    ece,
    ece_classwise,
    ece_equal_mass,
    mce,
    reliability_bins,
)
from volta.metrics.conformal import coverage, empty_sets, set_size
from volta.metrics.detection import RocCurve, aupr_in, aupr_out, auroc, fpr95, fpr95_id, roc_curve
from volta.metrics.interval import Interval, ece_interval
from volta.metrics.metric import Metric
from volta.metrics.scoring import FlooredProbabilityWarning, accuracy, nll, nll_floored_rows
from volta.metrics.selective import (
    RiskCoverage,
    aurc,
    coverage_at_5,
    eaurc,
    eaurc_paper,
    risk_at_80,
    risk_coverage_curve,
    selective_auc,
)
from volta.metrics.summary import report
from volta.metrics.table import METRICS, describe

__all__ = [
    "METRICS",
    "BrierDecomposition",
    "FlooredProbabilityWarning",
    "Interval",
    "Metric",
    "ReliabilityBins",
    "RiskCoverage",
    "RocCurve",
    "accuracy",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "brier",
    "brier_decomposition",
    "brier_reliability",
    "brier_residual",
    "brier_resolution",
    "brier_uncertainty",
    "conformal_quantile",
    "coverage",
    "coverage_at_5",
    "describe",
    "eaurc",
    "eaurc_paper",
    "ece",
    "ece_classwise",
    "ece_equal_mass",
    "ece_interval",
    "empty_sets",
    "fpr95",
    "fpr95_id",
    "mce",
    "nll",
    "nll_floored_rows",
    "reliability_bins",
    "report",
    "risk_at_80",
    "risk_coverage_curve",
    "roc_curve",
    "selective_auc",
    "set_size",
]
