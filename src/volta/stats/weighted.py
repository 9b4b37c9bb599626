"""Metrics of many resamples of the same rows at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.metrics.bins import N_BINS, bin_index, scan_rows
from volta.metrics.scoring import SMALLEST_NORMAL

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowScores:
    """One trained model on the n test rows, and its scores on each OOD set.

    ``correct``, ``brier``, ``nll``: (n,), each row's part of the mean; ``gap``: (n,) confidence − correct;
    ``bin``: (n,) the row's ECE bin; ``id_score``: (n,) and ``ood_scores``: set → (m,), higher = more OOD;
    ``uncertainty``: (n,), the score that rows are abstained on by. ``variants``: set name → the same rows in another
    reading, such as "test+T" after one temperature.
    """

    correct: Floats
    brier: Floats
    nll: Floats
    gap: Floats
    bin: NDArray[np.intp]
    id_score: Floats | None = None
    ood_scores: Mapping[str, Floats] = field(default_factory=dict)
    uncertainty: Floats | None = None
    variants: Mapping[str, RowScores] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.correct)


def row_scores(
    probs: Array,
    labels: Array,
    id_score: Array | None = None,
    ood_scores: Mapping[str, Array] | None = None,
    uncertainty: Array | None = None,
    variants: Mapping[str, RowScores] | None = None,
) -> RowScores:
    """Return the per-row parts of accuracy, Brier, NLL and ECE (15 bins), with the scores for AUROC and AURC kept.

    probs: (n, K) rows that sum to 1; labels: (n,); id_score: (n,); ood_scores: set name → (m,); uncertainty: (n,).
    """
    exact = np.asarray(probs, dtype=np.float64)
    rows = scan_rows(exact, labels)
    true_prob = rows.true_prob.astype(np.float64)
    correct = rows.correct.astype(np.float64)
    return RowScores(
        correct=correct,
        brier=np.einsum("ik,ik->i", exact, exact) - 2 * true_prob + 1,
        nll=-np.log(np.maximum(true_prob, SMALLEST_NORMAL)),
        gap=rows.confidence.astype(np.float64) - correct,
        bin=bin_index(rows.confidence, N_BINS),
        id_score=None if id_score is None else np.asarray(id_score, dtype=np.float64),
        ood_scores={name: np.asarray(values, dtype=np.float64) for name, values in (ood_scores or {}).items()},
        uncertainty=None if uncertainty is None else np.asarray(uncertainty, dtype=np.float64),
        variants=dict(variants or {}),
    )


Weights: TypeAlias = NDArray[np.float32] | NDArray[np.uint8]
"""(n, columns): float32 with rows next to each other, or uint8 with columns next to each other where rows are many."""
_BLOCK = 20
_EXACT = 1 << 24


class PairCounter:
    """Counts Σ_i Σ_j w_i v_j ([o_j > s_i] + ½ [o_j = s_i]) for every column of w and v.

    With ID rows sorted, C_k = Σ_{i ≤ k} w_(i) is their running weight, and the sum is Σ_j v_j ½ (C_{l_j} + C_{r_j}),
    where l_j and r_j count the ID scores below and not above o_j. Rows run down and resamples across, so every step
    works on whole contiguous rows: O((n + m) · columns). Running weights are exact in float32 below 2²⁴ rows.

    id_scores: (n,); ood_scores: (m,).
    """

    def __init__(self, id_scores: NDArray[np.float64], ood_scores: NDArray[np.float64]) -> None:
        self.order = np.argsort(id_scores, kind="stable")
        ranked = id_scores[self.order]
        self.below = np.searchsorted(ranked, ood_scores, side="left")
        self.not_above = np.searchsorted(ranked, ood_scores, side="right")
        self.tied = np.flatnonzero(self.below != self.not_above)

    def count(self, id_weights: Weights, ood_weights: Weights, scratch: Scratch) -> NDArray[np.float64]:
        """Return each column's weighted pair count: (columns,). id_weights: (n, columns); ood_weights: (m, columns)."""
        lower = scratch.gathered
        if by_column(id_weights):
            for index, column in enumerate(id_weights.T):
                sums = running_sums(column, self.order)
                lower[:, index] = sums[self.below]
                lower[self.tied, index] = (lower[self.tied, index] + sums[self.not_above[self.tied]]) / 2
            return _column_dots(lower, ood_weights)
        running = scratch.running
        n = len(self.order)
        np.take(id_weights, self.order, axis=0, out=running[1 : n + 1], mode="clip")
        running[n + 1 :] = 0
        accumulate_rows(running[1:])
        np.take(running, self.below, axis=0, out=lower, mode="clip")
        if len(self.tied):
            lower[self.tied] = (lower[self.tied] + running[self.not_above[self.tied]]) / 2
        return _column_dots(lower, ood_weights)


