"""The conformal rank: which calibration score bounds a new one, and whether there are enough of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from volta.core.checks import check_count, check_fraction, check_scores
from volta.core.quantile import conformal_quantile, nearest_fraction
from volta.decisions.binomial import beta_quantile


@dataclass(frozen=True)
class ConformalRank:
    """The rank r = ⌈(n + 1)(1 − α)⌉ among ``n`` calibration scores, and what it promises.

    ``enough`` is False where r > n: no calibration score is large enough, the threshold is infinite and the promise is
    kept only because nothing is ruled out. ``smallest_n`` is the least n with a finite threshold at this α.
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
            f"{self.n} calibration rows are too few for alpha = {self.alpha:g}, which needs at least "
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


def float_level(value: float, name: str) -> float:
    """Return `exact_level` as a float: what a share or a p-value is compared with."""
    return _nearest_float(check_fraction(value, name))


@lru_cache(maxsize=256)
def _nearest_float(value: float) -> float:
    return float(nearest_fraction(value))


def smallest_n(alpha: float) -> int:
    """Least number of calibration rows with a finite conformal threshold: ⌈1/α⌉ − 1.

    r = ⌈(n + 1)(1 − α)⌉ ≤ n holds if and only if n + 1 ≥ 1/α.

    >>> smallest_n(0.1), smallest_n(0.01)
    (9, 99)
    """
    level = exact_level(alpha, "alpha")
    return -(-level.denominator // level.numerator) - 1


def first_names(names: Sequence[Any]) -> str:
    """Return the first ten names, and how many more there are.

    >>> first_names(["cat", 3])
    'cat, 3'
    """
    return ", ".join(map(str, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def conformal_rank(n: int, alpha: float) -> ConformalRank:
    """Rank r = ⌈(n + 1)(1 − α)⌉ among n calibration scores, with its promise.

    Guarantee: for exchangeable scores a new one is at most the r-th smallest calibration score with probability at
    least 1 − α, over the draw of calibration and new rows together. Reference: Vovk, Gammerman and Shafer (2005),
    Algorithmic Learning in a Random World; for the Beta law Vovk (2012), Conditional Validity of Inductive Conformal
    Predictors.
    n: number of calibration rows, at least 1; alpha: in (0, 1).

    >>> conformal_rank(19, 0.1).rank
    18
    >>> conformal_rank(5, 0.1).note
    '5 calibration rows are too few for alpha = 0.1, which needs at least 9: the threshold is infinite'
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
