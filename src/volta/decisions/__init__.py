"""Decisions with guarantees, from anybody's scores: ranks, sets, p-values, abstention, stream monitor, range check.

NumPy alone, float64. Calibration rows are rows that neither trained nor tuned what is calibrated on them.
"""

from volta.decisions.conformal import (
    ConformalRank,
    ConformalThreshold,
    GroupSets,
    SetPredictor,
    SetScore,
    SetThresholds,
    aps_scores,
    calibration_needed,
    conditional_level,
    conformal_rank,
    conformal_threshold,
    fit_group_sets,
    fit_sets,
    fit_thresholds,
    lac_scores,
    raps_scores,
    rows_needed,
    smallest_n,
)
from volta.decisions.covariate_shift import ShiftWeights, shift_weights
from volta.decisions.cross_conformal import CrossTest, cross_bound, cross_pvalues, fit_cross
from volta.decisions.decide import Decision, Decisions, decide
from volta.decisions.monitor import Drift, Monitor, MonitorState, OrderDrift, drift_in_order
from volta.decisions.online import AdaptiveLevel, GuaranteeWatch, WatchState
from volta.decisions.ood import (
    OodTest,
    ScoreJoin,
    benjamini_hochberg,
    bonferroni,
    conformal_pvalues,
    fit_join,
    fit_ood,
)
from volta.decisions.ood_evidence import ColumnEvidence, TableEvidence, fit_evidence
from volta.decisions.policies import GroupPolicies, Policy, fit_coverage, fit_group_policies, fit_policy

__all__ = [
    "AdaptiveLevel",
    "ColumnEvidence",
    "ConformalRank",
    "ConformalThreshold",
    "CrossTest",
    "Decision",
    "Decisions",
    "Drift",
    "GroupPolicies",
    "GroupSets",
    "GuaranteeWatch",
    "Monitor",
    "MonitorState",
    "OodTest",
    "OrderDrift",
    "Policy",
    "ScoreJoin",
    "SetPredictor",
    "SetScore",
    "SetThresholds",
    "ShiftWeights",
    "TableEvidence",
    "WatchState",
    "aps_scores",
    "benjamini_hochberg",
    "bonferroni",
    "calibration_needed",
    "conditional_level",
    "conformal_pvalues",
    "conformal_rank",
    "conformal_threshold",
    "cross_bound",
    "cross_pvalues",
    "decide",
    "drift_in_order",
    "fit_coverage",
    "fit_cross",
    "fit_evidence",
    "fit_group_policies",
    "fit_group_sets",
    "fit_join",
    "fit_ood",
    "fit_policy",
    "fit_sets",
    "fit_thresholds",
    "lac_scores",
    "raps_scores",
    "rows_needed",
    "shift_weights",
    "smallest_n",
]
