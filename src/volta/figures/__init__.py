"""Charts by question (calibration, OOD, shift, comparison, cost): data for the page and figures for print.

Figures are functions of plain data: Matplotlib's object interface, no torch, no global state.
"""

from volta.figures.calibration import (
    accuracy_ece,
    accuracy_ece_density,
    calibration_bars,
    reliability_diagrams,
    risk_coverage,
)
from volta.figures.chart_data import (
    Chart,
    Choice,
    Context,
    GroupNumbers,
    MethodBins,
    MethodCurve,
    MethodRank,
    MethodValues,
    PrintVersion,
    ScoreHistogram,
    Switch,
)
from volta.figures.charts import CHARTS
from volta.figures.comparison import ablation_bars, critical_difference, pairwise, parallel_coordinates, summary_heatmap
from volta.figures.cost import efficiency, training_curves
from volta.figures.draw import save_figure
from volta.figures.ood import near_far_ood, ood_bars, pr_curves, roc_curves, score_histograms
from volta.figures.shift import N_SEVERITIES, corruption_heatmap, corruption_sheet, severity_curves
from volta.figures.style import MethodStyle, style_of

__all__ = [
    "CHARTS",
    "N_SEVERITIES",
    "Chart",
    "Choice",
    "Context",
    "GroupNumbers",
    "MethodBins",
    "MethodCurve",
    "MethodRank",
    "MethodStyle",
    "MethodValues",
    "PrintVersion",
    "ScoreHistogram",
    "Switch",
    "ablation_bars",
    "accuracy_ece",
    "accuracy_ece_density",
    "calibration_bars",
    "corruption_heatmap",
    "corruption_sheet",
    "critical_difference",
    "efficiency",
    "near_far_ood",
    "ood_bars",
    "pairwise",
    "parallel_coordinates",
    "pr_curves",
    "reliability_diagrams",
    "risk_coverage",
    "roc_curves",
    "save_figure",
    "score_histograms",
    "severity_curves",
    "style_of",
    "summary_heatmap",
    "training_curves",
]
