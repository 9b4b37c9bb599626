"""All models scored under many weightings of the same rows at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.metrics.binning import N_BINS
from volta.stats.rowscores import RowScores
from volta.stats.weighted_aurc import RiskCounter
from volta.stats.weighted_auroc import PairCounter, Scratch, Weights, by_column

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Key = tuple[str, str]
"""(metric, set), for example ("ece", "test") or ("auroc", "ood:svhn")."""
Model = tuple[str, int]
"""(method, seed)."""
TEST_SET = "test"
KeyT = TypeVar("KeyT", bound=Hashable)


class WeightedScorer:
    """Scores every model under given row weights.

    With weights w over the n test rows, Σ w = n: accuracy, Brier and NLL are Σ w_i x_i / n and ECE is
    Σ_b |Σ_{i in b} w_i (conf_i − correct_i)| / n, one product with a sparse matrix; AUROC is an exact weighted count
    of pairs; AURC and AUGRC are exact sums over the wrong rows. Models with the same probabilities, as the post-hoc
    methods on one network have, are scored once. Memory: about 50 n bytes a distinct model.

    models: (method, seed) → its row scores, all on the same rows.
    """

    def __init__(self, models: Mapping[Model, RowScores]) -> None:
        if not models:
            raise InputError("models is empty; pass at least one method with one model")
        self.n_rows = _common_length(models)
        self.ood_sizes = _common_ood_lengths(models)
        read = {
            (model, name): rows
            for model, scores in models.items()
            for name, rows in {TEST_SET: scores, **scores.variants}.items()
        }
        sums, self.sums_of = _once(read, lambda rows: _bytes(rows.correct, rows.brier, rows.nll, rows.gap))
        self.means = np.vstack([[rows.correct, rows.brier, rows.nll] for rows in sums]).reshape(-1, self.n_rows)
        self.gaps = [_gap_matrix(rows) for rows in sums]
        risky = {key: rows for key, rows in read.items() if rows.uncertainty is not None}
        distinct, self.risk_of = _once(risky, lambda rows: _bytes(rows.uncertainty, rows.correct))
        self.risks = [RiskCounter(_present(rows.uncertainty), rows.correct) for rows in distinct]
        self.counters: dict[str, list[PairCounter]] = {}
        self.counter_of: dict[str, dict[Model, int]] = {}
        for eval_set in self.ood_sizes:
            scored = {model: rows for model, rows in models.items() if eval_set in rows.ood_scores}
            once, self.counter_of[eval_set] = _once(scored, _pair_bytes(eval_set))
            self.counters[eval_set] = [PairCounter(_present(rows.id_score), rows.ood_scores[eval_set]) for rows in once]

    def score(self, weights: Weights, ood_weights: Mapping[str, Weights]) -> dict[Key, dict[Model, Floats]]:
        """Return (metric, set) → (method, seed) → (columns,).

        weights: (n, columns); ood_weights: set → (m, columns).
        """
        width = weights.shape[1]
        # Many rows go one column at a time: eight of them as float64 are more than an allocator keeps at hand.
        pieces = weights.T[:, :, None] if by_column(weights) else [weights]
        summed = [self._sums(piece.astype(np.float64)) for piece in pieces]
        means = np.concatenate([part for part, _ in summed], axis=1).reshape(-1, 3, width) / self.n_rows
        errors = np.concatenate([part for _, part in summed], axis=1) / self.n_rows
        scores: dict[Key, dict[Model, Floats]] = {}
        for (model, name), index in self.sums_of.items():
            parts = zip(("accuracy", "brier", "nll", "ece"), (*means[index], errors[index]), strict=True)
            for metric, values in parts:
                scores.setdefault((metric, name), {})[model] = values
        scratch = Scratch(self.n_rows, 0, width)
        risks = [counter.scores(weights, scratch) for counter in self.risks]
        for (model, name), index in self.risk_of.items():
            for metric, values in zip(("aurc", "augrc"), risks[index], strict=True):
                scores.setdefault((metric, name), {})[model] = values
        for eval_set, counters in self.counters.items():
            outside = ood_weights[eval_set]
            scratch = Scratch(self.n_rows, len(outside), width)
            counts = [counter.count(weights, outside, scratch) for counter in counters]
            scores["auroc", eval_set] = {
                model: counts[index] / (self.n_rows * len(outside))
                for model, index in self.counter_of[eval_set].items()
            }
        return scores

    def _sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted sums of correct, Brier and NLL of each distinct model, and of its bins' absolute gaps."""
        errors = [np.abs(np.asarray(gaps @ weights)).sum(axis=0) for gaps in self.gaps]
        return self.means @ weights, np.array(errors)

    def score_unweighted(self) -> dict[Key, dict[Model, float]]:
        """Return (metric, set) → (method, seed) → the metric on the rows as they are."""
        outside = {name: np.ones((size, 1), dtype=np.float32) for name, size in self.ood_sizes.items()}
        scores = self.score(np.ones((self.n_rows, 1), dtype=np.float32), outside)
        return {key: {model: float(value[0]) for model, value in by.items()} for key, by in scores.items()}


def _once(
    scores: Mapping[KeyT, RowScores], content: Callable[[RowScores], bytes]
) -> tuple[Sequence[RowScores], dict[KeyT, int]]:
    """Return the row scores of distinct content, and for each key the index of its own."""
    seen: dict[bytes, int] = {}
    distinct: list[RowScores] = []
    index_of = {}
    for key, rows in scores.items():
        index = seen.setdefault(content(rows), len(distinct))
        if index == len(distinct):
            distinct.append(rows)
        index_of[key] = index
    return distinct, index_of


def _bytes(*arrays: Floats | None) -> bytes:
    import hashlib

    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(_present(array).tobytes())
    return digest.digest()


def _pair_bytes(eval_set: str) -> Callable[[RowScores], bytes]:
    return lambda rows: _bytes(rows.id_score, rows.ood_scores[eval_set])


def _present(array: Floats | None) -> Floats:
    if array is None:
        raise InputError("id_score is missing but ood_scores is given; pass the scores of the test rows too")
    return array


def _gap_matrix(rows: RowScores) -> csr_array[np.float64]:
    from scipy import sparse

    return sparse.csr_array((rows.gap, (rows.bin, np.arange(len(rows)))), shape=(N_BINS, len(rows)))


def _common_length(models: Mapping[Model, RowScores]) -> int:
    (first, _), expected = next(iter(models)), len(next(iter(models.values())))
    for (name, _), scores in models.items():
        for rows in (scores, *scores.variants.values()):
            if len(rows) != expected:
                raise InputError(
                    f"models[{name!r}] has {len(rows)} rows but {first!r} has {expected}; score the same rows"
                )
    return expected


def _common_ood_lengths(models: Mapping[Model, RowScores]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for (name, _), rows in models.items():
        for eval_set, scores in rows.ood_scores.items():
            if sizes.setdefault(eval_set, len(scores)) != len(scores):
                raise InputError(
                    f"models[{name!r}] has {len(scores)} rows in {eval_set!r} but others have {sizes[eval_set]}; "
                    "score the same rows"
                )
    return sizes
