"""The stream monitor: a test that may be read at any time, with its false alarms bounded over all time."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_count, check_fraction, check_labels, check_same_length, check_scores
from volta.core.checksummed import FileKind, read_arrays, write_arrays
from volta.core.errors import InputError
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
N_BETS = len(LINEAR_BETS) + len(POWER_BETS) + len(CURVED_BETS)
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


MONITOR_FILE = FileKind("saved monitor", 1, "start a new monitor")


@dataclass(frozen=True)
class _Header:
    """What a file holds besides arrays; ``generator`` is the state of a PCG64 generator as JSON."""

    n: int
    alpha: float
    alarm_at: int | None
    log_martingale: float
    log_peak: float
    block: int
    n_used: int
    generator: str


class Martingale:
    """What bets are worth after ``n`` rows: the same bets from every row on, with stakes; see `Monitor`."""

    def __init__(self, n_bets: int) -> None:
        self.n = 0
        self.log_products, self.log_stakes = np.zeros(n_bets), np.full(n_bets, -np.inf)

    def bet(self, log_bets: Floats) -> Floats:
        """Return log M_t after each of the next rows; log_bets: (n_rows, n_bets), of which exp has expectation ≤ 1.

        With F_k(t) = Π_{i ≤ t} f_k(p_i) bet k is worth F_k(t) Σ_{s ≤ t} (π_s / K) / F_k(s − 1).
        """
        kept = _kept(np.arange(self.n, self.n + len(log_bets) + 1))
        log_stakes = np.log((kept[:-1] - kept[1:]) / len(self.log_products))[:, None]
        products = np.cumsum(np.vstack([self.log_products, log_bets]), axis=0)
        stakes = np.logaddexp.accumulate(np.vstack([self.log_stakes, log_stakes - products[:-1]]), axis=0)
        self.log_products, self.log_stakes, self.n = products[-1], stakes[-1], self.n + len(log_bets)
        worth = np.column_stack([products[1:] + stakes[1:], np.log(kept[1:])])
        return np.asarray(np.logaddexp.reduce(worth, axis=1))


def _bet(martingale: Martingale, pvalues: Floats) -> Floats:
    """Return log M_t after each of the next p-values, in pieces of bounded memory."""
    starts = range(0, len(pvalues), _CHUNK)
    paths = (martingale.bet(np.log(betting_functions(pvalues[start : start + _CHUNK]))) for start in starts)
    return np.concatenate([np.empty(0), *paths])


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

    Rows of a stream in time are often not exchangeable: each resembles the one before, or is repeated. Of such streams
    alarms say only that. ``block`` b bets on every b-th row alone, on none of the others. Guarantee: where rows b apart
    are independent (repeated up to b times, or dependent over less than b rows) the rows used are exchangeable, and all
    of the above holds; where dependence fades it is P(alarm among N used rows) ≤ α + N β(b), β(b) the coefficient of
    absolute regularity of the stream at lag b. Calibration rows are then a random draw, or b apart as well.

    Threads may share a monitor: rows of one `update` stay together. `save` and `load` continue it elsewhere.
    Time: O(n) a call and a thousand rows; memory: 8 bytes a row.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World; Vovk et al. (2021), Retrain or
    Not Retrain: Conformal Test Martingales for Change-Point Detection; Yu (1994), Rates of Convergence for Empirical
    Processes of Stationary Mixing Sequences, for blocks.

    calibration: (n_calibration,), higher = more OOD.

    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=500), alpha=0.01, rng=rng)
    >>> monitor.update(rng.normal(size=300)).alarm
    False
    >>> monitor.update(rng.normal(2.0, size=50)).alarm
    True
    """

    def __init__(
        self, calibration: ArrayLike, *, alpha: float = 0.01, rng: np.random.Generator, block: int = 1
    ) -> None:
        self._scores = np.sort(check_scores(calibration, "calibration"))
        self._fixed = fit_ood(self._scores)
        self._rng = rng
        self._block = check_count(block, "block")
        self._martingale = Martingale(N_BETS)
        self._lock = Lock()
        nothing = Drift(0, math.nan, math.nan)
        self.state = MonitorState(0, check_fraction(alpha, "alpha"), False, None, 0.0, 0.0, nothing, nothing)

    def update(self, scores: ArrayLike) -> MonitorState:
        """Take the next rows of the stream, in order, and return the state after them.

        One call with many rows and many calls with one row give the same martingale. scores: (n_samples,).
        """
        values = check_scores(scores)
        recent = _drift(self._fixed.pvalues(values))
        with self._lock:
            before = self.state
            used = np.arange(-before.n % self._block, len(values), self._block)
            pvalues, self._scores = online_pvalues(self._scores, values[used], self._rng)
            path = _bet(self._martingale, pvalues)
            crossed = used[path >= -math.log(before.alpha)]
            first = before.n + int(crossed[0]) if len(crossed) else None
            self.state = MonitorState(
                n=before.n + len(values),
                alpha=before.alpha,
                alarm=before.alarm or first is not None,
                alarm_at=before.alarm_at if before.alarm else first,
                log_martingale=float(path[-1]) if len(path) else before.log_martingale,
                log_peak=max(before.log_peak, *path.tolist()) if len(path) else before.log_peak,
                recent=recent,
                overall=_together(before.overall, recent),
            )
            return self.state

    def save(self, path: str | Path) -> None:
        """Write the monitor to a checksummed file, from which `load` continues with the same draws."""
        with self._lock:
            state, generator = self.state, self._rng.bit_generator
            if not isinstance(generator, np.random.PCG64):
                raise InputError(
                    f"rng draws by {type(generator).__name__}, which is not saved; pass numpy.random.default_rng(seed)"
                )
            arrays = {
                "calibration": self._fixed.scores[0],
                "scores": self._scores,
                "log_products": self._martingale.log_products,
                "log_stakes": self._martingale.log_stakes,
                "drift": np.array(
                    [[each.n, each.mean_pvalue, each.share_beyond] for each in (state.recent, state.overall)]
                ),
            }
            header = _Header(
                n=state.n,
                alpha=state.alpha,
                alarm_at=state.alarm_at,
                log_martingale=state.log_martingale,
                log_peak=state.log_peak,
                block=self._block,
                n_used=self._martingale.n,
                generator=json.dumps(generator.state),
            )
        write_arrays(Path(path), MONITOR_FILE, arrays, asdict(header))

    @classmethod
    def load(cls, path: str | Path) -> Monitor:
        """Return the monitor that `save` wrote; every other file is refused."""
        header, arrays = read_arrays(Path(path), MONITOR_FILE, _Header)
        with MONITOR_FILE.parsing(path):
            bits = np.random.PCG64()
            bits.state = json.loads(header.generator)
            found = cls(arrays["calibration"], alpha=header.alpha, rng=np.random.Generator(bits), block=header.block)
            found._scores = arrays["scores"]
            found._martingale.n = header.n_used
            found._martingale.log_products = arrays["log_products"]
            found._martingale.log_stakes = arrays["log_stakes"]
            recent, overall = (Drift(int(row[0]), float(row[1]), float(row[2])) for row in arrays["drift"])
            found.state = MonitorState(
                n=header.n,
                alpha=header.alpha,
                alarm=header.alarm_at is not None,
                alarm_at=header.alarm_at,
                log_martingale=header.log_martingale,
                log_peak=header.log_peak,
                recent=recent,
                overall=overall,
            )
        return found


