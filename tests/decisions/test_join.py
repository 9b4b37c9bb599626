from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import datasets
from sklearn.linear_model import LogisticRegression

from volta.core.errors import InputError
from volta.decisions import Monitor, benjamini_hochberg, fit_cross, fit_evidence, fit_join, fit_ood
from volta.decisions.conformal import binomial_interval
from volta.decisions.ood_evidence import EVIDENCE_WEIGHTS, MODEL_WEIGHT

tables = arrays(np.float64, st.tuples(st.integers(3, 12), st.integers(2, 4)), elements=st.integers(0, 6))


def test_join_by_hand():
    """Weights 1/4 and 3/4, the second score bounded: ranks 2 and 1 with an excess of 3, which the second lacks."""
    join, held_out = fit_join([[0, 1], [1, 2], [4, 3]], weights=[1, 3], bounded=[False, True])
    np.testing.assert_allclose(held_out, [1 / 3, 1 / 2, 1 + 3 / 4])
    np.testing.assert_allclose(join.score([[2, 9], [6, 0]]), [0.25 / 2 + 0.75, 0.25 * 3 + 0.75 / 4])


@given(tables)
def test_held_out_rows_are_joined_by_the_other_rows(table):
    expected = [fit_join(np.delete(table, i, axis=0))[0].score(table[[i]])[0] for i in range(len(table))]
    np.testing.assert_allclose(fit_join(table)[1], expected)


@given(tables, st.lists(st.integers(-1, 7), min_size=4, max_size=4), st.booleans())
def test_p_values_are_at_least_those_of_all_rows_treated_alike(table, values, bounded):
    """With the new row among the reference of all others, ranks are exact; without it p is the same or larger."""
    kinds = [bounded] * table.shape[1]
    new = np.array(values[: table.shape[1]], dtype=float)
    join, held_out = fit_join(table, bounded=kinds)
    alike = fit_join(np.vstack([table, new]), bounded=kinds)[1]
    assert alike[-1] == pytest.approx(join.score([new])[0])
    assert (held_out >= alike[:-1] - 1e-12).all()


@given(tables, st.floats(-1e9, 1e9), st.floats(0, 1e9), st.booleans())
def test_the_joined_score_rises_with_each_score(table, value, more, bounded):
    join, _ = fit_join(table, bounded=[bounded] * table.shape[1])
    rows = np.full((2, table.shape[1]), value)
    rows[1, -1] += more
    low, high = join.score(rows)
    assert low <= high


def test_a_single_score_stays_as_it_is():
    join, held_out = fit_join([[3.0], [1.0], [2.0]], bounded=[True])
    assert held_out.tolist() == [3.0, 1.0, 2.0]
    assert join.score([[7.0]]).tolist() == [7.0]


def own_reference(table):
    """Join rows with themselves among the reference, as new rows are joined."""
    join, _ = fit_join(table)
    return join, join.score(table)


@pytest.mark.parametrize("n", [20, 60])
def test_false_alarms_of_one_held_out_part(n):
    """Five independent scores: joined with the rows themselves among the reference, the rate is beyond what was asked."""
    random, n_draws = np.random.default_rng(n), 1200
    flagged = {fit_join: 0, own_reference: 0}
    for _ in range(n_draws):
        scores = random.exponential(size=(n + 1, 5))
        for fit in flagged:
            join, held_out = fit(scores[:n])
            flagged[fit] += int(fit_ood(held_out).flags(join.score(scores[n:]), fpr=0.05)[0])
    assert binomial_interval(flagged[fit_join], n_draws, 0.999)[0] <= 0.05
    assert flagged[fit_join] > 0
    assert binomial_interval(flagged[own_reference], n_draws, 0.999)[0] > 0.05


WEIGHTS = (*EVIDENCE_WEIGHTS, MODEL_WEIGHT)


def cross_flags(rows, labels, tests, fpr=0.05, n_folds=5):
    """Return cross-conformal flags of each test from evidence and a classifier, and a model's bounded score."""
    fold = np.arange(len(rows)) % n_folds
    scorers = []
    for k in range(n_folds):
        train, own = rows[fold != k], labels[fold != k]
        centre, scale = train.mean(axis=0), np.where(train.std(axis=0) > 0, train.std(axis=0), 1)
        model = LogisticRegression(tol=1e-2).fit((train - centre) / scale, own)
        scorers.append((fit_evidence(train, own), model, centre, scale))

    def scores(scorer, new):
        evidence, model, centre, scale = scorer
        bounded = 1 - model.predict_proba((new - centre) / scale).max(axis=1)
        return np.column_stack([evidence.scores(new), bounded]).round(10)

    held_out = np.empty((len(rows), len(WEIGHTS)))
    for k, scorer in enumerate(scorers):
        held_out[fold == k] = scores(scorer, rows[fold == k])
    join, joined = fit_join(held_out, weights=WEIGHTS, bounded=[False] * 4 + [True])
    test = fit_cross([joined[fold == k] for k in range(n_folds)])
    return [test.flags(np.stack([join.score(scores(s, new)) for s in scorers]), fpr=fpr) for new in tests]


