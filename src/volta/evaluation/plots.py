"""Plots of one evaluation on Matplotlib axes; Matplotlib is imported when one is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from volta.core.errors import InputError, MissingDataError
from volta.metrics import reliability_bins, risk_coverage_curve, roc_curve
from volta.metrics.binning import N_BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from volta.evaluation.evaluation import Evaluation

CURVE_POINTS = 1_000
"""As many points as a curve is drawn with at most; a screen shows no more."""


@dataclass(frozen=True, eq=False)
class Plots:
    """The plots of an evaluation; each draws on ``ax``, or on new axes, and returns them."""

    evaluation: Evaluation

    def reliability(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy by confidence in the 15 bins of ECE, the gap to the mean confidence, and the share of rows."""
        axes = _axes(ax)
        from volta.figures.data import MethodBins
        from volta.figures.reliability import draw_reliability

        arrays = self.evaluation.arrays
        bins = reliability_bins(arrays["test/probs"], arrays["test/labels"])
        place = np.rint(bins.upper * N_BINS).astype(np.int64) - 1
        count, confidence, accuracy = np.zeros(N_BINS, dtype=np.int64), np.zeros(N_BINS), np.zeros(N_BINS)
        count[place], confidence[place], accuracy[place] = bins.count, bins.confidence, bins.accuracy
        ece, floor = (self.evaluation.metrics["test"][metric] for metric in ("ece", "ece_floor"))
        draw_reliability(axes, MethodBins("volta", "Reliability", count, confidence, accuracy, ece, floor=floor))
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy")
        return axes

    def risk_coverage(self, ax: Axes | None = None) -> Axes:
        """Draw the share of errors among the rows that are kept, the most certain first, against their share."""
        axes = _axes(ax)
        arrays = self.evaluation.arrays
        correct = arrays["test/probs"].argmax(axis=1) == arrays["test/labels"]
        curve = risk_coverage_curve(arrays["test/uncertainty"], correct)
        shown = _thinned(len(curve.coverage))
        area = self.evaluation.metrics["test"]["aurc"]
        axes.plot(curve.coverage[shown], curve.risk[shown], label=f"AURC {area:.4f}")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("coverage: share of rows kept, most certain first")
        axes.set_ylabel("risk: share of errors among them")
        axes.legend()
        return axes

    def roc(self, ax: Axes | None = None) -> Axes:
        """Draw the ROC curve of each OOD set, OOD rows being positive."""
        arrays = self.evaluation.arrays
        outside = [name for name in self.evaluation.metrics if name.startswith("ood:")]
        if not outside:
            raise InputError("there is no OOD set to draw a ROC curve of; pass ood={name: scores} and id_score")
        axes = _axes(ax)
        for name in outside:
            curve = roc_curve(arrays["test/ood_score"], arrays[f"{name}/ood_score"])
            shown = _thinned(len(curve.fpr))
            area = self.evaluation.metrics[name]["auroc"]
            axes.plot(curve.fpr[shown], curve.tpr[shown], label=f"{name.removeprefix('ood:')}: AUROC {area:.4f}")
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle="--")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("share of test rows called OOD")
        axes.set_ylabel("share of OOD rows called OOD")
        axes.legend()
        return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDataError("plots need matplotlib: pip install 'volta-uq[bench]'") from error
    return pyplot.subplots()[1]


def _thinned(n: int) -> slice | np.ndarray:
    return slice(None) if n <= CURVE_POINTS else np.unique(np.linspace(0, n - 1, CURVE_POINTS).astype(np.intp))
