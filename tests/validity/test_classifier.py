"""What a new user asks of the classifier, and what it promises in return, on real and hard-to-cover data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.decisions.exact import beta_binomial_range
from volta import VoltaClassifier, decisions
from volta.core.errors import InputError, StoreError

pytestmark = [
    pytest.mark.validity,
    pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning"),
]
QUICK = {"max_epochs": 20}


@pytest.fixture(scope="module")
def cancer():
    rows, labels = load_breast_cancer(return_X_y=True)
    return train_test_split(rows, labels, test_size=0.3, random_state=0, stratify=labels)


CHECKS = [
    (estimator, check)
    for estimator, check in estimator_checks_generator(VoltaClassifier(max_epochs=15))
    if check.func.__name__ != "check_array_api_input"
]


def test_scikit_learn_has_many_checks():
    assert len(CHECKS) >= 53


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[f"{i}-{check.func.__name__}" for i, (_, check) in enumerate(CHECKS)]
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(clone(estimator))


def unbalanced(kind, n_rows, random):
    """Rows of one large class and 50 rare ones, or of 100 classes with Zipf's shares."""
    shares = {"rare": np.array([1000.0, *([5.0] * 50)]), "zipf": 1.0 / np.arange(1, 101)}[kind]
    labels = random.choice(len(shares), n_rows, p=shares / shares.sum())
    centres = np.random.default_rng(0).normal(0.0, 1.5, (len(shares), 8))
    return centres[labels] + random.normal(size=(n_rows, 8)), labels


def rarer_classes_doubled(rows, labels):
    """Fit needs two rows of a class: leave out the classes with one."""
    counts = np.bincount(labels)
    keep = counts[labels] > 1
    return rows[keep], labels[keep]


# slow: coverage is a rate over two dozen fitted classifiers
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rare", "zipf"])
def test_sets_cover_where_classes_are_rare(kind):
    n_draws, n_new, covered, sizes = 24, 200, 0, set()
    for draw in range(n_draws):
        random = np.random.default_rng([draw, len(kind)])
        rows, labels = rarer_classes_doubled(*unbalanced(kind, 1000, random))
        classifier = VoltaClassifier(max_epochs=2, random_state=draw).fit(rows, labels)
        sizes.add(len(classifier.calibration_.labels))
        new, truth = unbalanced(kind, 4 * n_new, random)
        known = np.isin(truth, classifier.classes_)
        new, truth = new[known][:n_new], truth[known][:n_new]
        sets = classifier.predict_set(new, alpha=0.1)
        covered += int(sets[np.arange(n_new), np.searchsorted(classifier.classes_, truth)].sum())
    smallest = min(sizes)
    rank = decisions.conformal_rank(smallest, 0.1).rank
    low, high = beta_binomial_range(n_draws, n_new, rank, smallest + 1 - rank)
    assert low <= covered <= high, covered / (n_draws * n_new)


def test_every_class_is_covered_on_request():
    random = np.random.default_rng(1)
    rows, labels = unbalanced("rare", 3000, random)
    classifier = VoltaClassifier(max_epochs=2).fit(rows, labels)
    with pytest.warns(UserWarning, match="they are in every set"):
        sets = classifier.predict_set(rows[:50], alpha=0.1, conditional="class")
    rare = [k for k in range(51) if (classifier.calibration_.labels == k).sum() < 9]
    assert sets[:, rare].all()
    assert not sets.all()


# Over two seconds: four full fits, as the accuracy is that of the default settings.
@pytest.mark.parametrize(
    ("load", "least"),
    [(load_wine, 0.95), pytest.param(load_breast_cancer, 0.94, marks=pytest.mark.slow)],  # slow: wine shows the same
)
def test_features_may_have_their_own_scales(load, least):
    rows, labels = load(return_X_y=True)
    train, test, y_train, y_test = train_test_split(rows, labels, test_size=0.4, random_state=0, stratify=labels)
    assert VoltaClassifier().fit(train, y_train).score(test, y_test) >= least
    mean, deviation = train.mean(axis=0), train.std(axis=0)

    def score(change):
        # Which rows are held out depends on their values, so they are given here: units alone differ.
        parts = [(change(train[rows]), y_train[rows]) for rows in (slice(60, None), slice(30, 60), slice(30))]
        fitted = VoltaClassifier().fit(*parts[0], eval_set=parts[1], cal_set=parts[2])
        return fitted.score(change(test), y_test)

    raw = score(lambda rows: rows)
    assert score(lambda rows: (rows - mean) / deviation) == pytest.approx(raw, abs=0.02)
    assert score(lambda rows: rows * 1e-7 + 3.0) == pytest.approx(raw, abs=0.02)


