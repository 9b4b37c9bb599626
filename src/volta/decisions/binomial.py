"""Exact binomial tails and beta quantiles with whole-number parameters, in NumPy alone."""

import math

import numpy as np

from volta.core.errors import InputError

_BISECTIONS = 200


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
