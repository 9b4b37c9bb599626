"""How verdicts are reached: one-sided tests, joined by «all of them» or «one of them», each way with its level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from volta.stats import MARGINS, PairTest
from volta.stats.estimate import seeds_to_show


@dataclass(frozen=True)
class Step:
    """A one-sided test: that the gain of ``test`` lies above ``bound``, or below it where ``above`` is False."""

    test: PairTest
    bound: float
    above: bool

    @property
    def p(self) -> float:
        """The p-value; 1 where there is no test."""
        gain = self.test.gain
        if gain is None:
            return 1.0
        return gain.p_above(self.bound) if self.above else gain.p_below(self.bound)

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show it, None where the gain lies on the other side or no number would do."""
        gain = self.test.gain
        if gain is None or gain.constant or (gain.value > self.bound) != self.above:
            return None
        needed = seeds_to_show(gain, self.bound, alpha)
        return None if needed is None else max(self.test.n, needed)


@dataclass(frozen=True)
class All:
    """Every step must be shown: an intersection-union test, which needs no correction.

    Reference: Berger, Technometrics 24 (1982).
    """

    steps: tuple[Step, ...]
    share: float = 1.0

    def shown(self, alpha: float) -> bool:
        """Whether every step is shown at its share of ``alpha``."""
        return bool(self.steps) and all(step.p < self.share * alpha for step in self.steps)

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show all."""
        needed = [step.seeds(self.share * alpha) for step in self.steps]
        return None if not needed or None in needed else max(n for n in needed if n is not None)


@dataclass(frozen=True)
class Any:
    """One of the steps must be shown, which is paid for by Bonferroni's bound over the ``n_tests`` there were."""

    steps: tuple[Step, ...]
    share: float = 1.0
    n_tests: int | None = None

    def level(self, alpha: float) -> float:
        """Return the level each step is tested at."""
        return self.share * alpha / max(1, self.n_tests or len(self.steps))

    def found(self, alpha: float) -> list[Step]:
        """Return the steps that are shown."""
        return [step for step in self.steps if step.p < self.level(alpha)]

    def shown(self, alpha: float) -> bool:
        """Whether a step is shown."""
        return bool(self.found(alpha))

    def seeds(self, alpha: float) -> int | None:
        """Return how many seeds would show one."""
        needed = [n for step in self.steps if (n := step.seeds(self.level(alpha))) is not None]
        return min(needed, default=None)


def above(tests: Iterable[PairTest], margins: float) -> tuple[Step, ...]:
    """Return a step a test: its gain lies above ``margins`` times its metric's margin."""
    return tuple(Step(test, margins * MARGINS[test.metric], True) for test in tests)


def below(tests: Iterable[PairTest], margins: float) -> tuple[Step, ...]:
    """Return a step a test: its gain lies below ``margins`` times its metric's margin."""
    return tuple(Step(test, margins * MARGINS[test.metric], False) for test in tests)


def fewest_seeds(*routes: Sequence[All | Any], alpha: float) -> int | None:
    """Return the number of seeds at which the nearest route is complete; a route needs all of its parts."""
    totals = []
    for route in routes:
        needed = [part.seeds(alpha) for part in route]
        if needed and None not in needed:
            totals.append(max(n for n in needed if n is not None))
    return min(totals, default=None)
