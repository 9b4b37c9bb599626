"""All methods scored under many weightings of the same rows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.metrics.binning import N_BINS
from volta.stats.pairs import PairCounter, Scratch, Weights
from volta.stats.rowscores import RowScores

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""(metric, set), for example ("ece", "test") or ("auroc", "ood:svhn")."""


class WeightedScorer:
    """Scores every method, averaged over its seeds, under given row weights.

    With weights w over the n test rows, Σ w = n: accuracy, Brier and NLL are Σ w_i x_i / n and ECE is
    Σ_b |Σ_{i in b} w_i (conf_i − correct_i)| / n, so one matrix product gives them all for all methods; AUROC is an
    exact weighted count of pairs. Memory: 18 n float64 a model.

    models: method → its models, one a seed, all scored on the same rows.
    """

    def __init__(self, models: Mapping[str, Sequence[RowScores]]) -> None:
        flat = [(name, model) for name, runs in models.items() for model in runs]
        if not flat:
            raise InputError("models is empty; pass at least one method with one model")
        self.names = [name for name, _ in flat]
        self.n_rows = _common_length(flat)
        self.ood_sizes = _common_ood_lengths(flat)
        self.design = np.vstack([_design(model) for _, model in flat])
        self.counters: dict[str, list[tuple[str, PairCounter]]] = {
            eval_set: [(name, _counter(model, eval_set)) for name, model in flat if eval_set in model.ood_scores]
            for eval_set in self.ood_sizes
        }

    def score(self, weights: Weights, ood_weights: Mapping[str, Weights]) -> dict[Key, dict[str, Floats]]:
        """Return (metric, set) → method → (columns,). weights: (n, columns); ood_weights: set → (m, columns)."""
        width = weights.shape[1]
        sums = (self.design @ weights.astype(np.float64)).reshape(len(self.names), 3 + N_BINS, width) / self.n_rows
        parts = {
            "accuracy": sums[:, 0],
            "ece": np.abs(sums[:, 3:]).sum(axis=1),
            "brier": sums[:, 1],
            "nll": sums[:, 2],
        }
        scores = {(metric, "test"): _averaged(self.names, values) for metric, values in parts.items()}
        for eval_set, counters in self.counters.items():
            outside = ood_weights[eval_set]
            scratch = Scratch(self.n_rows, len(outside), width)
            counts = np.array([counter.count(weights, outside, scratch) for _, counter in counters])
            names = [name for name, _ in counters]
            scores["auroc", eval_set] = _averaged(names, counts / (self.n_rows * len(outside)))
        return scores

    def score_unweighted(self) -> dict[Key, dict[str, float]]:
        """Return (metric, set) → method → the metric on the rows as they are."""
        outside = {name: np.ones((size, 1), dtype=np.float32) for name, size in self.ood_sizes.items()}
        scores = self.score(np.ones((self.n_rows, 1), dtype=np.float32), outside)
        return {key: {name: float(value[0]) for name, value in by.items()} for key, by in scores.items()}


def _design(model: RowScores) -> Floats:
    """Stack what is summed over rows: correct, Brier, NLL, then the gap in each ECE bin: (18, n)."""
    gaps = np.zeros((N_BINS, len(model)))
    gaps[model.bin, np.arange(len(model))] = model.gap
    return np.vstack([model.correct, model.brier, model.nll, gaps])


def _averaged(names: list[str], values: Floats) -> dict[str, Floats]:
    return {
        name: values[[index for index, other in enumerate(names) if other == name]].mean(axis=0)
        for name in dict.fromkeys(names)
    }


def _counter(model: RowScores, eval_set: str) -> PairCounter:
    if model.id_score is None:
        raise InputError("id_score is missing but ood_scores is given; pass the scores of the test rows too")
    return PairCounter(model.id_score, model.ood_scores[eval_set])


def _common_length(flat: list[tuple[str, RowScores]]) -> int:
    first_name, first = flat[0]
    for name, model in flat:
        if len(model) != len(first):
            raise InputError(
                f"models[{name!r}] has {len(model)} rows but {first_name!r} has {len(first)}; score the same rows"
            )
    return len(first)


def _common_ood_lengths(flat: list[tuple[str, RowScores]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, model in flat:
        for eval_set, scores in model.ood_scores.items():
            if sizes.setdefault(eval_set, len(scores)) != len(scores):
                raise InputError(
                    f"models[{name!r}] has {len(scores)} rows in {eval_set!r} but others have {sizes[eval_set]}; "
                    "score the same rows"
                )
    return sizes
