"""Each statement of `volta.decisions` over kinds of data and numbers of calibration rows, by resampling.

Rows are drawn with replacement from a population of 5,000, so that each rate is known exactly. A check fails by chance
with probability 1e-4.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.decisions.exact import beta_binomial_range, binomial_range
from tests.decisions.three_classes import N_CLASSES, fit_discriminants, judge, out_of_fold
from volta.decisions import (
    Monitor,
    ShiftWeights,
    conformal_rank,
    drift_in_order,
    fit_group_policies,
    fit_group_sets,
    fit_ood,
    fit_policy,
    fit_sets,
)

pytestmark = [pytest.mark.validity, pytest.mark.slow]

N_ROWS = (60, 150, 400, 2000)
KINDS = ("balanced", "1:100", "zipf", "heavy tails", "ties", "duplicates")
N_DRAWS, N_NEW, ALPHA, CONFIDENCE, TAIL = 200, 20, 0.1, 0.9, 1e-4
over_kinds = pytest.mark.parametrize("kind", KINDS)
over_sizes = pytest.mark.parametrize("n", N_ROWS)


@cache
def population(kind):
    """Return probabilities, labels and a score of 5,000 rows."""
    rng, size = np.random.default_rng(len(kind)), 5000
    shares = {"1:100": np.array([100, 1]), "zipf": 1 / np.arange(1, 21)}.get(kind, np.ones(4))
    shares = shares / shares.sum()
    labels = rng.choice(len(shares), size, p=shares)
    logits = rng.standard_cauchy((size, len(shares))) if kind == "heavy tails" else rng.normal(size=(size, len(shares)))
    logits = logits + np.log(shares)
    logits[np.arange(size), labels] += 2.5
    if kind == "ties":
        logits = logits.round()
    if kind == "duplicates":
        logits[rng.random(size) < 0.2] = [1.0, 0.5, 0.0, 0.0]
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = exponents / exponents.sum(axis=1, keepdims=True)
    return probs, labels, 1 - probs.max(axis=1)


def draws(kind, n):
    rng = np.random.default_rng([n, len(kind)])
    return ((rng, *(rng.integers(0, 5000, size) for size in (n, N_NEW))) for _ in range(N_DRAWS))


@over_kinds
@over_sizes
def test_sets_and_flags(kind, n):
    probs, labels, scores = population(kind)
    covered = flagged = 0
    loose = np.zeros(2)
    for _, rows, new in draws(kind, n):
        sets = fit_sets(probs[rows], labels[rows], alpha=ALPHA).predict(probs[new])
        covered += np.count_nonzero(sets[np.arange(N_NEW), labels[new]])
        test = fit_ood(scores[rows])
        flagged += np.count_nonzero(test.flags(scores[new], fpr=ALPHA))
        sure = fit_sets(probs[rows], labels[rows], alpha=ALPHA, confidence=CONFIDENCE).predict(probs)
        loose[0] += np.mean(~sure[np.arange(5000), labels]) > ALPHA
        loose[1] += test.flags(scores, fpr=ALPHA, confidence=CONFIDENCE).mean() > ALPHA
    rank = conformal_rank(n, ALPHA).rank
    low, _ = beta_binomial_range(N_DRAWS, N_NEW, rank, n + 1 - rank, TAIL)
    assert covered >= low
    assert N_DRAWS * N_NEW - flagged >= low
    assert (loose <= binomial_range(N_DRAWS, 1 - CONFIDENCE, TAIL)[1]).all()


@over_kinds
@over_sizes
def test_sets_within_groups(kind, n):
    """Groups of a fifth and four fifths of the rows, by how uncertain they are."""
    probs, labels, scores = population(kind)
    groups = (scores > np.quantile(scores, 0.8)).astype(int)
    missed, asked = np.zeros(2), np.zeros(2)
    for rng, rows, _ in draws(kind, n):
        found = fit_group_sets(probs[rows], labels[rows], groups[rows], n_groups=2, alpha=ALPHA)
        for group in np.unique(groups):
            new = rng.choice(np.flatnonzero(groups == group), 1)
            missed[group] += not found.predict(probs[new], groups[new])[0, labels[new[0]]]
            asked[group] += 1
    for group in range(2):
        assert missed[group] <= binomial_range(asked[group], ALPHA, TAIL)[1]


def exceeded(policy, scores, wrong, max_error):
    answered = policy.answers(scores)
    return bool(answered.any()) and wrong[answered].mean() > max_error


@over_kinds
@over_sizes
def test_errors_of_answered_rows(kind, n):
    """Without reference rows, with some, with labelled ones, and for each predicted class by itself."""
    probs, labels, scores = population(kind)
    predicted = probs.argmax(axis=1)
    wrong = predicted != labels
    max_error = 0.6 * wrong.mean()
    n_classes = probs.shape[1]
    broken, by_class = np.zeros(3), np.zeros(n_classes)
    for rng, rows, _ in draws(kind, n):
        other = rng.integers(0, 5000, 100)
        settings = {"max_error": max_error, "confidence": CONFIDENCE, "rng": rng}
        references = ({}, {"reference": scores[other]})
        references += ({"reference": scores[other], "reference_correct": ~wrong[other]},)
        for place, reference in enumerate(references):
            policy = fit_policy(scores[rows], ~wrong[rows], **settings, **reference)
            broken[place] += exceeded(policy, scores, wrong, max_error)
        found = fit_group_policies(scores[rows], ~wrong[rows], predicted[rows], n_groups=n_classes, **settings)
        for k, policy in enumerate(found.policies):
            own = predicted == k
            by_class[k] += exceeded(policy, scores[own], wrong[own], max_error)
    high = binomial_range(N_DRAWS, 1 - CONFIDENCE, TAIL)[1]
    assert (broken <= high).all()
    assert (by_class <= high).all()


def draw_features(kind, n, rng):
    """Rows of three classes for linear discriminants, so that folds have models of their own."""
    shares = {"1:100": [100, 1, 1], "zipf": [6, 3, 2]}.get(kind, [1, 1, 1])
    labels = rng.choice(N_CLASSES, n, p=np.array(shares) / np.sum(shares))
    rows = rng.standard_t(3, size=(n, 10)) if kind == "heavy tails" else rng.normal(size=(n, 10))
    rows[np.arange(n), labels] += 2.25
    if kind == "ties":
        rows = rows.round()
    if kind == "duplicates":
        rows[rng.random(n) < 0.2] = 0.5
    return rows, labels


@over_kinds
@over_sizes
def test_errors_of_answered_rows_by_out_of_fold_losses(kind, n):
    """Not proven: five folds find the threshold, one model of all rows answers."""
    rng = np.random.default_rng([n, len(kind)])
    new = draw_features(kind, 20_000, rng)
    wrong = ~judge(fit_discriminants(*draw_features(kind, 20_000, rng)), *new)[1]
    max_error = 0.6 * wrong.mean()
    broken = 0
    for _ in range(N_DRAWS):
        rows, labels = draw_features(kind, n, rng)
        losses = out_of_fold(rows, labels, rng)
        policy = fit_policy(*losses, max_error=max_error, confidence=CONFIDENCE, cross_fitted=True, rng=rng)
        if policy.exists:
            scores, correct = judge(fit_discriminants(rows, labels), *new)
            broken += exceeded(policy, scores, ~correct, max_error)
    assert broken <= binomial_range(N_DRAWS, 1 - CONFIDENCE, TAIL)[1]


@over_kinds
@over_sizes
def test_weighted_flags(kind, n):
    """The batch is drawn with known weights that favour uncertain rows."""
    scores = population(kind)[2]
    weights = np.exp(1.5 * (scores - scores.mean()) / scores.std().clip(1e-3)).clip(0.05, 5.0)
    flagged = 0
    for rng, rows, _ in draws(kind, n):
        new = rng.choice(5000, 1, p=weights / weights.sum())
        shift = ShiftWeights(weights[rows] / weights.mean(), weights[new] / weights.mean())
        if shift.effective_n >= 1 / ALPHA:
            flagged += int(shift.flags(scores[rows], scores[new], fpr=ALPHA)[0])
    assert flagged <= binomial_range(N_DRAWS, ALPHA, TAIL)[1]


@over_kinds
@over_sizes
def test_monitor_and_order(kind, n):
    """Streams of rows repeated five times in succession, watched in blocks of five; and the order of n rows."""
    _, labels, scores = population(kind)
    alarms = np.zeros(2)
    for rng, rows, _ in draws(kind, n):
        stream = scores[rng.integers(0, 5000, 200)].repeat(5)
        alarms[0] += Monitor(scores[rows], alpha=ALPHA, rng=rng, block=5).update(stream).alarm
        alarms[1] += drift_in_order(scores[rows], groups=labels[rows], alpha=ALPHA, rng=rng).alarm
    assert (alarms <= binomial_range(N_DRAWS, ALPHA, TAIL)[1]).all()
