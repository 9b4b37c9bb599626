"""The one table of charts, in the order of the page."""

from __future__ import annotations

from volta.figures.ablation_bars import ABLATION_BARS
from volta.figures.accuracy_ece import ACCURACY_ECE
from volta.figures.calibration_bars import CALIBRATION_BARS
from volta.figures.chart import Chart
from volta.figures.corruption_heatmap import CORRUPTION_HEATMAP
from volta.figures.efficiency import EFFICIENCY
from volta.figures.near_far_ood import NEAR_FAR_OOD
from volta.figures.ood_bars import OOD_BARS
from volta.figures.pairwise import PAIRWISE
from volta.figures.parallel_coordinates import PARALLEL_COORDINATES
from volta.figures.pr_curves import PR_CURVES
from volta.figures.reliability import RELIABILITY
from volta.figures.risk_coverage import RISK_COVERAGE
from volta.figures.roc_curves import ROC_CURVES
from volta.figures.score_histograms import SCORE_HISTOGRAMS
from volta.figures.severity_curves import SEVERITY_CURVES
from volta.figures.summary_heatmap import SUMMARY_HEATMAP
from volta.figures.training_curves import TRAINING_CURVES

CHARTS: tuple[Chart, ...] = (
    ACCURACY_ECE,
    RISK_COVERAGE,
    PARALLEL_COORDINATES,
    RELIABILITY,
    PAIRWISE,
    CALIBRATION_BARS,
    OOD_BARS,
    NEAR_FAR_OOD,
    EFFICIENCY,
    ROC_CURVES,
    PR_CURVES,
    TRAINING_CURVES,
    SEVERITY_CURVES,
    ABLATION_BARS,
    SCORE_HISTOGRAMS,
    SUMMARY_HEATMAP,
    CORRUPTION_HEATMAP,
)
