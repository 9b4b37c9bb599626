"""What one pass over the probabilities gives to every metric of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import Floats, checked_row_chunks
from volta.metrics.binning import N_BINS
from volta.metrics.brierscore import BrierDecomposition, decompose
from volta.metrics.calibration import ReliabilityBins, bins_of
from volta.metrics.classbins import ClassBinCounter, ClassBins
from volta.metrics.floor import floor_of
from volta.metrics.interval import Interval
from volta.metrics.rows import RowStatistics, empty_rows, fill_rows


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
    def floor(self) -> Interval:
        """The ECE that chance alone gives."""
        return floor_of(self.rows.confidence)

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
