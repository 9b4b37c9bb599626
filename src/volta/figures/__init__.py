"""Charts, one file each: their numbers, their figures for print, what the page draws.

Figures for print are functions of plain data: Matplotlib's object interface, no torch, no global state.
"""

from volta.figures.ablation_bars import ablation_bars
from volta.figures.accuracy_ece import accuracy_ece
from volta.figures.accuracy_ece_density import accuracy_ece_density
from volta.figures.calibration_bars import calibration_bars
from volta.figures.canvas import save_figure
from volta.figures.chart import Chart, Choice, PrintVersion, Switch
from volta.figures.charts import CHARTS
from volta.figures.corruption_heatmap import corruption_heatmap
from volta.figures.corruption_sheet import N_SEVERITIES, corruption_sheet
from volta.figures.critical_difference import critical_difference
from volta.figures.data import (
    Context,
    Difference,
    GroupNumbers,
    MethodBins,
    MethodCurve,
    MethodRank,
    MethodValues,
    PairDifference,
    ScoreHistogram,
    TrainingCurve,
)
from volta.figures.efficiency import efficiency
from volta.figures.near_far_ood import near_far_ood
from volta.figures.ood_bars import ood_bars
from volta.figures.pairwise import pairwise
from volta.figures.parallel_coordinates import parallel_coordinates
from volta.figures.pr_curves import pr_curves
from volta.figures.reliability import reliability_diagrams
from volta.figures.risk_coverage import risk_coverage
from volta.figures.roc_curves import roc_curves
from volta.figures.score_histograms import score_histograms
from volta.figures.severity_curves import severity_curves
from volta.figures.style import MethodStyle, style_of
from volta.figures.summary_heatmap import summary_heatmap
from volta.figures.training_curves import training_curves

__all__ = [
    "CHARTS",
    "N_SEVERITIES",
    "Chart",
    "Choice",
    "Context",
    "Difference",
    "GroupNumbers",
    "MethodBins",
    "MethodCurve",
    "MethodRank",
    "MethodStyle",
    "MethodValues",
    "PairDifference",
    "PrintVersion",
    "ScoreHistogram",
    "Switch",
    "TrainingCurve",
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
