"""Charts by question (calibration, OOD, shift, comparison, cost): data for the page and figures for print.

Figures are functions of plain data: Matplotlib's object interface, no torch, no global state.
"""

from volta.figures.calibration import accuracy_ece
from volta.figures.chart_data import (
    Chart,
    Choice,
    Context,
    GroupNumbers,
    MethodBins,
    MethodCurve,
    MethodValues,
    PrintVersion,
    ScoreHistogram,
)
from volta.figures.charts import CHARTS
from volta.figures.comparison import critical_difference
from volta.figures.draw import save_figure
from volta.figures.shift import N_SEVERITIES, corruption_sheet
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
    "MethodStyle",
    "MethodValues",
    "PrintVersion",
    "ScoreHistogram",
    "accuracy_ece",
    "corruption_sheet",
    "critical_difference",
    "save_figure",
    "style_of",
]
