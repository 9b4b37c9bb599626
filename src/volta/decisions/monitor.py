"""The stream monitor: a test that may be read at any time, with its false alarms bounded over all time."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_fraction, check_scores
from volta.decisions.conformal import Floats
from volta.decisions.ood import fit_ood

_PIECE = 1024


def online_pvalues(earlier: Floats, scores: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Conformal p-values of a stream: p_t = (#{larger} + U_t (1 + #{equal})) / (n + t), U_t ~ U(0, 1).

    Larger and equal among the n ``earlier`` scores, sorted, and the t − 1 first ones of ``scores``.
    Guarantee: independent and uniform on (0, 1) where all n + t scores are exchangeable, ties included.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World.
    scores: (n_samples,) in the order of the stream; returns (n_samples,) in (0, 1], and all scores sorted.

    >>> pvalues, _ = online_pvalues(np.zeros(3), np.array([1.0, 2.0]), np.random.default_rng(0))
    >>> pvalues <= [1 / 4, 1 / 5]
    array([ True,  True])
    """
    pvalues = np.empty(len(scores))
    for start in range(0, len(scores), _PIECE):
        new = scores[start : start + _PIECE]
        preceding = np.tri(len(new), k=-1, dtype=np.bool_)
        right = earlier.searchsorted(new, side="right")
        larger = len(earlier) - right + np.count_nonzero((new > new[:, None]) & preceding, axis=1)
        equal = right - earlier.searchsorted(new) + np.count_nonzero((new == new[:, None]) & preceding, axis=1)
        # 1 − U is in (0, 1], so that no p-value is 0.
        draws = 1 - rng.random(len(new))
        pvalues[start : start + _PIECE] = (larger + draws * (1 + equal)) / (len(earlier) + np.arange(1, len(new) + 1))
        ordered = np.sort(new)
        earlier = np.insert(earlier, earlier.searchsorted(ordered), ordered)
    return pvalues, earlier


LINEAR_BETS = (-0.9, -0.5, 0.5, 0.9)
POWER_BETS = (0.25, 0.5, 0.75)
CURVED_BETS = (-0.9, 0.9)
BEYOND = 0.05
_CHUNK = 1 << 15


@dataclass(frozen=True)
class Drift:
    """A plain summary of rows compared with the calibration rows alone, without a guarantee over time.

    ``mean_pvalue`` is about 1/2 without a change, lower where scores rise; ``share_beyond`` is the share of rows
    that a flag at fpr = 0.05 would take, about 0.05 without a change.
    """

    n: int
    mean_pvalue: float
    share_beyond: float


@dataclass(frozen=True)
class MonitorState:
    """What is known after ``n`` stream rows.

    ``alarm``: whether the martingale has ever reached 1/α; ``alarm_at``: the stream row, from 0, at which it first did.
    ``log_martingale`` and its largest value so far ``log_peak``, natural logarithms.
    ``recent`` sums up the last update and ``overall`` the whole stream.
    """

    n: int
    alpha: float
    alarm: bool
    alarm_at: int | None
    log_martingale: float
    log_peak: float
    recent: Drift
    overall: Drift

    @property
    def pvalue(self) -> float:
        """Anytime-valid p-value of "no change so far": min(1, 1 / largest martingale)."""
        return math.exp(-self.log_peak)


