from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from volta.core.errors import InputError, MissingDataError
from volta.data.labelled_arrays import holds_arrays, read_labelled_arrays

X = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    "names",
    [
        ("train_x", "train_y", "test_x", "test_y"),
        ("X_train", "y_train", "X_test", "y_test"),
        ("train_features", "train_labels", "test_features", "test_labels"),
        ("train_images", "train_label", "testing_images", "testing_label"),
    ],
)
def test_npz_with_splits_under_the_usual_names(root: Path, names: tuple[str, ...]) -> None:
    np.savez(root / "a.npz", **dict(zip(names, (X, Y, X[:2], Y[:2]), strict=True)))
    parts = read_labelled_arrays(root / "a.npz")
    assert {part: len(rows) for part, rows in parts.items()} == {"train": 4, "test": 2}
    assert np.array_equal(parts["train"].inputs, X)
    assert np.array_equal(parts["test"].labels, Y[:2])


def test_npz_of_one_set_with_and_without_a_split_array(root: Path) -> None:
    np.savez(root / "a.npz", X=X, target=Y[:, None], ignored=np.zeros(1))
    assert list(read_labelled_arrays(root / "a.npz")) == ["all"]
    np.savez(root / "a.npz", x=X, y=Y, split=np.array(["train", "Validation", "test", "train"]))
    parts = read_labelled_arrays(root / "a.npz")
    assert {part: rows.rows.tolist() for part, rows in parts.items()} == {"train": [0, 3], "val": [1], "test": [2]}


def test_npy_beside_labels_structured_and_as_a_folder(root: Path) -> None:
    np.save(root / "feats.npy", X)
    with pytest.raises(InputError, match=r"put them next to it in feats_labels\.npy"):
        read_labelled_arrays(root / "feats.npy")
    assert read_labelled_arrays(root / "feats.npy", labelled=False)["all"].labels is None
    np.save(root / "feats_labels.npy", Y)
    assert np.array_equal(read_labelled_arrays(root / "feats.npy")["all"].labels, Y)
    table = np.array([(1.0, 2.0, "b"), (3.0, 4.0, "a")], dtype=[("u", "f4"), ("v", "f4"), ("label", "U1")])
    np.save(root / "table.npy", table)
    rows = read_labelled_arrays(root / "table.npy")["all"]
    assert rows.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert rows.labels.tolist() == ["b", "a"]
    folder = root / "many"
    folder.mkdir()
    for name, array in (("train_x", X), ("train_y", Y), ("test_x", X), ("test_y", Y)):
        np.save(folder / f"{name}.npy", array)
    assert holds_arrays(folder)
    assert set(read_labelled_arrays(folder)) == {"train", "test"}


