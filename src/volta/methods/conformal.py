"""Split conformal prediction: sets that hold the true class with a chosen probability."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.checks import check_fraction
from volta.core.quantile import conformal_quantile
from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import at_labels, set_sizes, softmax, softmax_and_doubt
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Conformal(PostHoc):
    """C(x) = {k : 1 − p_k ≤ q}, q the ⌈(n+1)(1−α)⌉-th smallest 1 − p_y of n calibration rows (∞ if beyond n).

    u = |C(x)| + 1 − max p: the set's size, ties broken by the top probability. P(y ∈ C) ≥ 1 − α for exchangeable rows.
    Departures from the paper: calibration rows of their own, not the rows that early stopping saw; and an empty set,
    which a row gets when no class is probable enough, counts as the set of all classes in u, not as the surest of all.
    Reference: Vovk et al. (2005), Algorithmic Learning in a Random World.
    """

    title = "Split conformal"
    origin = "paper"

    alpha: float = 0.1

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_fraction(self.alpha, "alpha")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find q on the calibration rows."""
        cal = outputs.of("cal")
        self.quantile_ = conformal_quantile(1.0 - at_labels(softmax(cal.outputs.logits), cal.labels), self.alpha)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax, the sets and their sizes."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        sets = 1.0 - probs <= self.quantile_
        sizes = set_sizes(sets)
        sizes[sizes == 0] = sets.shape[1]
        return Prediction(probs, sizes + doubt, sets=sets)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = outputs.logits.softmax(dim=1)
        sizes = (1.0 - probs <= self.quantile_).sum(dim=1)
        sizes = sizes.where(sizes > 0, probs.shape[1])
        return graphs.prediction(probs, sizes + graphs.one_minus_max_softmax(outputs.logits))
