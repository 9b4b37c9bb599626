"""Files of predictions: every layout gives the same models, and bad ones are refused by file, row and remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.predictions.made import cells, labels_of, probs_of, write_csv
from volta.core.errors import InputError
from volta.predictions.external_model import stored_arrays
from volta.predictions.prediction_files import name_in_file, read_models

LABELS = labels_of()
PROBS = probs_of(LABELS, 2.0)
OUTSIDE = probs_of(labels_of(20), 0.0, 3)
HEADER = "method,seed,set,id,label,p_0,p_1,p_2"


def long_rows() -> list[str]:
    test = [f"a,4,test,{i},{label},{cells(row)}" for i, (label, row) in enumerate(zip(LABELS, PROBS, strict=True))]
    return test + [f"a,4,ood:noise,{i},,{cells(row)}" for i, row in enumerate(OUTSIDE)]


def long_columns() -> dict[str, np.ndarray]:
    n, m = len(LABELS), len(OUTSIDE)
    return {
        "method": np.full(n + m, "a"),
        "seed": np.full(n + m, 4),
        "set": np.array(["test"] * n + ["ood:noise"] * m),
        "id": np.concatenate([np.arange(n), np.arange(m)]),
        "label": np.concatenate([LABELS, np.full(m, -1)]),
        "probs": np.concatenate([PROBS, OUTSIDE]),
    }


def write_layout(folder: Path, layout: str) -> Path:
    if layout == "csv":
        return write_csv(folder / "any.csv", HEADER, long_rows())
    if layout.startswith("parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = long_columns()
        wide = columns.pop("probs")
        if layout != "parquet":
            kind = pyarrow.string() if layout.endswith("text") else pyarrow.int64()
            columns["label"] = pyarrow.array(
                [
                    None if label < 0 else str(label) if kind == pyarrow.string() else label
                    for label in columns["label"].tolist()
                ],
                kind,
            )
        table = pyarrow.table(columns | {f"p_{k}": wide[:, k] for k in range(3)})
        parquet.write_table(table, folder / "any.parquet")
        return folder / "any.parquet"
    path = folder / "a-4.npz"
    if layout == "long npz":
        np.savez(path, **long_columns())
    elif layout == "keyed npz":
        score = 1 - PROBS.max(axis=1)
        named = {"ood:noise": 1 - OUTSIDE.max(axis=1), "id": np.arange(len(LABELS))}
        np.savez(path, probs=PROBS, labels=LABELS, ood_score=score, **named)
    else:
        np.savez(path, logits=np.log(PROBS), labels=LABELS, id=np.arange(60), **{"ood:noise/logits": np.log(OUTSIDE)})
    return path


@pytest.mark.parametrize(
    "layout",
    ["csv", "parquet", "parquet, no label as null", "parquet, null in text", "long npz", "keyed npz", "logits npz"],
)
def test_every_layout_gives_the_same_model(tmp_path, layout):
    (model,) = read_models([write_layout(tmp_path, layout)])
    assert (model.method, model.seed) == ("a", 4)
    arrays = stored_arrays(model)
    assert np.allclose(arrays["test/probs"], PROBS)
    assert np.array_equal(arrays["test/labels"], LABELS)
    assert np.allclose(arrays["test/uncertainty"], 1 - PROBS.max(axis=1))
    assert np.allclose(arrays["ood:noise/ood_score"], 1 - OUTSIDE.max(axis=1))
    assert np.array_equal(arrays["test/id"], np.arange(60))


def test_columns_of_probabilities_are_logits_where_that_is_said(tmp_path):
    rows = [f"{label},{cells(row)}" for label, row in zip(LABELS, np.log(PROBS), strict=True)]
    path = write_csv(tmp_path / "net-7.csv", "label,p_0,p_1,p_2", rows)
    (model,) = read_models([path], logits=True)
    assert (model.method, model.seed) == ("net", 7)
    assert np.allclose(stored_arrays(model)["test/probs"], PROBS)
    with pytest.raises(
        InputError, match=r"net-7\.csv, net, seed 7, row 0: class . has -.*if these are logits, say so: --logits"
    ):
        read_models([path])


def test_rounded_probabilities_are_divided_by_their_sum(tmp_path):
    rows = [f"{label},{','.join(f'{value:.4f}' for value in row)}" for label, row in zip(LABELS, PROBS, strict=True)]
    (model,) = read_models([write_csv(tmp_path / "net.csv", "label,p_0,p_1,p_2", rows)])
    assert np.allclose(stored_arrays(model)["test/probs"].sum(axis=1), 1, atol=1e-15)


def test_uncertainty_sets_and_validation_rows_are_kept(tmp_path):
    doubt = np.arange(60) / 60
    np.savez(
        tmp_path / "net.npz", probs=PROBS, labels=LABELS, uncertainty=doubt, sets=PROBS > 0.1, val_probs=PROBS[:9],
        val_labels=LABELS[:9], note=np.arange(3),
    )  # fmt: skip
    heard = []
    (model,) = read_models([tmp_path / "net.npz"], say=heard.append)
    arrays = stored_arrays(model)
    assert np.array_equal(arrays["test/uncertainty"], doubt)
    assert np.array_equal(arrays["test/sets"], PROBS > 0.1)
    assert arrays["val/probs"].shape == (9, 3)
    assert heard == [f"{tmp_path / 'net.npz'}: not used: note"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("resnet-42.npz", ("resnet", 42)),
        ("vit-b-16-3.csv", ("vit-b-16", 3)),
        ("vit.csv.gz", ("vit", 0)),
        ("-3.npz", ("-3", 0)),
    ],
)
def test_a_files_name_says_method_and_seed(name, told):
    assert name_in_file(Path(name)) == told


def changed(rows: list[str], row: int, column: int, value: str) -> list[str]:
    parts = rows[row].split(",")
    parts[column] = value
    return [*rows[:row], ",".join(parts), *rows[row + 1 :]]


@pytest.mark.parametrize(
    ("row", "column", "value", "words"),
    [
        (5, 5, "2.5", r"bad.csv, a, seed 4, row 5: probabilities sum to .*--logits"),
        (6, 5, "-0.5", r"row 6: class 0 has -0.5, no probability; if these are logits"),
        (7, 4, "3", r"row 7: label 3 is not one of 0 … 2, the 3 columns' classes; number classes from 0"),
        (8, 4, "-1", r"row 8: label -1 is not one of"),
        (8, 4, "1.5", r"row 8: label 1.5 is not one of"),
        (9, 4, "cat", r"row 9 \(line 11\), column 'label' is 'cat', no number; number the classes from 0"),
        (9, 3, "2", r"row 9: id 2 stands twice; give every row of a set an id of its own"),
        (9, 6, "", r"row 9 \(line 11\), column 'p_1' is empty; fill it or drop the row"),
        (9, 1, "x", r"row 9: seed is 'x'"),
        (9, 2, "training", r"row 9: set 'training' is unknown"),
    ],
)
def test_a_bad_cell_is_refused_by_its_row(tmp_path, row, column, value, words):
    path = write_csv(tmp_path / "bad.csv", HEADER, changed(long_rows(), row, column, value))
    with pytest.raises(InputError, match=words):
        read_models([path])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"probs": PROBS, "labels": LABELS[:-1]}, "net.npz: labels has 59 rows but probs has 60; give one a row"),
        ({"probs": PROBS}, "net.npz has no labels; add them"),
        ({"labels": LABELS}, "net.npz has neither probs nor logits"),
        ({"scores": PROBS}, "has no array called probs or logits"),
        ({"probs": PROBS, "logits": PROBS, "labels": LABELS}, "has both probs and logits; keep one"),
        ({"probs": PROBS[:, :1], "labels": LABELS * 0}, "probs has one class; for two classes give both"),
        ({"probs": PROBS, "labels": LABELS.astype(object)}, "array 'labels' holds Python objects"),
        (
            {"probs": PROBS, "labels": LABELS, "val_probs": np.full((60, 2), 0.5), "val_labels": LABELS * 0},
            "val has 2 classes but",
        ),
        ({"probs": PROBS, "labels": LABELS, "sets": PROBS}, "row 0: sets hold a value other than 0 and 1"),
        (
            {"probs": PROBS, "labels": LABELS, "uncertainty": np.full(60, np.nan)},
            "row 0, column 'uncertainty' is missing",
        ),
        (
            {"probs": PROBS, "labels": LABELS, "ood:far": np.ones(3)},
            "has ood_score as its score but the test rows have 1",
        ),
        ({"logits": np.where(PROBS > 0.9, np.inf, 0), "labels": LABELS}, "is inf; fill it or drop the row"),
    ],
)
def test_bad_arrays_are_refused(tmp_path, arrays, words):
    path = tmp_path / "net.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=words):
        read_models([path])


def test_names_that_say_the_same_twice_are_refused(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "net-1.npz", probs=PROBS, labels=LABELS)
    with pytest.raises(InputError, match=r"holds net, seed 1, which .* holds too; name them apart"):
        read_models([tmp_path / "x/net-1.npz", tmp_path / "y/net-1.npz"])
    with pytest.raises(InputError, match=r"--method is b, but .* has a column method; leave one of them out"):
        read_models([write_csv(tmp_path / "any.csv", HEADER, long_rows())], method="b")
    with pytest.raises(InputError, match="method 'a/b' cannot be a folder's name"):
        read_models([tmp_path / "x/net-1.npz"], method="a/b")
    with pytest.raises(InputError, match="but none for class 1; give one a class"):
        read_models([write_csv(tmp_path / "gap.csv", "label,logit_0,logit_2", ["0,0.5,0.5"])])


def two_halves(first: str, second: str, column: int) -> list[str]:
    """Return test rows of one model, one of whose keys is written in two ways."""
    rows = long_rows()[: len(LABELS)]
    parts = [row.split(",") for row in rows]
    for number, part in enumerate(parts):
        part[column] = first if number < 30 else second
    return [",".join(part) for part in parts]


@pytest.mark.parametrize(
    ("first", "second", "column"), [("1", "1.0", 1), ("1", "01", 1), ("test", "", 2), (" test", "test ", 2)]
)
def test_keys_that_say_the_same_are_one_set(tmp_path: Path, first: str, second: str, column: int) -> None:
    rows = two_halves(first, second, column)
    (model,) = read_models([write_csv(tmp_path / "a.csv", HEADER, rows)])
    assert len(model.sets["test"]) == 60
    again = [rows[0], *rows[1:30], rows[30].replace(",30,", ",0,", 1), *rows[31:]]
    with pytest.raises(InputError, match="row 30: id 0 stands twice"):
        read_models([write_csv(tmp_path / "a.csv", HEADER, again)])


@pytest.mark.parametrize(
    ("header", "row", "said"),
    [
        ("label,p_0,p_1", ["0.0,0.5,0.5", "cat,0.5,0.5"], r"row 1 \(line 3\), column 'label' is 'cat', no number"),
        ("label,p_0,p_1", ["0,0.5,0.5", "--1,0.5,0.5"], r"row 1 \(line 3\), column 'label' is '--1', no number"),
        ("seed,label,p_0,p_1", ["9" * 5000 + ",0,0.5,0.5"], r"seed is '9{19}…'"),
        ("seed,label,p_0,p_1", ["9223372036854775808,0,0.5,0.5"], r"seed is 9223372036854775808; .* below 2\^63"),
        ("label,p_0,p_1,prob_0", ["0,0.5,0.5,0.5"], "has the columns 'p_0' and 'prob_0', which say the same"),
        ("label,labels,p_0,p_1", ["0,1,0.5,0.5"], "has the columns 'label' and 'labels', which say the same"),
        (
            "set,label,p_0,p_1",
            ["test,0,0.5,0.5", "Test,0,0.5,0.5"],
            "row 1: set 'Test' is unknown; name sets test, val",
        ),
        ("set,label,p_0,p_1", ["test,0,0.5,0.5", "ood:,0,0.5,0.5"], "row 1: set 'ood:' is unknown"),
        (
            "set,label,p_0,p_1",
            ["test,0,0.5,0.5", "ood:../x,0,0.5,0.5"],
            "row 1: set 'ood:../x' has a name that is none",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_row(tmp_path: Path, header: str, row: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_models([write_csv(tmp_path / "a.csv", header, row)])


def named_rows(names: list[str]) -> list[str]:
    return [f"{names[label]},{cells(row)}" for label, row in zip(LABELS, PROBS, strict=True)]


@pytest.mark.parametrize("names", [["oak", "ash", "élan, 1"], ["1", "2", "4"], ["-1", "0.5", "3"]])
def test_columns_named_by_class_count_in_their_order(tmp_path, names):
    quoted = [f'"{name}"' for name in names]
    header = "label," + ",".join(f'"p_{name}"' for name in names) + ",class"
    path = write_csv(tmp_path / "named.csv", header, [f"{row},x" for row in named_rows(quoted)])
    (model,) = read_models([path])
    assert model.sets["test"].labels.tolist() == LABELS.tolist()
    assert np.array_equal(model.sets["test"].probs, PROBS)


def test_a_label_that_no_column_is_named_by_is_refused(tmp_path):
    rows = changed(named_rows(["a", "b", "c"]), 4, 0, "d")
    with pytest.raises(InputError, match=r"row 4 \(line 6\), column 'label' is 'd', none of the classes .*: a, b, c"):
        read_models([write_csv(tmp_path / "bad.csv", "label,p_a,p_b,p_c", rows)])
    with pytest.raises(InputError, match="has the columns 'p_a' and 'prob_a', which say the same"):
        read_models([write_csv(tmp_path / "twice.csv", "label,p_a,prob_a,p_c", rows)])
    with pytest.raises(InputError, match="in_set_… of other classes"):
        read_models([write_csv(tmp_path / "sets.csv", "label,p_a,p_b,in_set_c", rows)])
    np.savez(tmp_path / "bad.npz", probs=PROBS, labels=np.full(60, "d"), classes=["a", "b", "c"])
    with pytest.raises(InputError, match=r"row 0, column 'labels' is 'd', none of the classes .*: a, b, c"):
        read_models([tmp_path / "bad.npz"])


def test_columns_numbered_from_zero_leave_other_names_alone(tmp_path):
    said: list[str] = []
    rows = [f"{label},{cells(row)},0.5" for label, row in zip(LABELS, PROBS, strict=True)]
    (model,) = read_models([write_csv(tmp_path / "net.csv", "label,p_0,p_1,p_2,p_value", rows)], say=said.append)
    assert model.sets["test"].n_classes == 3
    assert said == [f"{tmp_path / 'net.csv'}: not used: p_value"]
    np.savez(tmp_path / "net.npz", probs=PROBS, labels=LABELS, classes=["a", "b", "c"])
    (model,) = read_models([tmp_path / "net.npz"])
    assert model.sets["test"].labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("classes", "labels", "read"),
    [
        (["1", "2", "3"], [3, 1, 2], [2, 0, 1]),
        (["a", "b", "c"], [2, 0, 1], [2, 0, 1]),
        (["1", "2", "other"], ["other", "2", "1"], [2, 1, 0]),
        (["1_0", "10", "1e3"], ["1_0", "10", "1e3"], [0, 1, 2]),
    ],
)
def test_labels_are_names_of_classes_wherever_these_are_numbers(tmp_path, classes, labels, read):
    np.savez(tmp_path / "net.npz", probs=PROBS[:3], labels=np.array(labels), classes=np.array(classes))
    (model,) = read_models([tmp_path / "net.npz"])
    assert model.sets["test"].labels.tolist() == read


def test_numbers_that_are_no_class_and_classes_that_say_the_same_are_refused(tmp_path):
    np.savez(tmp_path / "net.npz", probs=PROBS[:3], labels=np.array([0, 1, 2]), classes=np.array([1, 2, 3]))
    with pytest.raises(InputError, match=r"row 0, column 'labels' is '0', none of the classes .*: 1, 2, 3; pass"):
        read_models([tmp_path / "net.npz"])
    np.savez(tmp_path / "net.npz", probs=PROBS[:3], labels=np.array([0, 1, 2]), classes=np.array(["1", "01", "3"]))
    with pytest.raises(InputError, match="names the classes '1' and '01', which say the same"):
        read_models([tmp_path / "net.npz"])