def test_parquet_columns_lists_text_labels_and_splits(root: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "u": [1.0, 2.0, 3.0],
        "v": [4, 5, 6],
        "species": ["cat", "dog", "cat"],
        "split": ["train", "train", "test"],
    }
    parquet.write_table(pyarrow.table(columns), root / "a.parquet")
    parts = read_labelled_arrays(root / "a.parquet", "species")
    assert parts["train"].inputs[parts["train"].rows].tolist() == [[1.0, 4.0], [2.0, 5.0]]
    assert parts["test"].labels.tolist() == ["cat"]
    with pytest.raises(
        InputError, match=r"no label column \(label, y, .*it has u, v, species, split; name one with --label"
    ):
        read_labelled_arrays(root / "a.parquet")
    lists = pyarrow.table(
        {"embedding": [[1.0, 2.0], [3.0, 4.0]], "label": pyarrow.array(["a", "b"]).dictionary_encode()}
    )
    parquet.write_table(lists, root / "b.parquet")
    rows = read_labelled_arrays(root / "b.parquet")["all"]
    assert rows.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert rows.labels.tolist() == ["a", "b"]
    parquet.write_table(pyarrow.table({"e": [[1.0], [3.0, 4.0]], "y": [0, 1]}), root / "c.parquet")
    with pytest.raises(InputError, match="has 2 numbers, others have 1"):
        read_labelled_arrays(root / "c.parquet")
    parquet.write_table(pyarrow.table({"e": ["p", "q"], "y": [0, 1]}), root / "d.parquet")
    with pytest.raises(InputError, match="column 'e' is not numeric"):
        read_labelled_arrays(root / "d.parquet")
    parquet.write_table(pyarrow.table({"e": [1.0, None], "y": ["a", None]}), root / "e.parquet")
    with pytest.raises(InputError, match="column 'e' is empty"):
        read_labelled_arrays(root / "e.parquet")
    (root / "f.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        read_labelled_arrays(root / "f.parquet")


def test_tables_that_are_none(root: Path) -> None:
    with pytest.raises(MissingDataError, match="does not exist"):
        read_labelled_arrays(root / "a.npz")
    (root / "a.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        read_labelled_arrays(root / "a.npz")
    np.savez(root / "a.npz", x=X, y=np.array(["a", None, 1, 2], dtype=object))
    with pytest.raises(InputError, match="save labels as numbers or fixed-width text"):
        read_labelled_arrays(root / "a.npz")
    (root / "a.npy").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a npy file"):
        read_labelled_arrays(root / "a.npy")
    (root / "a.txt").write_text("a,b")
    assert not holds_arrays(root / "a.txt")
    with pytest.raises(InputError, match="is no kind of table"):
        read_labelled_arrays(root / "a.txt")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"weights": X}, "holds weights; expected train_x"),
        ({"x": X}, "has no labels"),
        ({"x": X, "y": Y[:3]}, "has 3 labels for 4 rows"),
        ({"x": X, "y": np.eye(4)}, r"labels of shape \(4, 4\)"),
        ({"x": X[:, 0], "y": Y}, r"inputs of shape \(4,\)"),
        ({"x": X, "y": Y, "train_x": X, "train_y": Y}, "both a whole set and splits"),
        ({"x": X, "y": Y, "split": np.array(["train", "later", "test", "train"])}, "split 'later' is unknown"),
    ],
)
def test_npz_refusals(root: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez(root / "a.npz", **arrays)
    with pytest.raises(InputError, match=said):
        read_labelled_arrays(root / "a.npz")


def test_the_label_is_the_column_of_that_name_in_that_case(root: Path) -> None:
    (root / "a.csv").write_text("y,X,Y\n0,5,6\n1,7,8\n")
    rows = read_labelled_arrays(root / "a.csv", label="y")["all"]
    assert rows.labels.tolist() == [0, 1]
    assert rows.inputs.tolist() == [[5.0, 6.0], [7.0, 8.0]]
    (root / "b.csv").write_text("Kind,kind,x\n0,5,6\n1,7,8\n")
    assert read_labelled_arrays(root / "b.csv", label="Kind")["all"].labels.tolist() == [0, 1]
    with pytest.raises(InputError, match="has the columns Kind, kind; say exactly which one 'KIND' is"):
        read_labelled_arrays(root / "b.csv", label="KIND")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            {"x": X, "y": Y, "target": Y},
            "arrays y and target, either of which may be the labels; name one with --label",
        ),
        ({"x": X, "embeddings": X, "y": Y}, "arrays x and embeddings, either of which may be the inputs; keep one"),
    ],
)
def test_arrays_that_may_be_either_are_refused(root: Path, arrays: dict[str, np.ndarray], said: str) -> None:
    np.savez(root / "a.npz", **arrays)
    with pytest.raises(InputError, match=said):
        read_labelled_arrays(root / "a.npz")


def test_of_several_arrays_of_labels_one_can_be_named(root: Path) -> None:
    np.savez(root / "a.npz", x=X, y=1 - Y, target=Y)
    assert read_labelled_arrays(root / "a.npz", label="target")["all"].labels.tolist() == Y.tolist()
