"""Sequential testing: seeds added at interim analyses declared beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from volta.core.errors import InputError
from volta.stats.tests import ALPHA, check_alpha

LOOKS = (5, 10, 20, 40)
"""The numbers of seeds at which the results are looked at."""


@dataclass(frozen=True)
class Question:
    """A claim or a comparison, and what is known of it after a look.

    ``key`` names it; ``verdict`` is empty while it is undecided; ``n_seeds``: after how many seeds it was judged;
    ``methods`` must run further seeds to decide it; ``seeds_needed``: the estimated total number of seeds at which it
    is decided with 80 % probability, None where no number is in sight; ``sentence`` holds the figures.
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
    """What is known after a look at ``n_seeds`` seeds: tests were made at level ``alpha``, ``next_look`` follows.

    ``decided`` keeps each verdict from the look that first gave it; ``open`` is in the order in which it should be run,
    cheapest first. ``cost_s``: estimated seconds of the next look for each open question, where cell times are known.
    """

    n_seeds: int
    alpha: float
    next_analysis: int | None
    decided: tuple[Question, ...]
    open: tuple[Question, ...]
    cost_s: Mapping[str, float]

    @property
    def finished(self) -> bool:
        """Whether nothing is open or no look is left."""
        return not self.open or self.next_analysis is None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that the next look must run."""
        return tuple(dict.fromkeys(name for question in self.open for name in question.methods))


def next_analysis(n_seeds: int, looks: Sequence[int] = LOOKS) -> int | None:
    """Return the number of seeds at the first look after ``n_seeds``, or None where the cap is reached.

    >>> next_look(0), next_look(5), next_look(40)
    (5, 10, None)
    """
    return next((look for look in _checked(looks) if look > n_seeds), None)


def alpha_at(n_seeds: int, looks: Sequence[int] = LOOKS, alpha: float = ALPHA) -> float:
    """Return the level at which tests may be made at the look of ``n_seeds`` seeds.

    The spending function is Pocock's in the form of Lan and DeMets, A(t) = α ln(1 + (e − 1) t) with t = n/n_last, and a
    look's level is what is newly spent, A(t_k) − A(t_{k−1}). The levels sum to α, so by Bonferroni's bound over looks
    the chance of any false verdict at any look is at most α for every test whatever: t-tests of few degrees of freedom,
    intersection-union tests, equivalence, test rows shared by all looks. Boundaries that use the correlation of
    successive looks would be a little wider, but rest on independent normal increments, which shared rows are not.
    Reference: Lan & DeMets, Biometrika 70 (1983).

    >>> [round(alpha_at(n), 4) for n in LOOKS]
    [0.0097, 0.0081, 0.0131, 0.019]
    """
    check_alpha(alpha)
    known = _checked(looks)
    if n_seeds not in known:
        raise InputError(f"n_seeds is {n_seeds}; a look is made at {', '.join(map(str, known))} seeds only")
    before = max((look for look in known if look < n_seeds), default=0)
    return _spent(n_seeds / known[-1], alpha) - _spent(before / known[-1], alpha)


def decide(
    questions: Sequence[Question],
    earlier: InterimAnalysis | None,
    n_seeds: int,
    looks: Sequence[int] = LOOKS,
    alpha: float = ALPHA,
    seconds: Mapping[str, float] | None = None,
) -> InterimAnalysis:
    """Return what is decided after a look and what is open, from questions judged at :func:`alpha_at` this look.

    A verdict once given stays: taking it back, or asking again until it changes, would spend error that was not
    declared. ``seconds``: method → seconds of one more seed, for the order and the cost of what is open.
    """
    level = alpha_at(n_seeds, looks, alpha)
    settled = {question.key: question for question in (earlier.decided if earlier else ())}
    for question in questions:
        if question.key not in settled and question.decided:
            settled[question.key] = replace(question, n_seeds=n_seeds)
    following = next_analysis(n_seeds, looks)
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


def _spent(share: float, alpha: float) -> float:
    return alpha * math.log1p((math.e - 1) * share)


def _checked(looks: Sequence[int]) -> tuple[int, ...]:
    if not looks or list(looks) != sorted(set(looks)) or looks[0] < 2:
        raise InputError(f"looks is {tuple(looks)}; pass growing numbers of seeds, at least 2, for example {LOOKS}")
    return tuple(looks)
