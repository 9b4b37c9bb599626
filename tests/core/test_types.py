from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.core.seeding import derive_seed, rng
from volta.core.types import FitData, Prediction, Split


def test_a_split_needs_one_label_a_row():
    with pytest.raises(InputError, match="labels has 2 rows but inputs has 3"):
        Split(np.zeros((3, 1)), np.zeros(2, dtype=np.int64))


def test_what_a_method_receives_holds_no_test_rows(digits):
    assert {field.name for field in fields(FitData)}.isdisjoint({"test", "ood", "shifts"})
    test_rows = {row.tobytes() for row in digits.test.inputs}
    for split in (digits.fit.train, digits.fit.val, digits.fit.cal):
        assert test_rows.isdisjoint(row.tobytes() for row in split.inputs)


def test_fingerprints_change_with_any_part_of_the_data(digits):
    inputs = digits.test.inputs.copy()
    inputs[0, 0] += 1
    changed = replace(digits, test=Split(inputs, digits.test.labels))
    assert changed.fingerprint != digits.fingerprint
    assert {name for name in digits.hashes if changed.hashes[name] != digits.hashes[name]} == {"test"}
    more_classes = replace(digits.fit, n_classes=9)
    assert more_classes.fingerprint != digits.fit.fingerprint


def test_predicted_labels_are_the_most_probable_classes():
    probs = np.array([[0.2, 0.8], [0.5, 0.5]])
    assert Prediction(probs, probs[:, 0], probs[:, 0]).labels.tolist() == [1, 0]


def test_the_ood_score_is_the_uncertainty_unless_there_is_another():
    probs = np.array([[0.2, 0.8], [0.5, 0.5]])
    doubt, other = probs[:, 0], probs[:, 1]
    assert Prediction(probs, doubt).ood_score is doubt
    assert Prediction(probs, doubt, sets=probs > 0.3).ood_score is doubt
    assert Prediction(probs, doubt, other).ood_score is other


def test_a_prediction_holds_no_nan_and_no_infinity():
    probs, doubt = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([0.1, 0.2])
    with pytest.raises(
        InputError, match=r"row 1 has no probs: the method gives \[nan nan\]; where inputs .* scale them"
    ):
        Prediction(np.array([[0.2, 0.8], [np.nan, np.nan]]), doubt)
    with pytest.raises(InputError, match="row 0 has no ood_score"):
        Prediction(probs, doubt, np.array([np.nan, 1.0]))
    found = Prediction(probs, doubt, np.array([np.inf, -np.inf]))
    assert found.ood_score.tolist() == [np.finfo(float).max, -np.finfo(float).max]
    assert Prediction(probs, doubt, np.array([1e308, 1e308])).ood_score.tolist() == [1e308, 1e308]


def test_seeds_for_different_purposes_differ_and_repeat():
    assert derive_seed(42, "a") == derive_seed(42, "a")
    assert len({derive_seed(seed, name) for seed in range(20) for name in "abc"}) == 60
    assert rng(1, "x").random() == rng(1, "x").random()
