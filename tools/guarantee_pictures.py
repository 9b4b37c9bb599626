"""The pictures and tables of docs/guarantees.md: ``python tools/guarantee_pictures.py`` writes the tables.

Everything is simulated or computed by `volta.decisions`; a test compares the page with what comes out here. The page
draws its pictures when it is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from volta.decisions import (
    AdaptiveLevel,
    GuaranteeWatch,
    calibration_needed,
    conditional_level,
    conformal_rank,
    fit_ood,
    fit_policy,
    fit_thresholds,
    shift_weights,
)
from volta.decisions.conformal import most_errors

Floats = NDArray[np.float64]
Samples = tuple[Floats, NDArray[np.int64]]
DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "guarantees.md"
SIZES = (40, 200, 2000)
ALPHA, CONFIDENCE = 0.1, 0.95
N_DRAWS, N_FAILING, N_CAL, N_NEW = 2000, 200, 400, 400


def realised(n: int, confidence: float | None = None) -> Floats:
    """Return the coverage that each of many users gets who asks for 90 % and has n calibration samples."""
    rng = np.random.default_rng(n)
    none = np.zeros(n, dtype=np.intp)
    found = (
        fit_thresholds(rng.random(n), none, 1, alpha=ALPHA, confidence=confidence).values[0] for _ in range(N_DRAWS)
    )
    return np.minimum(np.fromiter(found, dtype=np.float64), 1.0)


def coverage_table() -> str:
    """Return mean coverage and what 5 % of users get less than, at each n."""
    lines = ["| calibration samples | 90 % asked: mean, 5 % of users get less than | the same with `confidence=0.95` |"]
    lines.append("|---|---|---|")
    for n in SIZES:
        cells = []
        for confidence in (None, CONFIDENCE):
            found = realised(n, confidence)
            cells.append(f"{found.mean():.3f}, {np.quantile(found, 0.05):.3f}")
        lines.append(f"| {n:,} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _covered(own: Floats, new: Floats) -> float:
    return float(np.mean(~fit_ood(own).flags(new, fpr=ALPHA)))


def exchangeable(rng: np.random.Generator) -> tuple[float, float]:
    """Return the coverage of samples that are drawn alike, twice."""
    found = _covered(rng.normal(size=N_CAL), rng.normal(size=N_NEW))
    return found, found


def in_time(rng: np.random.Generator) -> tuple[float, float]:
    """Return coverage where scores rise by one standard deviation while 400 samples come: plain, adaptive level."""
    scores = rng.normal(size=N_CAL + N_NEW) + np.arange(N_CAL + N_NEW) / N_CAL
    pvalues = fit_ood(scores[:N_CAL]).pvalues(scores[N_CAL:])
    level = AdaptiveLevel(ALPHA, step=0.02)
    for pvalue in pvalues.tolist():
        level.update([pvalue > level.level])
    return float(np.mean(pvalues > ALPHA)), 1 - level.n_missed / level.n


def in_a_group(rng: np.random.Generator) -> tuple[float, float]:
    """Return coverage within a group of a tenth of the samples that is harder: plain, calibrated within groups."""
    groups = (rng.random(N_CAL) < 0.1).astype(int)
    own, new = rng.normal(1.5 * groups), rng.normal(1.5, size=N_NEW)
    within = fit_ood(own, groups=groups, n_groups=2).flags(new, fpr=ALPHA, groups=np.ones(N_NEW, dtype=int))
    return _covered(own, new), float(np.mean(~within))


def under_shift(rng: np.random.Generator) -> tuple[float, float]:
    """Return coverage of a batch whose feature is one standard deviation larger: plain, weighted."""
    own, new = rng.normal(size=(N_CAL, 1)), rng.normal(1.0, size=(N_NEW, 1))
    before, after = (rows[:, 0] + rng.normal(size=len(rows)) for rows in (own, new))
    weighted = shift_weights(own, new, n_folds=2, rng=rng).flags(before, after, fpr=ALPHA)
    return _covered(before, after), float(np.mean(~weighted))


def of_patients(rng: np.random.Generator) -> tuple[float, float]:
    """Return coverage of new patients, of 40 samples each, that resemble one another: plain, one sample a patient."""

    def draw(n_patients: int) -> Floats:
        patients: Floats = rng.normal(size=(n_patients, 1))
        return patients + 0.3 * rng.normal(size=(n_patients, 40))

    own, new, single = draw(N_CAL // 40), draw(100)[:, 0], draw(N_CAL)[:, 0]
    return _covered(own.ravel(), new), _covered(single, new)


FAILURES: dict[str, tuple[Callable[[np.random.Generator], tuple[float, float]], str]] = {
    "none: drawn alike": (exchangeable, "none"),
    "time: scores rise by 1 sd while 400 come": (in_time, "labels that come later (`AdaptiveLevel`)"),
    "a harder group, a tenth of the samples": (in_a_group, "calibration within groups (`groups=`)"),
    "a batch whose feature is 1 sd larger": (under_shift, "weights (`shift_weights`)"),
    "10 patients with 40 samples each; new patients": (of_patients, "one sample of each of 400 patients"),
}


def failures() -> dict[str, Floats]:
    """Return (n_draws, 2) coverages of each way to fail, without and with what helps."""
    return {
        name: np.array([draw(np.random.default_rng([place, seed])) for seed in range(N_FAILING)])
        for place, (name, (draw, _)) in enumerate(FAILURES.items())
    }


def failure_table(found: dict[str, Floats]) -> str:
    """Return mean coverage and what 5 % of users get less than."""
    lines = ["| what fails | 90 % asked: mean, 5 % of users get less than | what helps | mean, 5 % get less than |"]
    lines.append("|---|---|---|---|")
    for name, values in found.items():
        plain, helped = (f"{column.mean():.2f}, {np.quantile(column, 0.05):.2f}" for column in values.T)
        remedy = FAILURES[name][1]
        lines.append(f"| {name} | {plain} | {remedy} | {'' if remedy == 'none' else helped} |")
    return "\n".join(lines)


def _answers_needed(max_error: float) -> int:
    """Return the fewest answers of which 1 % are wrong that prove ``max_error``."""
    n = 100
    while most_errors(n, max_error, 1 - CONFIDENCE) < n // 100:
        n += 100
    return n


def _right_answers(max_error: float) -> int:
    state = GuaranteeWatch(max_error).update(np.ones(100_000, dtype=bool))
    return (state.decided_at or 0) + 1


def size_table() -> str:
    """Return how many samples each guarantee takes, at three levels."""
    levels = (0.1, 0.05, 0.02)
    statements: list[tuple[str, Callable[[float], object]]] = [
        ("sets miss, flags err at most α, on average over users: calibration samples", calibration_needed),
        ("the same for each class or group: calibration samples of each", calibration_needed),
        ("the same for 95 % of users (`confidence=0.95`)", lambda level: calibration_needed(level, CONFIDENCE)),
        ("… and the rate that is left of α with 200 and with 2,000", _rates_left),
        ("answered samples err at most α, for 95 % of users: answered, none wrong", _proof),
        ("… answered, of which 1 % are wrong", _answers_needed),
        (
            "flags of a batch of 100 err at most α (`fdr=`), a single OOD sample among them",
            lambda a: round(100 / a) - 1,
        ),
        ("batch under covariate shift: effective sample size", lambda level: round(1 / level)),
        ('"still holds" from labels: right answers in a row (`GuaranteeWatch`)', _right_answers),
    ]
    lines = ["| what is guaranteed | α = 10 % | α = 5 % | α = 2 % |", "|---|---|---|---|"]
    lines += [f"| {name} | " + " | ".join(str(count(level)) for level in levels) + " |" for name, count in statements]
    return "\n".join(lines)


def _proof(max_error: float) -> int:
    return calibration_needed(max_error, CONFIDENCE)


def _rates_left(level: float) -> str:
    return ", ".join(f"{100 * conditional_level(n, level, CONFIDENCE):.1f} %" for n in (200, 2000))


def _draw_classes(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return samples of three classes, a tenth of which linear discriminants get wrong."""
    labels = rng.integers(3, size=n)
    rows = rng.normal(size=(n, 10))
    rows[np.arange(n), labels] += 2.25
    return rows, labels


