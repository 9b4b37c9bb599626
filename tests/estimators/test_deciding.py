"""Sets, policies, OOD flags, decisions and the monitor, through the classifier."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimators.test_face import draw, quick
from volta import VoltaClassifier, decisions
from volta.core.errors import InputError
from volta.estimators.deciding import ClassifierMonitor, TooFewRowsWarning

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


@pytest.fixture(scope="module")
def fitted():
    return quick(max_epochs=30).fit(*draw(300), eval_set=draw(100, 1), cal_set=draw(400, 2))


def test_sets_are_those_of_the_package_for_decisions(fitted):
    cal, labels = draw(400, 2)
    new, _ = draw(50, 3)
    for score in ("lac", "aps", "raps"):
        for conditional in ("none", "class"):
            expected = decisions.fit_sets(
                fitted.predict_proba(cal), labels, alpha=0.05, score=score, conditional=conditional
            )
            found = fitted.predict_set(new, 0.05, score=score, conditional=conditional)
            assert np.array_equal(found, expected.predict(fitted.predict_proba(new)))
    assert fitted.predict_set(new, 0.5, allow_empty=False).any(axis=1).all()
    with pytest.raises(InputError, match="score is 'best'; pass one of lac, aps, raps"):
        fitted.predict_set(new, score="best")
    with pytest.raises(InputError, match="conditional is 'row'"):
        fitted.predict_set(new, conditional="row")


def test_policies_are_kept_and_saved(tmp_path):
    classifier = quick(max_epochs=30).fit(*draw(300), cal_set=draw(400, 2))
    new, labels = draw(400, 3)
    assert classifier.policy_.coverage == pytest.approx(0.9, abs=0.01)
    policy = classifier.fit_policy(max_error=0.1)
    assert policy.exists
    answered = ~classifier.abstain(new)
    assert (classifier.predict(new)[answered] != labels[answered]).mean() < 0.15
    assert answered.mean() != 1 - classifier.abstain(new, coverage=0.5).mean()
    classifier.save(tmp_path / "a.safetensors")
    loaded = VoltaClassifier.load(tmp_path / "a.safetensors")
    assert loaded.policy_ == policy
    assert np.array_equal(loaded.abstain(new), ~answered)
    with pytest.raises(InputError, match="max_error is None and coverage None; pass one of them"):
        classifier.fit_policy()


def test_pvalues_flags_and_discoveries(fitted):
    new = draw(200, 4)[0]
    pvalues = fitted.ood_pvalues(new)
    assert np.array_equal(fitted.is_ood(new, fpr=0.1), pvalues <= 0.1)
    assert fitted.is_ood(new, fpr=0.1).mean() < 0.2
    far = new.copy()
    far[:50] += 40.0
    found = fitted.is_ood(far, fdr=0.1)
    assert found[:50].all()
    assert np.array_equal(found, decisions.benjamini_hochberg(fitted.ood_pvalues(far), 0.1))
    by_class = fitted.ood_pvalues(far, conditional="class")
    assert by_class[:50].max() < 0.05
    assert np.array_equal(fitted.is_ood(far, conditional="class"), by_class <= 0.05)
    with pytest.raises(InputError, match="conditional is 'row'; pass none or class"):
        fitted.is_ood(far, conditional="row")
    for more in ({"conditional": "class"}, {"confidence": 0.9}):
        with pytest.raises(InputError, match="fdr is set with conditional or confidence"):
            fitted.is_ood(far, fdr=0.1, **more)


def test_one_call_decides(fitted):
    pandas = pytest.importorskip("pandas")
    rows = draw(30, 5)[0]
    rows[0] += 100.0
    found = fitted.decide(rows)
    assert found[0].action == "ood"
    assert "p-value at most 0.05" in found[0].reason
    table = pandas.DataFrame(found.to_array())
    assert list(table) == ["action", "label", "probability", "uncertainty", "pvalue", "set", "reason"]
    assert np.array_equal(table["label"], fitted.predict(rows))
    assert np.array_equal(found.sets, fitted.predict_set(rows))
    answered = (table["action"] == "answer").to_numpy()
    assert np.array_equal(answered, ~fitted.abstain(rows) & ~fitted.is_ood(rows))


def test_sixty_rows_suffice_for_flags_sets_and_policies():
    classifier = quick(method="linear").fit(*draw(60))
    new, labels = draw(300, 1)
    assert classifier.is_ood(new + 100.0).all()
    assert classifier.is_ood(new).mean() < 0.15
    sets = classifier.predict_set(new)
    assert sets[np.arange(300), labels].mean() > 0.8
    assert not sets.all()
    assert 0.8 < 1.0 - classifier.abstain(new).mean() < 1.0


def test_too_few_rows_are_said_to_be_too_few():
    classifier = quick(calibration="split").fit(*draw(60))
    new = draw(5)[0]
    with pytest.warns(TooFewRowsWarning, match="6 calibration samples are too few for fpr = 0.05, which needs 19"):
        assert not classifier.is_ood(new + 100.0).any()
    with pytest.warns(TooFewRowsWarning, match=r"too few for alpha = 0\.1.*every set holds every class"):
        assert classifier.predict_set(new).all()
    with pytest.warns(TooFewRowsWarning, match="every row is answered"):
        assert not classifier.abstain(new).any()


def test_warnings_point_at_the_users_line():
    classifier = quick(calibration="split").fit(*draw(60))
    new = draw(5)[0]
    for call in (classifier.is_ood, classifier.predict_set, classifier.abstain, classifier.decide):
        with pytest.warns(TooFewRowsWarning) as said:
            call(new)
        assert {warning.filename for warning in said} == {__file__}


def test_a_stream_is_watched(fitted):
    monitor = fitted.monitor(alpha=0.01)
    assert not monitor.update(draw(300, 6)[0]).alarm
    state = monitor.update(draw(60, 7)[0] + 4.0)
    assert state.alarm
    assert 300 <= state.alarm_at < 360
    assert monitor.state is state
    assert state.pvalue < 0.01


@pytest.mark.parametrize("method", ["volta", "linear", "mahalanobis", "knn", "weiper"])
def test_a_row_is_judged_alike_by_itself_and_among_others(method):
    # Few distinct rows: scores tie with those of calibration rows, and a tie that is lost is a guarantee lost.
    random = np.random.default_rng(2)
    patterns = random.integers(0, 2, (5, 8)).astype(float)
    which = random.integers(0, 5, 400)
    rows, labels = patterns[which], (which % 2) ^ (random.random(400) < 0.2)
    classifier = quick(method=method, max_epochs=1).fit(rows, labels)
    together, first = classifier.decide(rows), [int(np.argmax(which == pattern)) for pattern in range(5)]
    for pattern, place in zip(patterns, first, strict=True):
        alone = classifier.decide(pattern[None])
        assert alone.pvalue[0] == together.pvalue[place]
        assert alone.action[0] == together.action[place]
        assert np.array_equal(alone.sets[0], together.sets[place])


def test_a_far_row_is_ood_though_calibration_rows_are_far_too():
    rows, labels = draw(100, 2)
    rows[::13, 0] = 1e9
    classifier = quick(max_epochs=5).fit(*draw(300), eval_set=draw(100, 1), cal_set=(rows, labels))
    far = draw(1, 3)[0]
    far[0, 0] = 1e300
    assert classifier.decide(far)[0].action == "ood"
    assert classifier.ood_pvalues(far)[0] == pytest.approx(1 / 101)


def test_a_value_that_stands_for_what_is_missing_is_no_reason_to_flag_a_row():
    random = np.random.default_rng(0)

    def rows(n):
        found = random.normal(size=(n, 20))
        found[random.random((n, 20)) < 0.004] = 1e9
        return found, (np.nan_to_num(found[:, 0], nan=0.0) > 0).astype(int)

    classifier = quick(method="linear").fit(*rows(2000))
    new, _ = rows(2000)
    assert (new > 1e8).any(axis=1).mean() > 0.05
    assert classifier.is_ood(new, 0.01).mean() < 0.025
    assert classifier.decide(new, fpr=0.01).to_array()["action"].tolist().count("ood") < 50
    new[0, 0] = 1e13
    assert classifier.decide(new[:1], fpr=0.01)[0].action == "ood"


def test_a_monitor_in_blocks_goes_on_where_it_was_saved(fitted, tmp_path):
    """Rows repeated five times alarm without a change unless the monitor bets on every fifth."""
    repeated = draw(200, 6)[0].repeat(5, axis=0)
    assert fitted.monitor(alpha=0.01).update(repeated).alarm
    monitor = fitted.monitor(alpha=0.01, block=5)
    assert not monitor.update(repeated).alarm
    monitor.scores.save(tmp_path / "monitor")
    read = ClassifierMonitor(fitted, decisions.Monitor.load(tmp_path / "monitor"))
    assert read.state == monitor.state
    assert read.update(repeated[:300] + 4.0) == monitor.update(repeated[:300] + 4.0)
    assert read.state.alarm
