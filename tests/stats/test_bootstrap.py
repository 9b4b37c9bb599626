import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.stats.builders import interval_of
from volta import metrics
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.stats.bootstrap import draw_counts, hierarchical_interval, paired_bootstrap, shared_row_variance
from volta.stats.weighted import PairCounter, RiskCounter, Scratch, WeightedScorer, accumulate_rows, row_scores

from .builders import predictions


def _model(arrays):
    return row_scores(
        arrays["test/probs"],
        arrays["test/labels"],
        arrays["test/ood_score"],
        {"ood:near": arrays["ood:near/ood_score"]},
        arrays["test/uncertainty"],
    )


@pytest.fixture
def arrays():
    labels = np.random.default_rng(7).integers(0, 4, 120)
    generator = np.random.default_rng(8)
    return {
        ("volta", 0): predictions(generator, labels, 2.0),
        ("volta", 1): predictions(generator, labels, 2.2),
        ("energy", 0): predictions(generator, labels, 1.0),
    }


@pytest.fixture
def models(arrays):
    return {
        "volta": [_model(arrays["volta", 0]), _model(arrays["volta", 1])],
        "energy": [_model(arrays["energy", 0])],
    }


def _direct(arrays, rows, ood_rows):
    probs, labels = arrays["test/probs"][rows], arrays["test/labels"][rows]
    return {
        ("accuracy", "test"): metrics.accuracy(probs, labels),
        ("ece", "test"): metrics.ece(probs, labels),
        ("brier", "test"): metrics.brier(probs, labels),
        ("nll", "test"): metrics.nll(probs, labels),
        ("aurc", "test"): metrics.aurc(arrays["test/uncertainty"][rows], probs.argmax(axis=1) == labels),
        ("auroc", "ood:near"): metrics.auroc(arrays["test/ood_score"][rows], arrays["ood:near/ood_score"][ood_rows]),
    }


def test_observed_values_are_the_metrics_themselves(arrays, models):
    found = paired_bootstrap(models, 3).observed
    rows, ood_rows = np.arange(120), np.arange(150)
    first, second = (_direct(arrays["volta", seed], rows, ood_rows) for seed in (0, 1))
    for key, value in first.items():
        assert found[key]["volta"] == pytest.approx({0: value, 1: second[key]}, abs=1e-12)
        assert found[key]["energy"][0] == pytest.approx(_direct(arrays["energy", 0], rows, ood_rows)[key], abs=1e-12)


def test_every_resample_is_the_metric_of_the_drawn_rows(arrays, models):
    found = paired_bootstrap(models, 70, seed=5).resampled
    # The second chunk begins at resample 64.
    counts = draw_counts(120, 6, rng(5, "bootstrap", "test", 64)).astype(int)
    ood_counts = draw_counts(150, 6, rng(5, "bootstrap", "ood:near", 64)).astype(int)
    for column in range(6):
        rows = np.repeat(np.arange(120), counts[:, column])
        ood_rows = np.repeat(np.arange(150), ood_counts[:, column])
        assert len(rows) == 120
        for key, value in _direct(arrays["energy", 0], rows, ood_rows).items():
            assert found[key]["energy"][0][64 + column] == pytest.approx(value, abs=1e-12)


def test_same_seed_same_bytes_whatever_the_threads(models):
    one, other = paired_bootstrap(models, 200, n_threads=1), paired_bootstrap(models, 200, n_threads=3)
    for key, by_method in one.resampled.items():
        for name, by_seed in by_method.items():
            assert by_seed[0].tobytes() == other.resampled[key][name][0].tobytes()
    assert not np.array_equal(
        one.resampled["nll", "test"]["volta"][0],
        paired_bootstrap(models, 200, seed=1).resampled["nll", "test"]["volta"][0],
    )


def test_interval_of_a_mean_agrees_with_the_normal_one():
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 4, 2000)
    first, second = _model(predictions(generator, labels, 2.0)), _model(predictions(generator, labels, 1.5))
    low, high = interval_of(paired_bootstrap({"a": [first], "b": [second]}, 4000), "brier", "test", "a", "b")
    gap = first.brier - second.brier
    half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
    assert (low, high) == pytest.approx((gap.mean() - half, gap.mean() + half), abs=0.05 * half)