def _losses(train: Samples, new: Samples) -> tuple[Floats, NDArray[np.bool_]]:
    """Return 1 − max p of new samples and whether they are right, by discriminants of the training samples."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    probs = LinearDiscriminantAnalysis(solver="lsqr").fit(*train).predict_proba(new[0])
    return 1 - probs.max(axis=1), probs.argmax(axis=1) == new[1]


def _out_of_fold(rows: Floats, labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    folds = rng.permutation(len(rows)) % 5
    uncertainty, correct = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
    for fold in range(5):
        own = folds == fold
        uncertainty[own], correct[own] = _losses((rows[~own], labels[~own]), (rows[own], labels[own]))
    return uncertainty, correct


def policy_table() -> str:
    """Return how often a policy with error ≤ 5 % at 90 % confidence exists, is violated, and what it answers."""
    lines = [
        "| samples | form | a policy exists | error above 5 % | answered | an oracle answers |",
        "|---|---|---|---|---|---|",
    ]
    for n in (150, 400, 2000):
        rng = np.random.default_rng(n)
        new = _draw_classes(rng, 100_000)
        seen, best = np.zeros((2, 3)), 0.0
        for _ in range(N_FAILING):
            rows, labels = _draw_classes(rng, n)
            some, rest = slice(0, 6 * n // 10), slice(6 * n // 10, n)
            known = _out_of_fold(rows[some], labels[some], rng)
            settings: dict[str, Any] = {"max_error": 0.05, "confidence": 0.9, "rng": rng}
            split = fit_policy(
                *_losses((rows[some], labels[some]), (rows[rest], labels[rest])),
                reference=known[0],
                reference_correct=known[1],
                **settings,
            )
            cross = fit_policy(*_out_of_fold(rows, labels, rng), cross_fitted=True, **settings)
            for place, (policy, own) in enumerate([(split, some), (cross, slice(0, n))]):
                uncertainty, correct = _losses((rows[own], labels[own]), new)
                answered = policy.answers(uncertainty)
                violated = bool(answered.any()) and np.mean(~correct[answered]) > 0.05
                seen[place] += np.array([policy.exists, violated, answered.mean()]) / N_FAILING
            wrong = np.cumsum(~correct[np.argsort(uncertainty)]) / np.arange(1, len(correct) + 1)
            best += (np.flatnonzero(wrong <= 0.05)[-1] + 1) / len(correct) / N_FAILING
        for name, (exists, broken, share) in zip(("split 60/40", "five folds"), seen, strict=True):
            lines.append(f"| {n:,} | {name} | {exists:.0%} | {broken:.0%} | {share:.0%} | {best:.0%} |")
    return "\n".join(lines)


def draw_coverage() -> None:
    """Draw the histograms of realised coverage with the law they follow."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, len(SIZES), figsize=(8, 2.8), sharex=True)
    for axis, n in zip(axes, SIZES, strict=True):
        rank = conformal_rank(n, ALPHA).rank
        place = np.linspace(0.7, 1, 400)
        bins = np.linspace(0.7, 1, 61)
        axis.hist(realised(n), bins=bins, density=True, color="#9ecae1", label="on average")
        axis.hist(
            realised(n, CONFIDENCE), bins=bins, density=True, histtype="step", color="#d94801", label="confidence 0.95"
        )
        axis.plot(
            place, stats.beta(rank, n + 1 - rank).pdf(place), color="#08519c", label=f"Beta({rank}, {n + 1 - rank})"
        )
        axis.axvline(1 - ALPHA, color="0.4", linestyle=":")
        axis.set(title=f"{n:,} calibration samples", xlabel="coverage that a user gets", yticks=[])
        axis.legend(fontsize=7, loc="upper left")


