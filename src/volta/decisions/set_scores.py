"""Scores for prediction sets: how badly each class fits a row, from its probabilities."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import check_probs
from volta.core.errors import InputError

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
