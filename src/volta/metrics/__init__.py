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
from volta.metrics.brought import plugin_metrics
from volta.metrics.calibration import (
    ReliabilityBins,
    ece,
    ece_classwise,
    ece_debiased,
    ece_equal_mass,
    mce,
    reliability_bins,
    signed_ce,
)
from volta.metrics.conformal import coverage, coverage_gap, empty_sets, set_size
from volta.metrics.detection import RocCurve, aupr_in, aupr_out, auroc, autc, fpr95, fpr95_id, roc_curve
from volta.metrics.floor import ece_floor, ece_floor_high, ece_floor_low
from volta.metrics.interval import Interval, ece_debiased_interval, ece_interval
from volta.metrics.metric import Metric
from volta.metrics.openset import oscr, scod_augrc, scod_aurc
from volta.metrics.scoring import FlooredProbabilityWarning, accuracy, nll, nll_floored_rows
from volta.metrics.selective import (
    RiskCoverage,
    augrc,
    aurc,
    coverage_at_5,
    eaurc,
    eaurc_paper,
    risk_at_80,
    risk_coverage_curve,
    selective_auc,
)
from volta.metrics.smooth import smece
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
    "augrc",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "autc",
    "brier",
    "brier_decomposition",
    "brier_reliability",
    "brier_residual",
    "brier_resolution",
    "brier_uncertainty",
    "conformal_quantile",
    "coverage",
    "coverage_at_5",
    "coverage_gap",
    "describe",
    "eaurc",
    "eaurc_paper",
    "ece",
    "ece_classwise",
    "ece_debiased",
    "ece_debiased_interval",
    "ece_equal_mass",
    "ece_floor",
    "ece_floor_high",
    "ece_floor_low",
    "ece_interval",
    "empty_sets",
    "fpr95",
    "fpr95_id",
    "mce",
    "nll",
    "nll_floored_rows",
    "oscr",
    "reliability_bins",
    "report",
    "risk_at_80",
    "risk_coverage_curve",
    "roc_curve",
    "scod_augrc",
    "scod_aurc",
    "selective_auc",
    "set_size",
    "signed_ce",
    "smece",
]

# Last, so that a plug-in finds all names of this module when it is imported.
METRICS |= plugin_metrics()