def test_other_methods_and_mixed_columns_need_no_scaling_either(cancer):
    train, test, y_train, y_test = cancer
    # Of 228 rows; over twelve such splits the mean is .975, where one fit on nine tenths of the rows has .973.
    assert VoltaClassifier("linear").fit(train, y_train).score(test, y_test) >= 0.94
    random = np.random.default_rng(0)
    labels = random.integers(3, size=3000)
    even = random.normal(size=(3000, 54)) + 0.5 * random.normal(size=(3, 54))[labels]
    mixed = even * 10.0 ** random.uniform(-3.0, 4.0, 54) + 10.0 ** random.uniform(-3.0, 4.0, 54)
    scores = [
        VoltaClassifier(max_epochs=10)
        .fit(
            rows[:2000],
            labels[:2000],
            eval_set=(rows[2000:2250], labels[2000:2250]),
            cal_set=(rows[2250:], labels[2250:]),
        )
        .score(rows[2500:], labels[2500:])
        for rows in (even, mixed)
    ]
    assert scores[0] > 0.9
    assert scores[1] == pytest.approx(scores[0], abs=0.02)


@pytest.mark.parametrize("method", ["volta", "mahalanobis", "knn", "linear", "energy", "hyperbolic", "ensemble"])
def test_rows_far_outside_the_training_rows_are_ood_whatever_the_head_says(cancer, method):
    train, test, y_train, _ = cancer
    classifier = VoltaClassifier(method, **QUICK).fit(train, y_train)
    moved = test + 10 * train.std(axis=0)
    noise = np.random.default_rng(0).uniform(train.min(axis=0), train.max(axis=0), (200, train.shape[1]))
    assert classifier.is_ood(moved).mean() >= 0.99
    assert classifier.is_ood(test * 1000).mean() >= 0.99
    assert classifier.is_ood(noise).mean() >= 0.95
    assert (classifier.decide(moved).to_array()["action"] == "ood").mean() >= 0.99
    for size in (1e30, -1e30, 1e200, 1.7e308):
        extreme = np.full((1, train.shape[1]), size)
        assert np.isfinite(classifier.predict_proba(extreme)).all()
        assert classifier.is_ood(extreme).all()


@pytest.mark.parametrize("n_cal", [10, 50, 200])
def test_rates_asked_for_are_rates_given(n_cal):
    random = np.random.default_rng(n_cal)
    centres = random.normal(0.0, 1.5, (3, 5))

    def draw(n_rows):
        labels = random.integers(3, size=n_rows)
        return centres[labels] + random.normal(size=(n_rows, 5)), labels

    classifier = VoltaClassifier(**QUICK).fit(*draw(300), eval_set=draw(100), cal_set=draw(n_cal))
    n_draws, n_new, abstained, flagged = 200, 50, 0, 0
    for _ in range(n_draws):
        # New calibration rows for the same network: what the rates are over.
        scored = classifier._scored(draw(n_cal + n_new)[0])
        uncertainty, ood = scored.prediction.uncertainty, scored.ood[0]
        policy = decisions.fit_coverage(uncertainty[:n_cal], coverage=0.9)
        abstained += int((~policy.answers(uncertainty[n_cal:])).sum())
        flagged += int(decisions.fit_ood(ood[:n_cal]).flags(ood[n_cal:], fpr=0.01).sum())
    above = n_cal + 1 - decisions.conformal_rank(n_cal, 0.1).rank
    low, high = beta_binomial_range(n_draws, n_new, above, n_cal + 1 - above)
    assert low <= abstained <= high, abstained / (n_draws * n_new)
    few = (n_cal + 1) // 100
    most = stats.betabinom(n_new, few, n_cal + 1 - few).mean() * n_draws if few else 0
    assert flagged <= most + 5 * np.sqrt(most * n_new), flagged / (n_draws * n_new)
    if n_cal == 10:
        with pytest.warns(UserWarning, match=r"10 calibration samples are too few for fpr = 0\.01, which needs 99"):
            assert not classifier.is_ood(draw(50)[0], fpr=0.01).any()


