"""Which columns become features: by role, by name, or as one matrix."""

from __future__ import annotations

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.data.feature_files import Roles, open_features
from volta.data.tables import new_table


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(20, 3))


def write(path, **columns):
    with new_table(path) as writer:
        writer.write(columns)
    return path


def test_a_matrix_with_names_and_labels(tmp_path, rows):
    np.savez(
        tmp_path / "a.npz", X=rows, labels=np.arange(20), feature_names=np.array(["a", "b", "c"]), other=np.ones(3)
    )
    found = open_features(tmp_path / "a.npz", Roles(), labelled=True)
    assert (found.names, found.label) == (("a", "b", "c"), "labels")
    features, labels = found.read_labelled()
    assert np.array_equal(features, rows)
    assert labels.tolist() == list(range(20))
    with pytest.raises(InputError, match="names its features differently from the model"):
        open_features(tmp_path / "a.npz", Roles(), names=["b", "a", "c"])


def test_a_parquet_column_of_lists_is_a_matrix(tmp_path, rows):
    path = write(tmp_path / "a.parquet", embedding=rows, y=np.arange(20), note=np.array(["x"] * 20))
    features, labels = open_features(path, Roles(), labelled=True).read_labelled()
    assert np.array_equal(features, rows)
    assert labels.tolist() == list(range(20))


def test_several_matrices_are_told_apart_by_name_alone(tmp_path, rows):
    np.savez(tmp_path / "a.npz", features=rows, more=rows)
    assert open_features(tmp_path / "a.npz", Roles()).columns == ("features",)
    np.savez(tmp_path / "b.npz", some=rows, more=rows)
    with pytest.raises(InputError, match=r"several matrices \(some, more\); call that of the features x"):
        open_features(tmp_path / "b.npz", Roles())


def test_columns_by_position_where_the_model_has_no_names(tmp_path, rows):
    path = write(tmp_path / "a.csv", a=rows[:, 0], y=np.arange(20), b=rows[:, 1], k=np.arange(20))
    found = open_features(path, Roles(ids=("k",), known=("y",)), n_features=2)
    assert found.columns == ("a", "b")
    with pytest.raises(InputError, match=r"has 3 feature columns \(a, b, k\), the model 2; name those"):
        open_features(path, Roles(known=("y",)), n_features=2)


def test_labels_take_the_type_of_known_classes(tmp_path, rows):
    path = write(tmp_path / "a.csv", a=rows[:, 0], y=np.arange(20))
    table = open_features(path, Roles("y"), labelled=True)
    assert table.read_labelled()[1].dtype == np.int64
    assert table.read_labelled(np.array(["0", "1"]))[1].tolist()[:2] == ["0", "1"]
    text = write(tmp_path / "b.csv", a=rows[:, 0], y=np.array(["one"] * 20))
    with pytest.raises(InputError, match=r"b\.csv column 'y' holds text where .* numbers .*'one'"):
        open_features(text, Roles("y"), labelled=True).read_labelled(np.array([0, 1]))


def test_what_is_missing_is_said(tmp_path, rows):
    path = write(tmp_path / "a.csv", a=rows[:, 0], y=np.array(["x", " "] * 10))
    with pytest.raises(InputError, match="--label is missing; name the column"):
        open_features(path, Roles(), labelled=True)
    with pytest.raises(InputError, match="has no feature columns"):
        open_features(path, Roles("y", ids=("a",)))
    with pytest.raises(InputError, match=r"row 1 \(line 3\), column 'y' is empty; drop rows without a label"):
        open_features(path, Roles("y")).read_labelled()
    with pytest.raises(InputError, match="has no label column; name it with --label"):
        open_features(path, Roles(ids=("y",))).read_labelled()