@dataclass(frozen=True)
class OrderDrift:
    """Whether samples change along the order in which they came; made by `drift_in_order`.

    ``alarm``, ``alarm_at``, ``pvalue``: as in `MonitorState`.
    """

    n: int
    alpha: float
    alarm_at: int | None
    pvalue: float

    @property
    def alarm(self) -> bool:
        """Whether the martingale reached 1/α."""
        return self.alarm_at is not None

    @property
    def note(self) -> str:
        """Say in words what an alarm means; empty without one."""
        if not self.alarm:
            return ""
        return (
            f"the rows change along the order in which they came (seen at row {self.alarm_at} of {self.n}, "
            f"p = {self.pvalue:.1g}): new rows may be unlike all of these, and guarantees hold for rows like these "
            "alone; calibrate on the latest rows (cal_set), and watch the stream (monitor)"
        )


def drift_in_order(
    scores: ArrayLike, *, groups: ArrayLike | None = None, alpha: float = 0.01, rng: np.random.Generator
) -> OrderDrift:
    """Run the martingale of `Monitor` once over samples in the order in which they came.

    Each score is ranked among all earlier ones, with ``groups`` (the labels) among those of its own group: rows sorted
    by class then raise no alarm, rows whose classes change within themselves do. Of several scores a row the mean of
    their martingales counts.
    Guarantee: P(alarm) ≤ α where the samples are exchangeable (within each group), by Ville's inequality; the p-value
    is at most u with probability at most u. So it is with held-out scores of exchangeable samples in random folds.
    scores: (n_samples,) or (n_samples, m) in the order of the rows: columns of the table, or held-out scores, e.g.
    1 − p of the true class; groups: (n_samples,).

    >>> rng = np.random.default_rng(0)
    >>> calm, risen = rng.normal(size=400), rng.normal(size=400) + np.arange(400) / 200
    >>> drift_in_order(calm, rng=rng).alarm, drift_in_order(risen, rng=rng).alarm
    (False, True)
    """
    level = check_fraction(alpha, "alpha")
    columns = np.asarray(scores, dtype=np.float64)
    values = check_scores(columns if columns.ndim == 1 else columns.ravel()).reshape(len(columns), -1)
    members = np.zeros(len(values), dtype=np.intp)
    if groups is not None:
        members = check_labels(groups, int(np.max(np.asarray(groups), initial=0)) + 1, "groups")
    check_same_length(scores=values, groups=members)
    paths = np.empty(values.shape[::-1])
    for path, column in zip(paths, values.T, strict=True):
        pvalues = np.empty(len(values))
        for group in np.unique(members):
            pvalues[members == group] = online_pvalues(np.empty(0), column[members == group], rng)[0]
        path[:] = _bet(Martingale(N_BETS), pvalues)
    path = np.logaddexp.reduce(paths, axis=0) - math.log(len(paths))
    crossed = np.flatnonzero(path >= -math.log(level))
    return OrderDrift(
        n=len(values),
        alpha=level,
        alarm_at=int(crossed[0]) if len(crossed) else None,
        pvalue=math.exp(-max(0.0, float(path.max()))),
    )


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