def test_spread_of_auroc_agrees_with_delong():
    generator = np.random.default_rng(6)
    own, outside = generator.normal(0, 1, 400), generator.normal(1, 1, 300)
    probs = np.full((400, 2), 0.5)
    model = row_scores(probs, np.zeros(400, dtype=int), own, {"ood:near": outside})
    draws = paired_bootstrap({"a": [model]}, 3000).resampled["auroc", "ood:near"]["a"][0]
    wins = (outside[None] > own[:, None]).astype(float)
    delong = wins.mean(axis=1).var(ddof=1) / 400 + wins.mean(axis=0).var(ddof=1) / 300
    assert draws.std() == pytest.approx(np.sqrt(delong), rel=0.05)


def test_pairing_makes_equal_methods_differ_by_nothing(models):
    found = paired_bootstrap({"a": models["energy"], "b": models["energy"]}, 50)
    assert interval_of(found, "ece", "test", "a", "b") == (0.0, 0.0)
    assert interval_of(found, "auroc", "ood:near", "a", "b") == (0.0, 0.0)


def test_basic_interval_takes_the_bias_of_ece_back():
    # Labels are drawn from the stated probabilities: one model has true ECE 0, a sharpened one a known ECE.
    generator = np.random.default_rng(0)

    def draw(n):
        probs = generator.dirichlet(np.ones(4), n)
        labels = (probs.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)
        return probs, probs**2 / (probs**2).sum(axis=1, keepdims=True), labels

    _, sharp, labels = draw(300_000)
    truth = -metrics.ece(sharp, labels)
    basic = percentile = 0
    for _ in range(60):
        probs, sharp, labels = draw(400)
        found = paired_bootstrap({"a": [row_scores(probs, labels)], "b": [row_scores(sharp, labels)]}, 256)
        low, high = interval_of(found, "ece", "test", "a", "b")
        basic += low <= truth <= high
        draws = found.resampled["ece", "test"]
        lower, upper = np.quantile(draws["a"][0] - draws["b"][0], [0.025, 0.975])
        percentile += lower <= truth <= upper
    assert basic / 60 > 0.65
    assert percentile / 60 < 0.25


def test_a_metric_that_one_side_lacks_has_no_interval(models):
    plain = row_scores(np.full((120, 4), 0.25), np.zeros(120, dtype=int))
    found = paired_bootstrap({"volta": models["volta"], "plain": [plain]}, 10)
    assert interval_of(found, "auroc", "ood:near", "volta", "plain") is None
    assert interval_of(found, "ece", "test", "volta", "nobody") is None
    assert interval_of(found, "nll", "test", "volta", "plain") is not None


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=250),
    st.lists(st.integers(0, 6), min_size=1, max_size=250),
    st.integers(0, 99),
)
def test_pair_count_is_exact_under_ties(id_scores, ood_scores, seed):
    own, outside = np.array(id_scores, float), np.array(ood_scores, float)
    generator = np.random.default_rng(seed)
    weights = generator.integers(0, 4, (len(own), 3)).astype(np.float32)
    ood_weights = generator.integers(0, 4, (len(outside), 3)).astype(np.float32)
    kernel = (outside[None] > own[:, None]) + 0.5 * (outside[None] == own[:, None])
    expected = np.einsum("ic,ij,jc->c", weights, kernel, ood_weights)
    found = PairCounter(own, outside).count(weights, ood_weights, Scratch(len(own), len(outside), 3))
    assert np.array_equal(found, expected)


def test_pair_count_agrees_with_scikit_learn_and_with_infinite_scores():
    generator = np.random.default_rng(4)
    own, outside = generator.normal(size=400), generator.normal(1, 1, 300)
    own[:3], outside[:3] = -np.inf, np.inf
    found = PairCounter(own, outside).count(
        np.ones((400, 1), np.float32), np.ones((300, 1), np.float32), Scratch(400, 300, 1)
    )
    reference = roc_auc_score(np.r_[np.zeros(400), np.ones(300)], np.clip(np.r_[own, outside], -99, 99))
    assert found[0] / (400 * 300) == pytest.approx(reference, abs=1e-12)


