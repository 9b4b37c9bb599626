"""Where each score of a stream stands among all that came before it, in sorted arrays merged now and then."""

import numpy as np
from numpy.typing import NDArray

from volta.decisions.set_scores import Floats

Counts = NDArray[np.intp]

_LEAF = 64
_SHORT = 512
_EARLIER = np.tri(_LEAF, k=-1, dtype=np.bool_)


class RunningRanks:
    """Counts, for each new score, how many earlier ones are larger and how many are equal; then keeps it.

    New scores gather in a short sorted array that is merged into the long one when it has outgrown √ of it, so a score
    moves O(√n) numbers at most, however they arrive. Memory: 8 bytes a score.
    """

    def __init__(self, scores: Floats) -> None:
        self._long = np.sort(scores)
        self._short = np.empty(0)

    def __len__(self) -> int:
        return len(self._long) + len(self._short)

    def add(self, scores: Floats) -> tuple[Counts, Counts]:
        """Return (larger, equal), both (n_samples,): earlier scores, of earlier calls or rows, above and equal."""
        larger, equal = np.zeros(len(scores), dtype=np.intp), np.zeros(len(scores), dtype=np.intp)
        _count(self._long, scores, larger, equal)
        _count(self._short, scores, larger, equal)
        self._short = _merge(self._short, _count_within(scores, larger, equal))
        if len(self._short) > max(_SHORT, int(np.sqrt(len(self._long)))):
            self._long, self._short = _merge(self._long, self._short), np.empty(0)
        return larger, equal


def _count(ordered: Floats, scores: Floats, larger: Counts, equal: Counts) -> None:
    """Add to each score's counts how many of the sorted numbers are above it and equal to it."""
    if len(ordered):
        right = ordered.searchsorted(scores, side="right")
        larger += len(ordered) - right
        equal += right - ordered.searchsorted(scores, side="left")


def _count_within(scores: Floats, larger: Counts, equal: Counts) -> Floats:
    """Add the counts among earlier rows of the same call, and return the scores sorted: a merge sort that counts."""
    n = len(scores)
    if n <= _LEAF:
        if n > 1:
            earlier = _EARLIER[:n, :n]
            larger += np.count_nonzero((scores > scores[:, None]) & earlier, axis=1)
            equal += np.count_nonzero((scores == scores[:, None]) & earlier, axis=1)
        return np.sort(scores)
    half = n // 2
    first = _count_within(scores[:half], larger[:half], equal[:half])
    _count(first, scores[half:], larger[half:], equal[half:])
    return _merge(first, _count_within(scores[half:], larger[half:], equal[half:]))


def _merge(ordered: Floats, added: Floats) -> Floats:
    """Merge two sorted arrays; a stable sort finds the two runs and takes linear time."""
    return np.sort(np.concatenate([ordered, added]), kind="stable")


def online_pvalues(ranks: RunningRanks, scores: Floats, rng: np.random.Generator) -> Floats:
    """Conformal p-values of a stream: p_t = (#{larger} + U_t (1 + #{equal})) / (n + t), U_t ~ U(0, 1).

    Larger and equal among the n scores that ``ranks`` began with and the t − 1 earlier ones of the stream.
    Guarantee: independent and uniform on (0, 1) where all n + t scores are exchangeable, ties included.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World.
    scores: (n_samples,) in the order of the stream, kept in ``ranks``; returns (n_samples,) in (0, 1].

    >>> online_pvalues(RunningRanks(np.zeros(3)), np.array([1.0, 2.0]), np.random.default_rng(0)) <= [1 / 4, 1 / 5]
    array([ True,  True])
    """
    n_before = len(ranks)
    larger, equal = ranks.add(scores)
    # 1 − U is in (0, 1], so that no p-value is 0.
    draws = 1 - rng.random(len(scores))
    return np.asarray((larger + draws * (1 + equal)) / (n_before + np.arange(1, len(scores) + 1)))