def test_a_policy_keeps_its_promise_or_says_that_it_cannot():
    random = np.random.default_rng(5)
    centres = random.normal(0.0, 1.2, (4, 6))

    def draw(n_rows):
        labels = random.integers(4, size=n_rows)
        return centres[labels] + random.normal(size=(n_rows, 6)), labels

    classifier = VoltaClassifier(**QUICK).fit(*draw(600), cal_set=draw(1000))
    new, truth = draw(10_000)
    wrong = classifier.predict(new) != truth
    assert wrong.mean() > 0.1
    policy = classifier.fit_policy(max_error=0.1, confidence=0.95)
    assert policy.exists
    answered = ~classifier.abstain(new)
    assert wrong[answered].mean() <= 0.1
    assert policy.coverage_low <= answered.mean() <= policy.coverage_high
    classifier = VoltaClassifier(calibration="split", **QUICK).fit(*draw(600))
    with pytest.warns(UserWarning, match="max_error=0.02 needs at least 149 calibration samples; got 60"):
        assert not classifier.fit_policy(max_error=0.02).exists
    assert "got 60" in classifier.policy_.note
    with pytest.warns(UserWarning, match="max_error=0.02 needs at least 149 calibration samples; got 60"):
        assert classifier.abstain(new).all()


def test_wrong_input_is_refused(cancer):
    pandas = pytest.importorskip("pandas")
    train, _, y_train, _ = cancer
    frame = pandas.DataFrame(train, columns=[f"c{index}" for index in range(train.shape[1])])
    classifier = VoltaClassifier(**QUICK).fit(frame, y_train)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        classifier.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame.rename(columns={"c0": "other"}))
    missing = y_train.astype(float)
    missing[7] = np.nan
    with pytest.raises(InputError, match="Input y contains NaN: y row 7 is nan; drop rows without a label"):
        VoltaClassifier().fit(train, missing)
    with pytest.raises(InputError, match="protocol is 'fiar'; pass one of fair, paper"):
        VoltaClassifier(protocol="fiar").fit(train, y_train)
    with pytest.raises(InputError, match="max_epochs is '3'; expected an integer of at least 1"):
        VoltaClassifier(max_epochs="3").fit(train, y_train)
    with pytest.raises(InputError, match=r"y holds one class only \(1\); a classifier needs at least two"):
        VoltaClassifier().fit(train, np.ones(len(train), dtype=int))


def test_aps_gives_adaptive_sets(cancer):
    train, test, y_train, _ = cancer
    classifier = VoltaClassifier("aps", calibration="split", **QUICK).fit(train, y_train)
    probs = classifier.predict_proba(test)
    own = decisions.aps_scores(probs)
    found = classifier.predict_set(test, alpha=0.1)
    threshold = decisions.conformal_threshold(classifier.calibration_.true_scores["aps"], 0.1).value
    assert np.array_equal(found, own <= threshold)
    assert found.any(axis=1).all()
    assert np.array_equal(found, VoltaClassifier.predict_set(classifier, test, 0.1, score="aps"))


def test_one_altered_byte_is_refused(cancer, tmp_path):
    train, test, y_train, _ = cancer
    classifier = VoltaClassifier(**QUICK).fit(train, y_train)
    path = tmp_path / "model.safetensors"
    classifier.save(path)
    whole = path.read_bytes()
    assert np.array_equal(VoltaClassifier.load(path).predict_proba(test), classifier.predict_proba(test))
    for place in np.random.default_rng(0).integers(len(whole), size=60):
        altered = bytearray(whole)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        with pytest.raises(StoreError, match=r"model\.safetensors"):
            VoltaClassifier.load(path)
