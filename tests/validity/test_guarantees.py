"""What `volta.decisions` promises, by resampling: rates within the exact interval of the law they must follow.

Each draw takes new calibration rows and new rows. Where the law is known the check is two-sided; a check fails by chance
with probability 1e-8 a side.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from tests.decisions.exact import beta_binomial_range, binomial_range, poisson_binomial_range
from volta.decisions import (
    Monitor,
    benjamini_hochberg,
    bonferroni,
    conformal_pvalues,
    conformal_rank,
    fit_coverage,
    fit_evidence,
    fit_join,
    fit_ood,
    fit_policy,
    fit_sets,
)
from volta.decisions.monitor import online_pvalues
from volta.decisions.ood_evidence import EVIDENCE_WEIGHTS

pytestmark = [pytest.mark.validity, pytest.mark.slow]

N_CAL = (10, 50, 200, 1000)
PRIORS = {
    "balanced": np.full(10, 0.1),
    "1:100": np.array([100, 1]) / 101,
    "zipf": (1 / np.arange(1, 21)) / np.sum(1 / np.arange(1, 21)),
}
N_DRAWS, N_NEW, ALPHA = 200, 20, 0.1
over_sizes = pytest.mark.parametrize("n", N_CAL)
over_priors = pytest.mark.parametrize("prior", PRIORS)


def classified(labels, prior, rng):
    """Probabilities of a classifier that knows the prior, and that finds rare classes hard."""
    weights = PRIORS[prior]
    logits = rng.normal(size=(len(labels), len(weights))) + np.log(weights)
    logits[np.arange(len(labels)), labels] += 2.0
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def draw(prior, n, rng):
    labels = rng.choice(len(PRIORS[prior]), n, p=PRIORS[prior])
    return classified(labels, prior, rng), labels


@over_sizes
@over_priors
@pytest.mark.parametrize(
    ("score", "randomised", "exact"),
    [("lac", False, True), ("aps", True, True), ("raps", True, True), ("aps", False, False), ("raps", False, False)],
)
def test_sets_cover(prior, n, score, randomised, exact):
    rng = np.random.default_rng([n, len(prior), len(score), randomised])
    covered = 0
    for _ in range(N_DRAWS):
        probs, labels = draw(prior, n + N_NEW, rng)
        draws = rng if randomised else None
        sets = fit_sets(probs[:n], labels[:n], alpha=ALPHA, score=score, rng=draws).predict(probs[n:], rng=draws)
        covered += np.count_nonzero(sets[np.arange(N_NEW), labels[n:]])
    rank = conformal_rank(n, ALPHA).rank
    low, high = beta_binomial_range(N_DRAWS, N_NEW, rank, n + 1 - rank)
    assert covered >= low
    if exact:
        assert covered <= high


@over_sizes
@over_priors
def test_sets_cover_every_class(prior, n):
    rng = np.random.default_rng([n, len(prior)])
    every_class = np.arange(len(PRIORS[prior]))
    covered, expected = np.zeros(len(every_class)), []
    for _ in range(N_DRAWS):
        probs, labels = draw(prior, n, rng)
        predictor = fit_sets(probs, labels, alpha=ALPHA, conditional="class")
        covered += np.diag(predictor.predict(classified(every_class, prior, rng)))
        ranks = [conformal_rank(int(count), ALPHA) if count else None for count in predictor.thresholds.counts]
        expected.append([rank.expected if rank else 1.0 for rank in ranks])
    for k in every_class:
        low, high = poisson_binomial_range(np.array(expected)[:, k])
        assert low <= covered[k] <= high


@over_sizes
@over_priors
@pytest.mark.parametrize("fpr", [0.05, 0.2])
def test_flags_hold_their_false_alarm_rate(prior, n, fpr):
    rng = np.random.default_rng([n, len(prior), int(100 * fpr)])
    flagged = tied = 0
    for _ in range(N_DRAWS):
        scores = 1 - draw(prior, n + N_NEW, rng)[0].max(axis=1)
        flagged += np.count_nonzero(fit_ood(scores[:n]).flags(scores[n:], fpr=fpr))
        coarse = np.round(scores, 1)
        tied += np.count_nonzero(fit_ood(coarse[:n]).flags(coarse[n:], fpr=fpr))
    k = int(np.floor(fpr * (n + 1) + 1e-9))
    low, high = beta_binomial_range(N_DRAWS, N_NEW, k, n + 1 - k)
    assert low <= flagged <= high
    assert tied <= high


@over_sizes
@over_priors
def test_flags_hold_for_every_predicted_label(prior, n):
    rng, fpr, n_classes = np.random.default_rng([n, len(prior)]), 0.2, len(PRIORS[prior])
    flagged, expected = np.zeros(n_classes), [[] for _ in range(n_classes)]
    for _ in range(2 * N_DRAWS):
        probs, _ = draw(prior, n + 1, rng)
        scores, groups = 1 - probs.max(axis=1), probs.argmax(axis=1)
        test = fit_ood(scores[:n], groups=groups[:n], n_groups=n_classes)
        own = groups[n]
        flagged[own] += test.flags(scores[n:], fpr=fpr, groups=groups[n:])[0]
        expected[own].append(test.false_alarm_rate(fpr)[own])
    for label in range(n_classes):
        low, high = poisson_binomial_range(expected[label]) if expected[label] else (0, 0)
        assert low <= flagged[label] <= high


@over_sizes
def test_joined_scores_hold_their_false_alarm_rate(n):
    rng, fpr = np.random.default_rng(n), 0.1
    flagged = cautious = 0
    for _ in range(N_DRAWS):
        first = rng.normal(size=n + N_NEW)
        both = np.column_stack([first, np.exp(first + 2 * rng.normal(size=len(first)))])
        join, joined = fit_join(both[:n], bounded=[False, True])
        flagged += np.count_nonzero(fit_ood(joined).flags(join.score(both[n:]), fpr=fpr))
        pvalues = np.column_stack([conformal_pvalues(column[:n], column[-1:]) for column in both.T])
        cautious += np.count_nonzero(bonferroni(pvalues) <= fpr)
    k = int(np.floor(fpr * (n + 1) + 1e-9))
    assert flagged <= beta_binomial_range(N_DRAWS, N_NEW, k, n + 1 - k)[1]
    # Ranks among the other held-out rows cost about one of n.
    assert flagged >= beta_binomial_range(N_DRAWS, N_NEW, k - 1, n + 2 - k)[0] if k > 1 else flagged > 0
    assert cautious <= binomial_range(N_DRAWS, fpr)[1]


@pytest.mark.parametrize(("n", "n_ood"), [(199, 0), (199, 10), (999, 10), (50, 0), (10, 0)])
def test_false_discoveries(n, n_ood):
    """With (n + 1) fdr / m whole, the FDR of scores without ties is fdr · (share of ID rows) exactly."""
    rng, m, fdr, n_draws = np.random.default_rng(n + n_ood), 20, 0.1, 2000
    false_share, tied_share = np.zeros(n_draws), np.zeros(n_draws)
    for row in range(n_draws):
        cal, new = rng.normal(size=n), rng.normal(size=m)
        new[:n_ood] += 3.0
        for share, digits in ((false_share, 12), (tied_share, 0)):
            flags = benjamini_hochberg(conformal_pvalues(cal.round(digits), new.round(digits)), fdr)
            share[row] = np.count_nonzero(flags[n_ood:]) / max(1, np.count_nonzero(flags))
    promised = fdr * (m - n_ood) / m
    error = stats.norm.isf(1e-8) * np.sqrt(promised * (1 - promised) / n_draws)
    assert false_share.mean() <= promised + error
    assert tied_share.mean() <= promised + error
    if (n + 1) * fdr % m == 0:
        assert false_share.mean() >= promised - error


@cache
def population(kind):
    """Rows drawn from with replacement, so that the error at every threshold is known exactly: (u, correct, R(u))."""
    rng = np.random.default_rng(len(kind))
    u = rng.random(20_000)
    if kind in PRIORS:
        probs, labels = draw(kind, len(u), rng)
        u, wrong = 1 - probs.max(axis=1), probs.argmax(axis=1) != labels
    elif kind == "just too high":
        wrong = rng.random(len(u)) < 0.105
    elif kind == "worst where certain":
        wrong = rng.random(len(u)) < np.where(u < 0.3, 0.16, np.where(u < 0.6, 0.02, 0.25))
    else:
        u = np.floor(8 * u) / 8
        wrong = rng.random(len(u)) < 0.25 * u
    order = np.argsort(u, kind="stable")
    u, wrong = u[order], wrong[order]
    last = np.searchsorted(u, u, side="right")
    return u, ~wrong, np.cumsum(wrong)[last - 1] / last


@over_sizes
@pytest.mark.parametrize("kind", [*PRIORS, "just too high", "worst where certain", "tied"])
@pytest.mark.parametrize("given_reference", [True, False])
def test_error_among_answered_rows(kind, n, given_reference):
    u, correct, risk = population(kind)
    max_error = 0.5 * risk[-1] if kind in PRIORS else 0.1
    rng, confidence = np.random.default_rng([n, len(kind)]), 0.9
    broken = outside = 0
    for _ in range(N_DRAWS):
        rows = rng.integers(0, len(u), n)
        reference = u[rng.integers(0, len(u), 100)] if given_reference else None
        policy = fit_policy(
            u[rows], correct[rows], max_error=max_error, confidence=confidence, reference=reference, rng=rng
        )
        if policy.exists:
            answered = np.searchsorted(u, policy.threshold, side="right")
            broken += risk[answered - 1] > max_error
            outside += not policy.coverage_low <= answered / len(u) <= policy.coverage_high
    _, high = binomial_range(N_DRAWS, 1 - confidence)
    assert broken <= high
    assert outside <= high


@pytest.mark.parametrize("kind", ["balanced", "zipf", "tied"])
def test_policies_are_found_where_they_exist(kind):
    u, correct, risk = population(kind)
    max_error = 0.1 if kind == "tied" else 0.5 * risk[-1]
    best = np.count_nonzero(risk <= max_error) / len(u)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(u), (20, 5000))
    found = [fit_policy(u[part], correct[part], max_error=max_error, rng=rng).coverage for part in rows]
    assert np.mean(found) > 0.8 * best


@over_sizes
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_coverage_target(n, coverage):
    rng = np.random.default_rng(n)
    policies = [fit_coverage(rng.random(n), coverage=coverage) for _ in range(N_DRAWS)]
    answered = sum(np.count_nonzero(policy.answers(rng.random(N_NEW))) for policy in policies)
    rank = conformal_rank(n, 1 - coverage).rank
    low, high = beta_binomial_range(N_DRAWS, N_NEW, rank, n + 1 - rank)
    assert low <= answered <= high
    within = sum(policy.coverage_low <= policy.threshold <= policy.coverage_high for policy in policies)
    low, high = binomial_range(N_DRAWS, 0.95)
    assert low <= within <= high


@over_sizes
@pytest.mark.parametrize("tied", [False, True])
def test_monitor_hardly_ever_alarms_without_a_change(n, tied):
    rng, alpha = np.random.default_rng([n, tied]), 0.1
    alarms = 0
    for _ in range(2 * N_DRAWS):
        scores = rng.normal(size=n + 500)
        scores = scores.round() if tied else scores
        alarms += Monitor(scores[:n], alpha=alpha, rng=rng).update(scores[n:]).alarm
    assert alarms <= binomial_range(2 * N_DRAWS, alpha)[1]


@over_sizes
def test_online_pvalues_are_independent_and_uniform(n):
    rng = np.random.default_rng(n)
    scores = rng.normal(size=(N_DRAWS, n + 100)).round(1)
    streams = np.array([online_pvalues(np.sort(row[:n]), row[n:], rng)[0] for row in scores])
    counts, _ = np.histogram(streams, bins=20, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-8
    # Sums over a stream vary as those of independent uniform numbers do; with shared calibration rows they would more.
    sums = (streams.mean(axis=1) - 0.5) * np.sqrt(12 * streams.shape[1])
    low, high = stats.chi2(N_DRAWS).ppf([1e-8, 1 - 1e-8])
    assert low <= np.sum(sums**2) <= high
    fixed = np.array([conformal_pvalues(row[:n], row[n:], rng=rng) for row in scores])
    if n <= 50:
        assert np.sum(12 * 100 * (fixed.mean(axis=1) - 0.5) ** 2) > high


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "iris", "digits"])
@pytest.mark.parametrize("scaled", [True, False])
def test_evidence_on_real_rows(name, scaled):
    """Far rows are flagged at fpr = 5 %, and new rows of the same kind are not; 20 random splits."""
    from sklearn import datasets

    inputs = getattr(datasets, f"load_{name}")().data
    rng, shares = np.random.default_rng(0), []
    for _ in range(20):
        train, cal, new = np.split(rng.permutation(inputs), [len(inputs) // 2, 3 * len(inputs) // 4])
        noise = rng.uniform(0.0, 16.0, (300, inputs.shape[1]))
        centre, spread = (train.mean(axis=0), train.std(axis=0)) if scaled else (0.0, 1.0)
        spread = np.where(spread > 0, spread, 1.0)
        train, cal, new, noise = ((rows - centre) / spread for rows in (train, cal, new, noise))
        evidence = fit_evidence(train)
        join, joined = fit_join(evidence.scores(cal).round(10), weights=EVIDENCE_WEIGHTS)
        test = fit_ood(joined)
        far = (new, new + 10 * train.std(axis=0), new * 1000, noise)
        shares.append([test.flags(join.score(evidence.scores(rows).round(10))).mean() for rows in far])
    id_rate, shifted, multiplied, uniform = np.mean(shares, axis=0)
    assert 0 < id_rate < 0.07
    assert min(shifted, multiplied) >= 0.99
    if name == "digits":
        assert uniform >= 0.95