def draw_failures(found: dict[str, Floats]) -> None:
    """Draw the coverage of all users, without and with what helps."""
    import matplotlib.pyplot as plt

    _, axis = plt.subplots(figsize=(7, 3.2))
    places = np.arange(len(found))[::-1]
    for column, (shift, colour, label) in enumerate(
        [(0.17, "#d94801", "as it is"), (-0.17, "#3182bd", "with what helps")]
    ):
        values = [each[:, column] for each in found.values()]
        shown = [place for place in range(len(values)) if column == 0 or FAILURES[[*found][place]][1] != "none"]
        boxes = axis.boxplot(
            [values[place] for place in shown],
            positions=places[shown] + shift,
            widths=0.28,
            whis=(5, 95),
            showfliers=False,
            orientation="horizontal",
            patch_artist=True,
        )
        for box in boxes["boxes"]:
            box.set_facecolor(colour)
        axis.plot([], [], color=colour, linewidth=6, label=label)
    axis.axvline(1 - ALPHA, color="0.4", linestyle=":")
    axis.set_yticks(places, list(found))
    axis.set(xlabel="coverage over users: middle half, and 5 % to 95 %", xlim=(0.3, 1.0))
    axis.legend(loc="lower left")


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with the table between its two marks replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{table}\n{found[2]}", page, flags=re.DOTALL)


def main() -> None:
    """Write the page's tables."""
    page = PAGE.read_text(encoding="utf-8")
    tables = {"coverage": coverage_table(), "failures": failure_table(failures()), "sizes": size_table()}
    for name, table in {**tables, "policies": policy_table()}.items():
        page = with_table(page, name, table)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
