"""Conformal ranks, thresholds and prediction sets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import (
    as_prob_array,
    check_count,
    check_fraction,
    check_labels,
    check_probs,
    check_same_length,
    check_scores,
    checked_row_chunks,
)
from volta.core.errors import InputError
from volta.core.quantile import conformal_quantile, nearest_fraction

_BISECTIONS = 200
_FEW_ROWS = 64


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """Probability of at most k successes: P(Bin(n, p) ≤ k) = Σ_{j ≤ k} C(n, j) pʲ (1 − p)ⁿ⁻ʲ.

    The tail on the far side of the mean is summed from its largest term, so small probabilities keep their relative
    precision; the other tail is its complement.
    successes: k, below 0 gives 0 and from n on gives 1; trials: n ≥ 0; probability: p in [0, 1].

    >>> round(binomial_cdf(1, 3, 0.5), 12)
    0.5
    """
    if trials < 0:
        raise InputError(f"trials is {trials}; expected a count of at least 0")
    if not 0 <= probability <= 1:
        raise InputError(f"probability is {probability}; expected a number from 0 to 1")
    if successes < 0:
        return 0.0
    if successes >= trials or probability == 0:
        return 1.0
    if probability == 1:
        return 0.0
    if successes <= trials * probability:
        return _lower_tail(successes, trials, probability, 1 - probability)
    return 1 - _lower_tail(trials - successes - 1, trials, 1 - probability, probability)


def _lower_tail(k: int, n: int, p: float, q: float) -> float:
    """Sum the terms k, k − 1, … of Bin(n, p), k below the mean; q = 1 − p.

    Terms fall at least as exp(−j² / 2n) with the distance j from k, so those beyond 20 √n + 100 add nothing in float64.
    """
    log_term = (
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log(q)
    )
    last = max(0, k - int(20 * math.sqrt(n)) - 100)
    j = np.arange(k, last, -1, dtype=np.float64)
    ratios = np.cumprod(j * q / ((n - j + 1) * p))
    return min(1.0, math.exp(log_term) * (1 + float(ratios.sum())))


def beta_quantile(level: float, a: int, b: int) -> float:
    """Quantile of Beta(a, b) for whole a, b ≥ 1: the x with P(Bin(a + b − 1, x) ≥ a) = level, by bisection.

    The identity with the binomial tail is exact: x is the share below the a-th smallest of a + b − 1 uniform numbers.

    >>> round(beta_quantile(0.5, 1, 1), 12)
    0.5
    """
    if not 0 <= level <= 1:
        raise InputError(f"level is {level}; expected a number from 0 to 1")
    if a < 1 or b < 1:
        raise InputError(f"a and b are {a} and {b}; expected whole numbers of at least 1")
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if binomial_cdf(a - 1, a + b - 1, middle) > 1 - level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def binomial_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a share of which ``successes`` of ``trials`` were seen.

    Reference: Clopper and Pearson, Biometrika 26 (1934).

    >>> [round(end, 3) for end in binomial_interval(50, 50)]
    [0.929, 1.0]
    """
    tail = (1 - level) / 2
    low = beta_quantile(tail, successes, trials - successes + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return low, high


@dataclass(frozen=True)
class ConformalRank:
    """The rank r = ⌈(n + 1)(1 − α)⌉ among ``n`` calibration scores, and its guarantee.

    ``enough`` is False where r > n: no calibration score is large enough, the threshold is infinite and the guarantee
    holds only because nothing is ruled out. ``smallest_n`` is the least n with a finite threshold at this α.
    """

    n: int
    alpha: float
    rank: int
    smallest_n: int

    @property
    def enough(self) -> bool:
        """Whether the threshold is a calibration score, and not infinity."""
        return self.rank <= self.n

    @property
    def expected(self) -> float:
        """P(new score ≤ threshold) over calibration and new row together: r / (n + 1), or 1 beyond n.

        Exact for scores without ties; with ties the probability is at least this.
        """
        return self.rank / (self.n + 1) if self.enough else 1.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the range that P(new score ≤ threshold | calibration rows) has with probability ``level``.

        Given the calibration rows that probability is Beta(r, n + 1 − r) distributed for i.i.d. scores without ties;
        with ties it is stochastically larger. The interval has equal tails.
        """
        check_fraction(level, "level")
        if not self.enough:
            return 1.0, 1.0
        tail = (1 - level) / 2
        above = self.n + 1 - self.rank
        return beta_quantile(tail, self.rank, above), beta_quantile(1 - tail, self.rank, above)

    @property
    def note(self) -> str:
        """Say in words whether n is enough; empty where it is."""
        if self.enough:
            return ""
        return (
            f"{self.n} calibration samples are too few for alpha = {self.alpha:g}, which needs at least "
            f"{self.smallest_n}: the threshold is infinite"
        )


@dataclass(frozen=True)
class ConformalThreshold:
    """The threshold's ``value`` and the ``rank`` it stands at."""

    value: float
    rank: ConformalRank


def exact_level(value: float, name: str) -> Fraction:
    """Read a level as the nearest fraction with a denominator up to 10⁹: 0.1 and 1 − 0.9 are both 1/10."""
    return nearest_fraction(check_fraction(value, name))


@lru_cache(maxsize=256)
def float_level(value: float, name: str) -> float:
    """Return `exact_level` as a float: what a share or a p-value is compared with."""
    return float(exact_level(value, name))


@lru_cache(maxsize=256)
def smallest_n(alpha: float) -> int:
    """Least number of calibration rows with a finite conformal threshold: ⌈1/α⌉ − 1.

    r = ⌈(n + 1)(1 − α)⌉ ≤ n holds if and only if n + 1 ≥ 1/α.

    >>> smallest_n(0.1), smallest_n(0.01)
    (9, 99)
    """
    level = exact_level(alpha, "alpha")
    return -(-level.denominator // level.numerator) - 1


def rows_needed(max_error: float, confidence: float = 0.95) -> int:
    """Least number of samples, none of them an error, that proves a rate: ⌈log δ / log(1 − ε)⌉.

    ε = max_error, δ = 1 − confidence: the least m with (1 − ε)ᵐ ≤ δ. Answered calibration samples prove the error of a
    policy; calibration samples below a threshold prove its rate of false alarms or of missed classes.

    >>> rows_needed(0.02, 0.95), rows_needed(0.05, 0.95)
    (149, 59)
    """
    error, delta = exact_level(max_error, "max_error"), 1 - exact_level(confidence, "confidence")
    ratio = math.log(delta) / math.log1p(-error)
    nearest = round(ratio)
    # Equal powers of such fractions are small ones; their logarithms may round to either side.
    if nearest <= _FEW_ROWS and (1 - error) ** nearest == delta:
        return nearest
    return math.ceil(ratio)


@lru_cache(maxsize=1024)
def conditional_level(n: int, alpha: float, confidence: float) -> float:
    """Return the level k/(n + 1) at which a rate is at most ``alpha`` with ``confidence`` over calibration draws.

    Given n calibration scores, the rate P(p ≤ k/(n + 1) | calibration) of a new sample from the same distribution is
    Beta(k, n + 1 − k) distributed without ties, and stochastically smaller with them. k is the largest with
    P(Beta(k, n + 1 − k) > α) = P(Bin(n, α) ≤ k − 1) ≤ 1 − confidence; 0 where n < `rows_needed` (α, confidence), and
    then nothing may be flagged or left out. The mean rate is k/(n + 1), less than α: the price of the confidence.
    Conditions: calibration scores are independent and identically distributed, and made by one model that did not see
    them (split calibration; for cross-fitting no such rank is known).
    Reference: Vovk (2012), Conditional Validity of Inductive Conformal Predictors; Bates et al. (2023), Testing for
    Outliers with Conformal p-values.
    n: number of calibration samples; alpha, confidence: in (0, 1).

    >>> [round(conditional_level(n, 0.05, 0.95), 3) for n in (58, 59, 200, 2000)]
    [0.0, 0.017, 0.025, 0.042]
    """
    level, delta = float_level(alpha, "alpha"), 1 - float_level(confidence, "confidence")
    return (most_errors(n, level, delta) + 1) / (n + 1) if n >= rows_needed(alpha, confidence) else 0.0


def most_errors(n: int, rate: float, delta: float) -> int:
    """Return the most errors among n samples that still prove an error rate below ``rate``, −1 where none does.

    The largest c with P(Bin(n, rate) ≤ c) ≤ delta.

    >>> most_errors(59, 0.05, 0.05), most_errors(58, 0.05, 0.05)
    (0, -1)
    """
    low, high = -1, n  # low holds, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_cdf(middle, n, rate) <= delta else (low, middle)
    return low


def level_of(n: int, alpha: float, confidence: float | None) -> float:
    """Return the level that p-values of n calibration samples are compared with: ``alpha``, or `conditional_level`."""
    return float_level(alpha, "alpha") if confidence is None else conditional_level(n, alpha, confidence)


def calibration_needed(alpha: float, confidence: float | None = None) -> int:
    """Return the least number of calibration samples for a rate: `smallest_n`, or `rows_needed` with a confidence.

    >>> calibration_needed(0.05), calibration_needed(0.05, confidence=0.95)
    (19, 59)
    """
    return smallest_n(alpha) if confidence is None else rows_needed(alpha, confidence)


def first_names(names: Sequence[Any]) -> str:
    """Return the first ten names, and how many more there are.

    >>> first_names(["cat", 3])
    'cat, 3'
    """
    return ", ".join(map(str, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def conformal_rank(n: int, alpha: float) -> ConformalRank:
    """Rank r = ⌈(n + 1)(1 − α)⌉ among n calibration scores, with its guarantee.

    Guarantee: for exchangeable scores a new one is at most the r-th smallest calibration score with probability at
    least 1 − α, over the draw of calibration and new rows together. Reference: Vovk, Gammerman and Shafer (2005),
    Algorithmic Learning in a Random World; for the Beta law Vovk (2012), Conditional Validity of Inductive Conformal
    Predictors.
    n: number of calibration rows, at least 1; alpha: in (0, 1).

    >>> conformal_rank(19, 0.1).rank
    18
    >>> conformal_rank(5, 0.1).note
    '5 calibration samples are too few for alpha = 0.1, which needs at least 9: the threshold is infinite'
    """
    exact = (check_count(n, "n") + 1) * (1 - exact_level(alpha, "alpha"))
    rank = max(1, -(-exact.numerator // exact.denominator))
    return ConformalRank(n=int(n), alpha=float(alpha), rank=rank, smallest_n=smallest_n(alpha))


def conformal_threshold(scores: ArrayLike, alpha: float) -> ConformalThreshold:
    """Return the ⌈(n + 1)(1 − α)⌉-th smallest score, inf beyond n, with its rank.

    scores: (n_samples,) of calibration rows, higher = less conforming. Guarantee and conditions: `conformal_rank`.

    >>> conformal_threshold([0.4, 0.1, 0.3], alpha=0.5).value
    0.3
    """
    values = check_scores(scores)
    return ConformalThreshold(conformal_quantile(values, alpha), conformal_rank(len(values), alpha))


Floats: TypeAlias = NDArray[np.float64]
ScoreName: TypeAlias = Literal["lac", "aps", "raps"]
SCORE_NAMES: tuple[ScoreName, ...] = ("lac", "aps", "raps")


@dataclass(frozen=True)
class SetScore:
    """A score by name, with the two settings of ``raps``: ``penalty`` λ ≥ 0 and ``free_rank`` κ ≥ 0."""

    name: ScoreName
    penalty: float = 0.01
    free_rank: int = 5

    def __post_init__(self) -> None:
        if self.name not in SCORE_NAMES:
            raise InputError(f"score is {self.name!r}; pass one of {', '.join(SCORE_NAMES)}")
        if not 0 <= self.penalty < np.inf or self.free_rank < 0:
            raise InputError(f"penalty is {self.penalty} and free_rank {self.free_rank}; neither may be negative")

    def of(self, probs: NDArray[Any], rng: np.random.Generator | None) -> Floats:
        """Score checked probabilities; ``rng`` asks for the randomised form."""
        rows = probs.astype(np.float64, copy=False)
        if self.name == "lac":
            return 1.0 - rows
        # The randomised form adds to the mass above a class a uniform share of its own, one draw for each row.
        above, n_above = _above(rows)
        scores = above if rng is None else above + rng.random((len(rows), 1)) * rows
        if self.name == "raps":
            scores = scores + self.penalty * np.maximum(0, n_above + 1 - self.free_rank)
        return scores


def lac_scores(probs: ArrayLike) -> Floats:
    """Least ambiguous sets: s(x, k) = 1 − p_k(x).

    Gives the smallest sets on average where the probabilities are right. It has no randomised form: its values tie
    only where probabilities do. Returns (n_samples, n_classes).
    Reference: Sadinle, Lei and Wasserman (2019), Least Ambiguous Set-Valued Classifiers.
    probs: (n_samples, n_classes).

    >>> lac_scores([[0.75, 0.25]])
    array([[0.25, 0.75]])
    """
    return SetScore("lac").of(check_probs(probs), None)


def aps_scores(probs: ArrayLike, *, rng: np.random.Generator | None = None) -> Floats:
    """Adaptive sets: s(x, k) = Σ_{j: p_j > p_k} p_j + U p_k, with U = 0 unless ``rng`` draws U ~ U(0, 1) for each row.

    The mass of the classes likelier than k, so sets grow where a row is ambiguous. Without ``rng`` the likeliest class
    scores 0 and is in every set; with it scores do not tie, and coverage is exact instead of at least 1 − α.
    Returns (n_samples, n_classes). Reference: Romano, Sesia and Candès (2020), Classification with Valid and Adaptive
    Coverage, whose form is the randomised one.
    probs: (n_samples, n_classes).

    >>> aps_scores([[0.5, 0.25, 0.25]])
    array([[0. , 0.5, 0.5]])
    """
    return SetScore("aps").of(check_probs(probs), rng)


def raps_scores(
    probs: ArrayLike, *, penalty: float = 0.01, free_rank: int = 5, rng: np.random.Generator | None = None
) -> Floats:
    """Regularised adaptive sets: the score of `aps_scores` + λ max(0, o_k − κ), o_k = 1 + #{j: p_j > p_k}.

    The penalty λ keeps classes far down the order out of the sets, which makes them smaller where probabilities have a
    long noisy tail; the first κ = ``free_rank`` places are free. Choose λ and κ without the calibration rows.
    Returns (n_samples, n_classes). Reference: Angelopoulos, Bates, Malik and Jordan (2021), Uncertainty Sets for Image
    Classifiers using Conformal Prediction.
    probs: (n_samples, n_classes).

    >>> raps_scores([[0.5, 0.25, 0.25]], penalty=0.5, free_rank=1)
    array([[0., 1., 1.]])
    """
    return SetScore("raps", penalty, free_rank).of(check_probs(probs), rng)


def _above(probs: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return for each row and class the mass and the number of classes strictly likelier; equal ones share both."""
    order = np.argsort(-probs, axis=1, kind="stable")
    falling = np.take_along_axis(probs, order, axis=1)
    mass = np.zeros_like(falling)
    np.cumsum(falling[:, :-1], axis=1, out=mass[:, 1:])
    first_of_tie = np.zeros(falling.shape, dtype=np.intp)
    place = np.arange(1, falling.shape[1])
    first_of_tie[:, 1:] = np.where(falling[:, 1:] < falling[:, :-1], place, 0)
    np.maximum.accumulate(first_of_tie, axis=1, out=first_of_tie)
    above, n_above = np.empty_like(falling), np.empty_like(first_of_tie)
    np.put_along_axis(above, order, np.take_along_axis(mass, first_of_tie, axis=1), axis=1)
    np.put_along_axis(n_above, order, first_of_tie, axis=1)
    return above, n_above


Conditional: TypeAlias = Literal["none", "class"]


@dataclass(frozen=True, eq=False)
class SetThresholds:
    """The largest score at which each class is still in a set.

    ``values`` (n_classes,) thresholds, all equal where ``conditional`` is ``none``; ``counts`` (n_classes,) calibration
    rows behind each. An infinite threshold puts its class into every set.
    """

    alpha: float
    conditional: Conditional
    values: Floats
    counts: NDArray[np.intp]
    confidence: float | None = None

    @cached_property
    def always_included(self) -> tuple[int, ...]:
        """Classes with too few calibration rows for α: they are in every set."""
        return tuple(int(k) for k in np.flatnonzero(self.counts < self.needed))

    @property
    def needed(self) -> int:
        """Calibration samples that a class needs for a finite threshold."""
        return calibration_needed(self.alpha, self.confidence)

    @property
    def note(self) -> str:
        """Say in words which guarantees hold only by including everything; empty where none is."""
        return self.note_of(range(len(self.values)))

    def note_of(self, names: Sequence[Any]) -> str:
        """Return ``note`` with the classes called ``names``, one for each."""
        if not self.always_included:
            return ""
        level = f"alpha = {self.alpha:g}" + ("" if self.confidence is None else f" with confidence {self.confidence:g}")
        if self.conditional == "none":
            return (
                f"{self.counts[0]} calibration samples are too few for {level}, which needs at least {self.needed}: "
                "the threshold is infinite, and every set holds every class"
            )
        few = self.always_included
        return (
            f"classes {first_names([names[k] for k in few])} have fewer than the {self.needed} "
            f"calibration rows that {level} needs: they are in every set"
        )


@dataclass(frozen=True, eq=False)
class SetPredictor:
    """Calibrated prediction sets C(x) = {k : s(x, k) ≤ q_k}; made by `fit_sets`."""

    score: SetScore
    thresholds: SetThresholds
    randomised: bool
    allow_empty: bool

    def predict(self, probs: ArrayLike, *, rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """Return (n_samples, n_classes) membership; ``rng`` is needed if and only if calibration was randomised.

        probs: (n_samples, n_classes) from the same model as in `fit_sets`.
        """
        array = as_prob_array(probs)
        if array.shape[1] != len(self.thresholds.values):
            raise InputError(
                f"probs has {array.shape[1]} classes but calibration had {len(self.thresholds.values)}; "
                "pass probabilities of the same model"
            )
        if self.randomised != (rng is not None):
            raise InputError(
                "rng is missing, and calibration was randomised; pass a numpy Generator"
                if self.randomised
                else "rng is set, but calibration was not randomised; leave it out, or pass rng to fit_sets too"
            )
        sets = np.empty(array.shape, dtype=np.bool_)
        for rows, chunk in checked_row_chunks(array):
            sets[rows] = self.unchecked_sets(chunk, rng)
        return sets

    def unchecked_sets(self, probs: NDArray[Any], rng: np.random.Generator | None = None) -> NDArray[np.bool_]:
        """Return ``predict`` of probabilities that are known to be some, which are not looked at again."""
        sets = self.score.of(probs, rng) <= self.thresholds.values
        if not self.allow_empty:
            empty = np.flatnonzero(~sets.any(axis=1))
            sets[empty, probs[empty].argmax(axis=1)] = True
        return np.asarray(sets)


def fit_thresholds(
    true_scores: ArrayLike,
    labels: ArrayLike,
    n_classes: int,
    *,
    alpha: float = 0.1,
    conditional: Conditional = "none",
    confidence: float | None = None,
) -> SetThresholds:
    """Calibrate any score: q_k is the ⌈(n_k + 1)(1 − α)⌉-th smallest score of its calibration rows, inf beyond n_k.

    With ``conditional="none"`` all n rows give one q; with ``"class"`` the n_k rows of class k give q_k.
    Guarantee: sets {k : s(x, k) ≤ q_k} hold the true class with probability ≥ 1 − α over calibration and new rows
    together; with ``"class"`` also given that the true class is k, for each k. Condition: calibration and new rows are
    exchangeable (within a class), and the score was made without the calibration rows.
    With ``confidence`` the guarantee is one of these calibration rows: with that probability over calibration draws,
    P(y ∉ set | calibration rows) ≤ α, for each class by itself with ``"class"``; see `conditional_level`.
    Reference: Vovk (2012), Conditional Validity of Inductive Conformal Predictors.
    true_scores: (n_samples,) score of each calibration row's own class; labels: (n_samples,); n_classes: K.

    >>> fit_thresholds([0.1, 0.2, 0.9], [0, 0, 1], 2, alpha=0.5, conditional="class").values
    array([0.2, 0.9])
    """
    scores = check_scores(true_scores, "true_scores")
    classes = check_labels(labels, check_count(n_classes, "n_classes"))
    check_same_length(true_scores=scores, labels=classes)
    exact_level(alpha, "alpha")
    if conditional not in ("none", "class"):
        raise InputError(f"conditional is {conditional!r}; pass none or class")
    if conditional == "none":
        values = np.full(n_classes, _threshold(scores, alpha, confidence))
        return SetThresholds(float(alpha), conditional, values, np.full(n_classes, len(scores)), confidence)
    counts = np.bincount(classes, minlength=n_classes)
    by_class = np.split(scores[np.argsort(classes, kind="stable")], np.cumsum(counts)[:-1])
    values = np.array([_threshold(own, alpha, confidence) for own in by_class])
    return SetThresholds(float(alpha), conditional, values, counts, confidence)


def _threshold(scores: Floats, alpha: float, confidence: float | None) -> float:
    """Return the largest score with a p-value above the level: the (n + 1 − k)-th smallest, inf where k is 0."""
    level = level_of(len(scores), alpha, confidence)
    return conformal_quantile(scores, level) if len(scores) and level > 0 else math.inf


def fit_sets(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: float = 0.1,
    score: ScoreName | SetScore = "lac",
    conditional: Conditional = "none",
    confidence: float | None = None,
    allow_empty: bool = True,
    rng: np.random.Generator | None = None,
) -> SetPredictor:
    """Calibrate prediction sets on rows that neither trained nor tuned the model.

    C(x) = {k : s(x, k) ≤ q_k}, s by ``score`` (see `lac_scores`, `aps_scores`, `raps_scores`), q as in
    `fit_thresholds`. Guarantee: P(y ∈ C(x)) ≥ 1 − α over calibration and new rows together, for exchangeable rows; with
    ``conditional="class"`` P(y ∈ C(x) | y = k) ≥ 1 − α for every class k. For scores without ties P(y ∈ C(x)) is
    ⌈(n + 1)(1 − α)⌉ / (n + 1) exactly. A class with too few calibration rows gets an infinite threshold and is always
    included; ``thresholds.note`` says so. ``confidence``: see `fit_thresholds`.

    A set may be empty: no class fits the row as well as calibration rows fit theirs. ``allow_empty=False`` puts the
    likeliest class into such sets, which can only raise the coverage above the guarantee. ``rng`` asks for the
    randomised form of aps and raps, here and in ``predict``; pass independent draws.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    >>> fit_sets(probs, [0, 0, 1, 1], alpha=0.4).predict([[0.75, 0.25], [0.55, 0.45]])
    array([[ True, False],
           [False, False]])
    """
    chosen = score if isinstance(score, SetScore) else SetScore(score)
    if rng is not None and chosen.name == "lac":
        raise InputError("rng is set, but score lac has no randomised form; leave it out, or pass score aps or raps")
    array = as_prob_array(probs)
    classes = check_labels(labels, array.shape[1])
    check_same_length(probs=array, labels=classes)
    own = np.empty(len(classes))
    for rows, chunk in checked_row_chunks(array):
        own[rows] = np.take_along_axis(chosen.of(chunk, rng), classes[rows, None], axis=1)[:, 0]
    thresholds = fit_thresholds(
        own, classes, array.shape[1], alpha=alpha, conditional=conditional, confidence=confidence
    )
    return SetPredictor(chosen, thresholds, randomised=rng is not None, allow_empty=allow_empty)


@dataclass(frozen=True, eq=False)
class GroupSets:
    """Sets calibrated within each group, of groups 0 … G − 1; made by `fit_group_sets`."""

    predictors: tuple[SetPredictor, ...]

    def predict(self, probs: ArrayLike, groups: ArrayLike) -> NDArray[np.bool_]:
        """Return (n_samples, n_classes) membership by the thresholds of each sample's group; groups: (n_samples,)."""
        array = as_prob_array(probs)
        members = check_labels(groups, len(self.predictors), "groups")
        check_same_length(probs=array, groups=members)
        sets = np.empty(array.shape, dtype=np.bool_)
        for group in np.unique(members):
            rows = members == group
            sets[rows] = self.predictors[group].predict(array[rows])
        return sets

    def note(self, names: Sequence[Any] | None = None) -> str:
        """Say in words which groups have too few calibration samples; empty where none has."""
        few = [group for group, each in enumerate(self.predictors) if each.thresholds.always_included]
        if not few:
            return ""
        called = first_names(few if names is None else [names[group] for group in few])
        return f"groups {called} have sets that hold classes always: {self.predictors[few[0]].thresholds.note}"


def fit_group_sets(
    probs: ArrayLike,
    labels: ArrayLike,
    groups: ArrayLike,
    *,
    n_groups: int,
    alpha: float = 0.1,
    score: ScoreName = "lac",
    conditional: Conditional = "none",
    confidence: float | None = None,
) -> GroupSets:
    """Calibrate prediction sets within each group, so that they cover in each (Mondrian form).

    Guarantee: P(y ∈ C(x) | group g) ≥ 1 − α for each group g, by `fit_sets` on the rows of g: given which rows are of g
    these are exchangeable with a new one of g. ``confidence`` and ``conditional`` as there, within each group. A group
    with too few rows has sets that hold every class; ``note`` says so.
    Reference: Vovk, Gammerman and Shafer (2005), Algorithmic Learning in a Random World.
    groups: (n_samples,) numbers below ``n_groups``, of anything known of a new sample too: not its true class.

    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    >>> found = fit_group_sets(probs, [0, 0, 1, 1], [0, 0, 1, 1], n_groups=2, alpha=0.4)
    >>> found.predict([[0.7, 0.3], [0.7, 0.3]], [0, 1])
    array([[False, False],
           [ True, False]])
    """
    array = as_prob_array(probs)
    classes = check_labels(labels, array.shape[1])
    members = check_labels(groups, check_count(n_groups, "n_groups"), "groups")
    check_same_length(probs=array, labels=classes, groups=members)
    infinite = np.full(array.shape[1], math.inf)
    none = SetThresholds(alpha, conditional, infinite, np.zeros(array.shape[1], dtype=np.intp), confidence)
    predictors = []
    for group in range(n_groups):
        own = members == group
        if own.any():
            found = fit_sets(
                array[own], classes[own], alpha=alpha, score=score, conditional=conditional, confidence=confidence
            )
        else:
            found = SetPredictor(SetScore(score), none, randomised=False, allow_empty=True)
        predictors.append(found)
    return GroupSets(tuple(predictors))