@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_breast_cancer_ten_deviations_out_is_flagged(seed):
    """A bounded score of the model with one odd held-out row must not outweigh thirty columns out of range."""
    inputs, labels = datasets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(inputs))
    fit, new = order[:400], order[400:]
    shifted = inputs[new] + 10 * inputs[fit].std(axis=0)
    far, usual = cross_flags(inputs[fit], labels[fit], (shifted, inputs[new]))
    assert far.all()
    assert usual.mean() < 0.1


def rate_of(name, n, n_draws):
    """Return share and number of new rows that are flagged, over draws."""
    inputs, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    flagged = []
    for draw in range(n_draws):
        order = np.random.default_rng(draw).permutation(len(inputs))
        fit, new = order[:n], order[n : n + 50]
        flagged.append(cross_flags(inputs[fit], labels[fit], (inputs[new],))[0].mean())
    return np.mean(flagged), np.std(flagged) / np.sqrt(n_draws)


def test_false_alarms_of_folds():
    rate, error = rate_of("wine", 60, 12)
    assert 0 < rate <= 0.05 + 2 * error


# slow: a hundred times five fits, the certainty that small tables need
@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("wine", 60), ("wine", 124), ("iris", 60), ("breast_cancer", 100)])
def test_false_alarms_of_folds_over_many_draws(name, n):
    rate, error = rate_of(name, n, 100)
    assert 0.02 < rate <= 0.05
    assert error < 0.006


KINDS_OF_SCORES = {
    "independent": lambda random, n: random.exponential(size=(n, 5)),
    "heavy tails": lambda random, n: np.abs(random.standard_cauchy((n, 5))),
    "dependent": lambda random, n: np.exp(random.normal(size=(n, 1)) + 0.7 * random.normal(size=(n, 5))),
}


# slow: 400 draws for each kind of scores
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_SCORES)
@pytest.mark.parametrize("n", [59, 200])
def test_what_is_not_proven_of_joined_scores(kind, n):
    """Rates given the calibration rows, false discoveries and alarms of a stream, of one held-out part."""
    random, draw, n_draws = np.random.default_rng(n), KINDS_OF_SCORES[kind], 400
    many, above, alarms, discoveries = draw(random, 4000), 0, 0, []
    for _ in range(n_draws):
        join, held_out = fit_join(draw(random, n), weights=WEIGHTS, bounded=[False] * 4 + [True])
        test = fit_ood(held_out)
        above += int(test.flags(join.score(many), fpr=0.05, confidence=0.9).mean() > 0.05)
        batch, moved = draw(random, 30), np.arange(30) < 6
        batch[moved] *= 6
        flags = benjamini_hochberg(test.pvalues(join.score(batch)), 0.25)
        discoveries.append((flags & ~moved).sum() / max(1, flags.sum()))
        alarms += Monitor(held_out, alpha=0.1, rng=random).update(join.score(draw(random, 300))).alarm
    assert binomial_interval(above, n_draws, 0.999)[0] <= 0.1
    assert binomial_interval(alarms, n_draws, 0.999)[0] <= 0.1
    assert np.mean(discoveries) - 3.3 * np.std(discoveries) / np.sqrt(n_draws) <= 0.25 * 24 / 30


KINDS = {
    "Gaussian": lambda random, n: random.normal(size=(n, 5)),
    "heavy tails": lambda random, n: random.standard_cauchy((n, 5)),
    "counts": lambda random, n: random.zipf(1.5, size=(n, 4)).clip(max=1e6).astype(float),
    "ties": lambda random, n: random.choice(3, size=(n, 8), p=[0.7, 0.25, 0.05]).astype(float),
    "one-hot": lambda random, n: np.eye(12)[random.choice(12, size=n, p=[0.4, 0.3, 0.12, *[0.02] * 9])],
    "as many columns as rows": lambda random, n: random.normal(size=(n, 60)),
    "a rare class": lambda random, n: random.normal(size=(n, 5)) + 8 * (random.random((n, 1)) < 0.01),
    "duplicates": lambda random, n: np.random.default_rng(1).normal(size=(40, 4))[random.integers(40, size=n)],
}


# slow: 100 draws of five fits for each kind of rows
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_of_folds_over_kinds_of_rows(kind):
    shares, fold = [], np.arange(60) % 5
    for draw in range(100):
        random = np.random.default_rng(draw)
        rows, new = KINDS[kind](random, 60), KINDS[kind](random, 60)
        fits = [fit_evidence(rows[fold != k]) for k in range(5)]
        held_out = np.empty((60, 4))
        for k, evidence in enumerate(fits):
            held_out[fold == k] = evidence.scores(rows[fold == k]).round(10)
        join, joined = fit_join(held_out, weights=EVIDENCE_WEIGHTS)
        test = fit_cross([joined[fold == k] for k in range(5)])
        shares.append(test.flags(np.stack([join.score(each.scores(new).round(10)) for each in fits]), fpr=0.05).mean())
    assert 0 < np.mean(shares) <= 0.05


def test_rejects_bad_arguments():
    join, _ = fit_join([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(InputError, match=r"scores has shape \(3,\); pass \(n_samples, n_scores\)"):
        fit_join([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="scores row 1 holds NaN"):
        fit_join([[0.0, 1.0], [np.nan, 2.0]])
    with pytest.raises(InputError, match="pass 2 positive weights"):
        fit_join([[0.0, 1.0]], weights=[1.0, 0.0])
    with pytest.raises(InputError, match=r"pass \(n_samples, 2\)"):
        join.score([[1.0]])
