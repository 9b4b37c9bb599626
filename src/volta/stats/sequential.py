"""Sequential testing: seeds added at interim analyses declared beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from volta.core.errors import InputError
from volta.stats.tests import ALPHA, check_alpha

SCHEDULE = (5, 10, 20, 40)
"""The numbers of seeds at the interim analyses."""


@dataclass(frozen=True)
class Question:
    """A claim or a comparison, and its state after an interim analysis.

    ``key``: its name; ``verdict``: empty while it is undecided; ``n_seeds``: seeds at which it was tested;
    ``methods``: those that need more seeds to decide it; ``seeds_needed``: the estimated total number of seeds that
    decides it with 80 % power, None where no number does; ``sentence``: the figures.
    """

    key: str
    methods: tuple[str, ...]
    verdict: str
    n_seeds: int
    seeds_needed: int | None
    sentence: str

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return bool(self.verdict)


@dataclass(frozen=True)
class InterimAnalysis:
    """The result of the interim analysis at ``n_seeds`` seeds, whose tests have level ``alpha``.

    ``decided``: questions with the verdict of the analysis that first decided them; ``open``: the others, cheapest
    first; ``next_analysis``: its number of seeds; ``cost_s``: estimated seconds of the next analysis by open question,
    where cell times are known.
    """

    n_seeds: int
    alpha: float
    next_analysis: int | None
    decided: tuple[Question, ...]
    open: tuple[Question, ...]
    cost_s: Mapping[str, float]

    @property
    def finished(self) -> bool:
        """Whether no question is open or no analysis is left."""
        return not self.open or self.next_analysis is None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that the next analysis must run."""
        return tuple(dict.fromkeys(name for question in self.open for name in question.methods))


def next_analysis(n_seeds: int, schedule: Sequence[int] = SCHEDULE) -> int | None:
    """Return the number of seeds at the first analysis after ``n_seeds``, or None after the last.

    >>> next_analysis(0), next_analysis(5), next_analysis(40)
    (5, 10, None)
    """
    return next((n for n in schedule if n > n_seeds), None)


def analyses_up_to(cap: int, schedule: Sequence[int] = SCHEDULE) -> tuple[int, ...]:
    """Return the analyses below ``cap``, and one at it.

    >>> analyses_up_to(40), analyses_up_to(12)
    ((5, 10, 20, 40), (5, 10, 12))
    """
    if cap < 2:
        raise InputError(f"--cap is {cap}; pass a maximum number of seeds, at least 2")
    return (*(n for n in schedule if n < cap), cap)


def alpha_at(n_seeds: int, schedule: Sequence[int] = SCHEDULE, alpha: float = ALPHA) -> float:
    """Return the level of the tests of the interim analysis at ``n_seeds`` seeds.

    The spending function is Pocock's in the form of Lan and DeMets, A(t) = α ln(1 + (e − 1) t) with t = n/n_last. The
    level of an analysis is the alpha budget it newly uses, A(t_k) − A(t_{k−1}). The levels sum to α, so by Bonferroni's
    bound the chance of any false verdict at any analysis is at most α for every test: t-tests of few degrees of
    freedom, intersection-union tests, equivalence, test rows shared by all analyses. Boundaries that use the
    correlation of successive analyses would be a little wider, but assume independent normal increments.
    Reference: Lan & DeMets, Biometrika 70 (1983).

    >>> [round(alpha_at(n), 4) for n in SCHEDULE]
    [0.0097, 0.0081, 0.0131, 0.019]
    """
    check_alpha(alpha)
    if n_seeds not in schedule:
        raise InputError(f"n_seeds is {n_seeds}; interim analyses are at {', '.join(map(str, schedule))} seeds")
    before = max((n for n in schedule if n < n_seeds), default=0)
    return _alpha_used(n_seeds / schedule[-1], alpha) - _alpha_used(before / schedule[-1], alpha)


def decide(
    questions: Sequence[Question],
    earlier: InterimAnalysis | None,
    n_seeds: int,
    schedule: Sequence[int] = SCHEDULE,
    alpha: float = ALPHA,
    seconds: Mapping[str, float] | None = None,
) -> InterimAnalysis:
    """Return an interim analysis from its questions, tested at the level :func:`alpha_at`.

    A verdict stays once it is given: testing again until it changes would use alpha beyond the budget. ``seconds``:
    method → seconds of one more seed, for the order and cost of open questions.
    """
    level = alpha_at(n_seeds, schedule, alpha)
    settled = {question.key: question for question in (earlier.decided if earlier else ())}
    for question in questions:
        if question.key not in settled and question.decided:
            settled[question.key] = replace(question, n_seeds=n_seeds)
    following = next_analysis(n_seeds, schedule)
    undecided = [question for question in questions if question.key not in settled]
    cost = {}
    if following is not None and seconds is not None:
        cost = {
            question.key: (following - n_seeds) * sum(seconds.get(name, 0.0) for name in question.methods)
            for question in undecided
        }

    def order(question: Question) -> tuple[float, float]:
        return cost.get(question.key, 0.0), math.inf if question.seeds_needed is None else question.seeds_needed

    return InterimAnalysis(
        n_seeds, level, following, tuple(settled.values()), tuple(sorted(undecided, key=order)), cost
    )


def _alpha_used(share: float, alpha: float) -> float:
    return alpha * math.log1p((math.e - 1) * share)
