from __future__ import annotations

import numpy as np
import pytest

from volta.core.checks import check_class_sizes, class_numbers, class_values
from volta.core.errors import InputError


def test_labels_of_all_kinds_become_class_numbers() -> None:
    gaps = class_values(np.array([7, -1, 7, 20]), "train")
    assert gaps.tolist() == [-1, 7, 20]
    assert class_numbers(np.array([20, 7]), gaps, "test").tolist() == [2, 1]
    assert class_values(np.array([2.0, 1.0]), "train").tolist() == [1, 2]
    assert class_values(np.array([True, False]), "train").tolist() == [0, 1]
    text = class_values(np.array(["b", "a", "ü"]), "train")
    assert class_numbers(np.array(["ü", "a"]), text, "test").tolist() == [2, 0]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([1, 1]), "has one class"),
        (np.array([0.5, 1.0]), "row 0 has label 0.5; labels must be whole"),
        (np.array([1.0, np.nan]), "row 1 has label nan"),
        (np.array(["a", ""]), "row 1 has an empty label"),
        (np.array(["a", "  ", "b"]), "row 1 has an empty label"),
        (np.array(["cat", "dog", " dog", "dog"]), "the labels ' dog' and 'dog', which differ in blanks only"),
        (np.array([1 + 2j, 3]), "labels of type complex128"),
    ],
)
def test_labels_that_are_refused(labels: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said):
        class_values(labels, "train")


def test_labels_unknown_in_training_and_small_classes() -> None:
    classes = np.array([0, 5])
    with pytest.raises(InputError, match="test row 1 has label 3, which no training row has"):
        class_numbers(np.array([0, 3]), classes, "test")
    with pytest.raises(InputError, match="test row 0 has label 9"):
        class_numbers(np.array([9]), classes, "test")
    with pytest.raises(InputError, match="but the training labels are like"):
        class_numbers(np.array(["a"]), classes, "test")
    with pytest.raises(InputError, match=r"fewer than the 3 training rows that splitting takes: b \(1\)"):
        check_class_sizes({"train": np.array([0, 0, 0, 1])}, ("a", "b"), 3)
