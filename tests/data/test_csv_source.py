"""CSV files and saved Hugging Face data sets as the source of a task."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from volta.core.errors import InputError, MissingDataError
from volta.data import find_task
from volta.data.importing import import_task
from volta.data.labelled_arrays import holds_arrays, read_labelled_arrays
from volta.data.task import LoadOptions

LINES = [
    "a,b,Label,split",
    *(f"{i},{i * 1000.5},{'xyz'[i % 3]},{'test' if i % 5 == 0 else 'train'}" for i in range(60)),
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_label_and_split_columns_are_found(source):
    assert holds_arrays(source)
    found = read_labelled_arrays(source)
    assert set(found) == {"train", "test"}
    assert len(found["test"]) == 12
    assert found["test"].inputs[found["test"].rows][:2].tolist() == [[0.0, 0.0], [5.0, 5002.5]]


def test_gzip_and_a_named_label(source, tmp_path):
    packed = tmp_path / "own.tsv.gz"
    packed.write_bytes(gzip.compress(source.read_text().replace(",", "\t").encode()))
    assert holds_arrays(packed)
    assert set(read_labelled_arrays(packed, "Label")) == {"train", "test"}
    with pytest.raises(InputError, match="has no label column"):
        read_labelled_arrays(packed, "kind")


def test_a_bad_cell_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("a,b,label\n1,2,x\n1,oops,y\n")
    with pytest.raises(InputError, match=r"bad\.csv row 1 \(line 3\), column 'b'"):
        read_labelled_arrays(path)


def test_a_csv_becomes_a_task(source, tmp_path):
    far = tmp_path / "far.csv"
    far.write_text("a,b\n" + "\n".join(f"{i},{i}" for i in range(9)))
    report = import_task(source, "own", root=tmp_path / "data", ood={"far": far}, encoder="vision")
    assert report.rows["test"] == 12
    task = find_task("own", tmp_path / "data").load()
    assert task.class_names == ("x", "y", "z")
    assert task.fit.encoder == "vision"
    assert not task.ood["far"].near


def test_small_classes_are_noted(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("a,label\n" + "\n".join(f"{i},{'rare' if i < 3 else 'usual'}" for i in range(40)))
    report = import_task(path, "few", root=tmp_path / "data")
    assert any("fewer rows than the 5 folds" in note and "rare (3)" in note for note in report.notes)


def test_a_saved_data_set_needs_the_library(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    assert holds_arrays(tmp_path)
    try:
        import datasets  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDataError, match="pip install datasets"):
            read_labelled_arrays(tmp_path)


def test_a_saved_data_set_becomes_splits(tmp_path):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    features = datasets.Features(
        {"x": datasets.Sequence(datasets.Value("float32"), 3), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    part = datasets.Dataset.from_dict({"x": rows.tolist(), "label": [0, 1] * 10}, features=features)
    datasets.DatasetDict({"train": part, "test": part.select(range(4))}).save_to_disk(str(tmp_path / "saved"))
    found = read_labelled_arrays(tmp_path / "saved")
    assert {name: len(rows) for name, rows in found.items()} == {"train": 20, "test": 4}
    assert set(found["train"].labels.tolist()) == {"no", "yes"}


def test_rows_with_gaps_are_left_out_on_request(tmp_path):
    path = tmp_path / "gaps.csv"
    rows = [f"{i},{i % 7},{i % 3}" for i in range(60)]
    rows[7], rows[9] = "7,,1", "nan,2,0"
    path.write_text("\n".join(["a,b,y", *rows]), encoding="utf-8")
    with pytest.raises(InputError, match=r"row 7 .*column 'b' is empty; fill it or drop the row"):
        import_task(path, "gaps", root=tmp_path)
    report = import_task(path, "gaps", root=tmp_path, skip_bad=True)
    assert sum(dict(report.rows).values()) == 58
    assert any("left out 2 rows" in note for note in report.notes)


def test_two_columns_that_may_be_labels_are_refused(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("a,Label,target\n1,2,2\n2,1,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="several columns that may be labels: Label, target; name one with --label"):
        read_labelled_arrays(path)
    assert read_labelled_arrays(path, "target")["all"].inputs.shape == (2, 2)


def test_a_delimiter_is_not_looked_for_within_quotes(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('"min; max; mean",b,y\n1,2,0\n3,4,1\n', encoding="utf-8")
    assert read_labelled_arrays(path)["all"].columns == ("min; max; mean", "b")


def test_a_gap_does_not_blur_the_rest_of_its_column(tmp_path):
    path = tmp_path / "times.csv"
    rows = [f"{1_700_000_000 + i},{i % 3}" for i in range(60)]
    rows[7] = ",1"
    path.write_text("\n".join(["time,y", *rows]), encoding="utf-8")
    import_task(path, "times", root=tmp_path, skip_bad=True)
    task = find_task("times", tmp_path).load("features", LoadOptions(tmp_path))
    parts = (task.fit.train, task.fit.val, task.fit.cal, task.test)
    assert len(np.unique(np.concatenate([part.inputs[:, 0] for part in parts]))) == 59
