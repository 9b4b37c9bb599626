"""NNGuide: the free energy, guided by how near energetic training vectors are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count
from volta.core.types import Array, Prediction
from volta.methods.neighbours import largest_products
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, log_sum_exp, softmax_and_energy
from volta.methods.vectors import unit_rows
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class NnGuide(PostHoc):
    """u = −s(l) · mean of the k largest s(l_i) cos(f, f_i) over training rows i, s = logsumexp; p = softmax(l).

    Departure: the bank holds all training rows; the authors draw 1 % of ImageNet's.
    Cost at test: one matrix product with the bank. k is at most the number of training rows.
    Reference: Park et al. (2023), Nearest Neighbor Guidance for Out-of-Distribution Detection.
    """

    title = "NNGuide"
    origin = "extra"
    standard = False
    single_precision = True

    k: int = 10

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_count(self.k, "k")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the unit training vectors, each times its s(l_i)."""
        train = outputs.of("train").outputs
        energies = log_sum_exp(train.logits).astype(np.float32)
        self.bank_ = unit_rows(train.need_features())
        self.bank_ *= energies[:, None]

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated guided energy."""
        guidance = mean_of_largest(unit_rows(outputs.need_features()), self.bank_, min(self.k, len(self.bank_)))
        probs, free_energy = softmax_and_energy(outputs.logits)
        return Prediction(probs, free_energy * guidance)


def mean_of_largest(queries: Array, bank: Array, k: int) -> Floats:
    """Return the mean of each query's k largest products with rows of ``bank``, in bounded memory."""
    means: Floats = np.empty(len(queries))
    for rows, products in largest_products(queries, bank, k):
        means[rows] = products.mean(axis=1, dtype=np.float64)
    return means
