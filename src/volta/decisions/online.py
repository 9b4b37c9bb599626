"""Labels that come in later: sets that keep their error rate on any stream, and whether a guarantee still holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from volta.core.checks import check_correct, check_fraction, check_number
from volta.decisions.conformal import Floats
from volta.decisions.monitor import Martingale


class AdaptiveLevel:
    """Adaptive conformal inference: the level α_t at which the next sets are made, from labels of earlier samples.

    α_{t+1} = α_t + γ (α − e_t), e_t = 1 where set t missed its class; sets {k : p_k(x) > α_t}, so that α_t ≤ 0 gives
    all classes and α_t ≥ 1 none.
    Guarantee: |(e_1 + … + e_T) / T − α| ≤ (max(α, 1 − α) + γ) / (γ T) for every sequence of samples, exchangeable or
    not: α_t cannot leave [−γ, 1 + γ]. It is one of the long run; sets of a time of change may miss more often.
    `fit_sets` and a classifier's ``predict_set`` take levels from 0 to 1 alone: beyond, give all classes or none.
    A larger step γ follows changes sooner and varies more. Threads may share it.
    Reference: Gibbs and Candès (2021), Adaptive Conformal Inference Under Distribution Shift.

    >>> level = AdaptiveLevel(alpha=0.1, step=0.05)
    >>> level.update([True, False]), level.n_missed  # True: the set held the class
    (0.06, 1)
    """

    def __init__(self, alpha: float = 0.1, *, step: float = 0.02) -> None:
        self.alpha = check_fraction(alpha, "alpha")
        self.step = check_number(step, "step")
        self.level, self.n, self.n_missed = self.alpha, 0, 0
        self._lock = Lock()

    def update(self, covered: ArrayLike) -> float:
        """Take whether the sets of the next samples, made at the levels given, held the class; return the next level.

        covered: (n_samples,) booleans. Of many sets at one level all count, each by one step.
        """
        held = check_correct(covered, "covered")
        with self._lock:
            missed = int(np.count_nonzero(~held))
            self.n, self.n_missed = self.n + len(held), self.n_missed + missed
            # Of the counts, not step by step: rounding errors of the steps would add up.
            self.level = round(self.alpha + self.step * (self.alpha * self.n - self.n_missed), 12)
            return self.level

    @property
    def bound(self) -> float:
        """What the share of misses so far is proven to be within of ``alpha``, where each update took one sample."""
        return (max(self.alpha, 1 - self.alpha) + self.step) / (self.step * self.n) if self.n else math.inf


Verdict: TypeAlias = Literal["holds", "broken", "inconclusive"]
VERDICTS: tuple[Verdict, ...] = ("holds", "broken", "inconclusive")
BETS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class WatchState:
    """What ``n`` labelled answers say of "at most ``max_error`` are wrong", of which ``n_errors`` were wrong.

    ``verdict``: whether that holds; ``decided_at``: the answer, from 0, that brought it. The error is in [``low``,
    ``high``] at all times with probability 1 − alpha, where it does not change.
    """

    n: int
    n_errors: int
    max_error: float
    verdict: Verdict
    decided_at: int | None
    low: float
    high: float


class GuaranteeWatch:
    """Tells from labels of answered samples whether "at most ε are wrong" still holds, and may be read at any time.

    A bet on errors multiplies by 1 + g (1 − ε) / ε at each error and by 1 − g otherwise, one on right answers by 1 − g
    and by 1 + g ε / (1 − ε), for each g of a fixed grid. Errors are bet on from every row on, as in `Monitor`, so that
    a late break is seen too; right answers from the first row on.
    Guarantee: where each answer is wrong with probability ≤ ε given all before, P(verdict is ever "broken") ≤ α / 2;
    where each is wrong with probability ≥ ε, P(verdict is ever "holds") ≤ α / 2. By Ville's inequality, for any
    dependence and however often the state is read. All ε that no bet refutes are a confidence sequence of a
    constant error. Condition: labels come for all answers, or for a random part of them.
    A verdict of "broken" stays; "holds" may become "broken" later. Threads may share it.
    Reference: Waudby-Smith and Ramdas (2024), Estimating Means of Bounded Random Variables by Betting.

    >>> watch = GuaranteeWatch(max_error=0.02)
    >>> watch.update(np.ones(600, dtype=bool)).verdict
    'holds'
    >>> watch.update(np.arange(100) % 5 > 0).verdict
    'broken'
    """

    def __init__(self, max_error: float = 0.02, *, alpha: float = 0.05) -> None:
        self._max_error = check_fraction(max_error, "max_error")
        self._limit = math.log(2 / check_fraction(alpha, "alpha"))
        self._martingale = Martingale(len(BETS))
        self._lock = Lock()
        self.state = WatchState(0, 0, self._max_error, "inconclusive", None, 0.0, 1.0)

    def update(self, correct: ArrayLike) -> WatchState:
        """Take whether the next answers were right, in order, and return the state after them; (n_samples,)."""
        wrong = ~check_correct(correct)
        with self._lock:
            before = self.state
            error, right = _log_bets(self._max_error)
            on_errors = self._martingale.bet(np.where(wrong[:, None], error[0], right[0]))
            n = before.n + np.arange(1, len(wrong) + 1)
            errors = before.n_errors + np.cumsum(wrong)
            broken = np.flatnonzero(on_errors >= self._limit)
            holds = np.flatnonzero(_worth(errors, n, self._max_error, 1) >= self._limit)
            verdict, decided_at = before.verdict, before.decided_at
            if verdict == "inconclusive" and len(holds):
                verdict, decided_at = "holds", before.n + int(holds[0])
            if before.verdict != "broken" and len(broken):
                verdict, decided_at = "broken", before.n + int(broken[0])
            n_errors, total = int(errors[-1]), int(n[-1])
            self.state = WatchState(
                n=total,
                n_errors=n_errors,
                max_error=self._max_error,
                verdict=verdict,
                decided_at=decided_at,
                low=max(before.low, self._end(n_errors, total, 0)),
                high=min(before.high, self._end(n_errors, total, 1)),
            )
            return self.state

    def to_array(self) -> Floats:
        """Return all that it knows, from which `restore` of a watch with the same levels continues."""
        with self._lock:
            state, decided_at = self.state, -1 if self.state.decided_at is None else self.state.decided_at
            numbers = (state.n, state.n_errors, VERDICTS.index(state.verdict), decided_at, state.low, state.high)
            return np.concatenate([numbers, self._martingale.log_products, self._martingale.log_stakes])

    def restore(self, values: Floats) -> None:
        """Continue where the watch was whose `to_array` gave ``values``."""
        with self._lock:
            numbers, products, stakes = np.split(np.asarray(values), [6, 6 + len(BETS)])
            n, n_errors, verdict, decided_at = (int(number) for number in numbers[:4])
            found = None if decided_at < 0 else decided_at
            low, high = float(numbers[4]), float(numbers[5])
            self.state = WatchState(n, n_errors, self._max_error, VERDICTS[verdict], found, low, high)
            martingale = self._martingale
            martingale.n, martingale.log_products, martingale.log_stakes = n, products.copy(), stakes.copy()

    def _end(self, n_errors: int, n: int, side: int) -> float:
        """Return the error at which bets on errors (side 0) or right answers (1) begin to refute, by bisection.

        Bets on errors are worth less the larger ε is, and bets on right answers more.
        """
        refuted, kept = (0.0, 1.0) if side == 0 else (1.0, 0.0)
        for _ in range(40):
            middle = (refuted + kept) / 2
            worth = _worth(np.array([n_errors]), np.array([n]), middle, side)[0]
            refuted, kept = (middle, kept) if worth >= self._limit else (refuted, middle)
        return refuted


def _log_bets(max_error: float) -> tuple[Floats, Floats]:
    """Return what an error and a right answer multiply by: logarithms, (2, n_bets), bets on errors and on the rest."""
    share = np.array(BETS)
    error = np.stack([np.log1p(share * (1 - max_error) / max_error), np.log1p(-share)])
    right = np.stack([np.log1p(-share), np.log1p(share * max_error / (1 - max_error))])
    return error, right


def _worth(errors: ArrayLike, n: ArrayLike, max_error: float, side: int) -> Floats:
    """Return the logarithm of the mean of bets since the first row, of ``errors`` among ``n``."""
    error, right = _log_bets(max_error)
    wrong = np.asarray(errors)[:, None]
    total = wrong * error[side] + (np.asarray(n)[:, None] - wrong) * right[side]
    return np.asarray(np.logaddexp.reduce(total, axis=1) - math.log(len(BETS)))