def test_accumulate_rows_is_a_cumulative_sum():
    values = np.random.default_rng(0).integers(0, 5, (300, 7)).astype(np.float32)
    expected = np.cumsum(values, axis=0)
    accumulate_rows(values)
    assert np.array_equal(values, expected)


def test_floored_probabilities_stay_finite():
    rows = row_scores(np.array([[1.0, 0.0]]), np.array([1]))
    assert rows.nll[0] == pytest.approx(708.396, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: paired_bootstrap({}, 10), "models is empty"),
        (lambda m: paired_bootstrap(m, 0), "n_resamples is 0"),
        (lambda m: hierarchical_interval(np.zeros(2), np.zeros((2, 5)), level=1.0), "level is 1"),
    ],
)
def test_bad_input_is_refused(models, call, match):
    with pytest.raises(InputError, match=match):
        call(models)


def test_ood_sets_of_different_length_are_refused(models):
    other = row_scores(np.full((120, 4), 0.25), np.zeros(120, dtype=int), np.ones(120), {"ood:near": np.ones(9)})
    with pytest.raises(InputError, match="'ood:near' but others have 150"):
        paired_bootstrap(models | {"x": [other]}, 5)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=150),
    st.integers(0, 99),
)
def test_weighted_aurc_and_augrc_are_exact_under_ties(rows, seed):
    scores, correct = np.array([row[0] for row in rows], float), np.array([row[1] for row in rows])
    counts = draw_counts(len(rows), 3, np.random.default_rng(seed))
    area, generalised = RiskCounter(scores, correct.astype(float)).scores(counts, Scratch(len(rows), 0, 3))
    for column in range(3):
        drawn = np.repeat(np.arange(len(rows)), counts[:, column].astype(int))
        assert area[column] == pytest.approx(metrics.aurc(scores[drawn], correct[drawn]), abs=1e-12)
        assert generalised[column] == pytest.approx(metrics.augrc(scores[drawn], correct[drawn]), abs=1e-12)


def test_methods_on_one_network_are_scored_once_and_alike(models):
    twice = {"a": models["energy"], "b": models["energy"], "volta": models["volta"]}
    scorer = WeightedScorer({(name, seed): one for name, runs in twice.items() for seed, one in enumerate(runs)})
    assert len(scorer.gaps) == len(scorer.risks) == len(scorer.counters["ood:near"]) == 3
    found = paired_bootstrap(twice, 20).resampled["ece", "test"]
    assert np.array_equal(found["a"][0], found["b"][0])


def test_rows_of_other_seeds_are_resampled_on_their_own():
    generator = np.random.default_rng(1)
    labels = [generator.integers(0, 4, 300) for _ in range(2)]
    models = {
        name: {seed: _model(predictions(generator, labels[seed], skill)) for seed in range(2)}
        for name, skill in (("a", 2.0), ("b", 1.0))
    }
    same = paired_bootstrap(models, 400)
    rotated = paired_bootstrap(models, 400, rows_of={0: "x", 1: "y"})
    draws = [one.row_draws("nll", "test", "b", (0, 1)) for one in (same, rotated)]
    assert abs(np.corrcoef(draws[1])[0, 1]) < 0.15
    # OOD rows are the same for all seeds, so AUROC keeps something in common.
    assert np.corrcoef(rotated.row_draws("auroc", "ood:near", "b", (0, 1)))[0, 1] != 0
    assert shared_row_variance(draws[1]) < 0.2 * np.var(draws[1], axis=1).mean()


def test_methods_without_a_seed_in_common_have_a_row_variance(arrays):
    first, second = _model(arrays["volta", 0]), _model(arrays["volta", 1])
    found = paired_bootstrap({"a": {0: first}, "b": {1: second}}, 400)
    together = paired_bootstrap({"a": {0: first}, "b": {0: second}}, 400)
    spread = found.row_spread("accuracy", "test", "a", "b")
    assert spread.interval is None
    assert spread.n_rows == 120
    assert spread.shared_variance == pytest.approx(together.row_spread("accuracy", "test", "a", "b").shared_variance)