class Monitor:
    """Raises an alarm when a stream of scores no longer looks like the calibration rows.

    Each new score is ranked among the n calibration scores and all earlier scores of the stream, which gives the
    p-values of `online_pvalues`: independent and uniform where calibration and stream rows are exchangeable. (Ranked
    among the calibration rows alone they would share those rows and not be independent: alarms would come too often.)
    On them a test martingale bets, with every betting function and from every time on:
    M_t = Σ_k Σ_{s ≤ t} (π_s / K) Π_{i = s … t} f_k(p_i) + c_t, π_s = c_{s−1} − c_s, c_0 = 1, c_t = ½ / (1 + log t).
    π_s is the stake set on a change at row s, c_t what is left for later ones, so that a late change can be seen
    too; the K functions are in `betting_functions`.
    Guarantee: P(M_t ≥ 1/α for any t) ≤ α without a change, over all time, by Ville's inequality, however often the
    state is read. Condition: calibration and stream rows are exchangeable until the change, and the score was made
    without them. An alarm stays. Later rows are ranked among earlier ones of the stream too: a change is seen soon
    after it comes, or hardly at all.
    Time: O(n) a call and a thousand rows; memory: 8 bytes a row.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World; Vovk et al. (2021), Retrain or
    Not Retrain: Conformal Test Martingales for Change-Point Detection.

    calibration: (n_calibration,), higher = more OOD.

    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=500), alpha=0.01, rng=rng)
    >>> monitor.update(rng.normal(size=300)).alarm
    False
    >>> monitor.update(rng.normal(2.0, size=50)).alarm
    True
    """

    def __init__(self, calibration: ArrayLike, *, alpha: float = 0.01, rng: np.random.Generator) -> None:
        scores = check_scores(calibration, "calibration")
        self._fixed = fit_ood(scores)
        self._scores = np.sort(scores)
        self._rng = rng
        n_bets = len(LINEAR_BETS) + len(POWER_BETS) + len(CURVED_BETS)
        self._log_products = np.zeros(n_bets)
        self._log_stakes = np.full(n_bets, -np.inf)
        nothing = Drift(0, math.nan, math.nan)
        self.state = MonitorState(0, check_fraction(alpha, "alpha"), False, None, 0.0, 0.0, nothing, nothing)

    def update(self, scores: ArrayLike) -> MonitorState:
        """Take the next rows of the stream, in order, and return the state after them.

        One call with many rows and many calls with one row give the same martingale. scores: (n_samples,).
        """
        values = check_scores(scores)
        before = self.state
        pvalues, self._scores = online_pvalues(self._scores, values, self._rng)
        starts = range(0, len(values), _CHUNK)
        path = np.concatenate([self._bet(pvalues[start : start + _CHUNK], before.n + start) for start in starts])
        crossed = np.flatnonzero(path >= -math.log(before.alpha))
        first = before.n + int(crossed[0]) if len(crossed) else None
        recent = _drift(self._fixed.pvalues(values))
        self.state = MonitorState(
            n=before.n + len(values),
            alpha=before.alpha,
            alarm=before.alarm or first is not None,
            alarm_at=before.alarm_at if before.alarm else first,
            log_martingale=float(path[-1]),
            log_peak=max(before.log_peak, float(path.max())),
            recent=recent,
            overall=_together(before.overall, recent),
        )
        return self.state

    def _bet(self, pvalues: Floats, n_before: int) -> Floats:
        """Return log M_t after each p-value, of which the first is that of stream row ``n_before``, from 0.

        With F_k(t) = Π_{i ≤ t} f_k(p_i) the bets of function k are worth F_k(t) Σ_{s ≤ t} (π_s / K) / F_k(s − 1).
        """
        n_bets = len(self._log_products)
        kept = _kept(np.arange(n_before, n_before + len(pvalues) + 1))
        log_stakes = np.log((kept[:-1] - kept[1:]) / n_bets)[:, None]
        log_bets = np.log(betting_functions(pvalues))
        products = np.cumsum(np.vstack([self._log_products, log_bets]), axis=0)
        stakes = np.logaddexp.accumulate(np.vstack([self._log_stakes, log_stakes - products[:-1]]), axis=0)
        self._log_products, self._log_stakes = products[-1], stakes[-1]
        worth = np.column_stack([products[1:] + stakes[1:], np.log(kept[1:])])
        return np.asarray(np.logaddexp.reduce(worth, axis=1))


def betting_functions(pvalues: Floats) -> NDArray[np.float64]:
    """Return (n_samples, K): what `Monitor` bets on each p-value. Each function is > 0 and has integral 1 over (0, 1).

    With x = 2p − 1: 1 − ε x, ε in {±0.5, ±0.9}, for scores that rise or fall; κ p^{κ−1}, κ in {¼, ½, ¾}, for a few very
    large scores; 1 + ε (3x² − 1)/2, ε = ±0.9, for scores more or less spread.

    >>> betting_functions(np.array([0.5]))[0, :4]
    array([1., 1., 1., 1.])
    """
    p = pvalues[:, None]
    x = 2 * p - 1
    linear = 1 - np.array(LINEAR_BETS) * x
    power = np.array(POWER_BETS) * p ** (np.array(POWER_BETS) - 1)
    curved = 1 + np.array(CURVED_BETS) * (3 * x**2 - 1) / 2
    return np.hstack([linear, power, curved])


def _kept(rows: NDArray[np.intp]) -> Floats:
    """Return c_t, the share not yet staked after t rows."""
    return np.where(rows == 0, 1.0, 0.5 / (1 + np.log(np.maximum(rows, 1))))


def _drift(pvalues: Floats) -> Drift:
    return Drift(len(pvalues), float(pvalues.mean()), float(np.mean(pvalues <= BEYOND)))


def _together(earlier: Drift, later: Drift) -> Drift:
    if earlier.n == 0:
        return later
    n = earlier.n + later.n
    return Drift(
        n,
        (earlier.n * earlier.mean_pvalue + later.n * later.mean_pvalue) / n,
        (earlier.n * earlier.share_beyond + later.n * later.share_beyond) / n,
    )