class Scratch:
    """Memory that the counters of one chunk share: running weights and the gathered ones."""

    def __init__(self, n_id: int, n_ood: int, n_columns: int) -> None:
        self._shape = -(-n_id // _BLOCK) * _BLOCK + 1, n_columns
        self.gathered = np.empty((n_ood, n_columns), dtype=np.float32)

    @cached_property
    def running(self) -> NDArray[np.float32]:
        """Running weights of rows next to each other, in whole blocks after a first row of zeros."""
        return np.zeros(self._shape, dtype=np.float32)


def by_column(weights: Weights) -> bool:
    """Whether columns lie next to each other and are best worked on one at a time."""
    return weights.dtype == np.uint8


def running_sums(column: NDArray[np.uint8], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the sums of the first 0 … n weights in ``order``, (n + 1,): a byte a row stays in the cache."""
    sums = np.zeros(len(order) + 1, dtype=np.int32)
    np.cumsum(column.take(order), dtype=np.int32, out=sums[1:])
    return sums


def accumulate_rows(rows: NDArray[np.float32]) -> None:
    """Replace each row by the sum of the rows up to it, in place; the number of rows is a multiple of the block.

    NumPy's cumulative sum down the rows strides through memory; adding whole rows, a block at a time in parallel,
    is ten times faster.
    """
    blocks = rows.reshape(-1, _BLOCK, rows.shape[1])
    for index in range(1, _BLOCK):
        blocks[:, index] += blocks[:, index - 1]
    totals = np.cumsum(blocks[:-1, -1], axis=0)
    blocks[1:] += totals[:, None]


def _column_dots(left: NDArray[np.float32], right: Weights) -> NDArray[np.float64]:
    total = np.zeros(left.shape[1])
    # Short float32 sums stay below 2**24 and therefore exact; their totals are kept in float64.
    step = max(1, min(len(left), _EXACT // (4 * max(1, int(left[:, 0].max(initial=1))))))
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        total += np.einsum("jc,jc->c", left[rows], right[rows], dtype=np.float32)
    return total


class RiskCounter:
    """Gives AURC and AUGRC of the rows counted w_i times each, for every column of w.

    Rows with equal scores form a group and share the mean of their errors, as `volta.metrics.aurc` has it; the copies
    of a row tie with each other too. With S_k the rows up to group k, g_k = S_k − S_{k−1} of them in it, e_k its
    errors, E = Σ e_k, and H the harmonic numbers,

        n · AURC = E (1 + H_n) − Σ_k [e_k H(S_k) + S_{k−1} (e_k / g_k) (H(S_k) − H(S_{k−1}))],
        n² · AUGRC = Σ_k e_k (n − S_k + g_k / 2),

    by Abel's summation of the mean risk over coverages 1/n … 1, and of the trapezoids of the generalised risk: only
    groups with errors cost anything.

    uncertainty: (n,), higher = less certain; correct: (n,), 1 or 0.
    """

    def __init__(self, uncertainty: Floats, correct: Floats) -> None:
        self.order = np.argsort(uncertainty, kind="stable")
        ranked = uncertainty[self.order]
        wrong = np.flatnonzero(correct[self.order] == 0)
        starts = np.searchsorted(ranked, ranked[wrong], side="left")
        self.starts, first = np.unique(starts, return_index=True)
        self.ends = np.searchsorted(ranked, ranked[self.starts], side="right")
        self.wrong = self.order[wrong]
        # Wrong rows run in the order of their groups, so a group's errors are one slice of them.
        self.first_wrong = first
        self.all_single = len(self.starts) == len(wrong)
        self.untied = bool(np.all(self.ends - self.starts == 1))

    def scores(self, weights: Weights, scratch: Scratch) -> tuple[Floats, Floats]:
        """Return AURC and AUGRC of each column, both (columns,). weights: (n, columns), columns sum to n."""
        n = len(self.order)
        if not len(self.wrong):
            return np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
        before, after = self._running_weights(weights, scratch)
        errors = weights[self.wrong].astype(np.float64)
        if not self.all_single:
            errors = np.add.reduceat(errors, self.first_wrong, axis=0)
        harmonic = _harmonic(n)
        low, high = harmonic[before.astype(np.intp)], harmonic[after.astype(np.intp)]
        size = after - before
        share = (size > 0).astype(np.float64) if self.untied else errors / np.maximum(size, 1)
        total = errors.sum(axis=0)
        inner = np.einsum("kc,kc->c", errors, high) + np.einsum("kc,kc,kc->c", before, share, high - low)
        area = (total * (1 + harmonic[n]) - inner) / n
        generalised = np.einsum("kc,kc->c", errors, n - after + size / 2.0) / (n * n)
        return area, generalised

    def _running_weights(self, weights: Weights, scratch: Scratch) -> tuple[Array, Array]:
        """Return the weight before and after each group with errors, both (groups, columns)."""
        if by_column(weights):
            before = np.empty((len(self.starts), weights.shape[1]), dtype=np.int32)
            after = np.empty_like(before)
            for index, column in enumerate(weights.T):
                sums = running_sums(column, self.order)
                before[:, index], after[:, index] = sums[self.starts], sums[self.ends]
            return before, after
        n, running = len(self.order), scratch.running
        np.take(weights, self.order, axis=0, out=running[1 : n + 1], mode="clip")
        running[n + 1 :] = 0
        accumulate_rows(running[1:])
        return running[self.starts], running[self.ends]


@lru_cache(maxsize=2)
def _harmonic(n: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])


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
        self.n_rows = len(next(iter(models.values())))
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
