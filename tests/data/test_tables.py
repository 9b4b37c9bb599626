"""Tables in CSV, npz and Parquet: the same columns back, in chunks; errors that name file, row and column."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

from volta.core.errors import InputError, MissingDataError
from volta.data.tables import as_labels, new_table, open_table, read_columns

CELLS = "id,age,pay\na,1.5,-2e3\nb,2,7\nc,3,0.1\n"


@pytest.fixture
def columns():
    random = np.random.default_rng(0)
    return {
        "id": np.array([f"row {i}, “{'x' * (i % 7)}”" for i in range(50)]),
        "label": np.arange(50) % 3,
        "value": random.normal(size=50),
        "probs": random.dirichlet(np.ones(3), size=50),
    }


def put(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".npz", ".parquet"])
def test_what_is_written_in_pieces_is_read_in_chunks(tmp_path, columns, ending):
    path = tmp_path / f"table{ending}"
    with new_table(path) as writer:
        for part in (slice(0, 20), slice(20, 50)):
            writer.write({name: values[part] for name, values in columns.items()})
    table = open_table(path)
    text = ending in (".csv", ".tsv")
    assert table.names == (("id", "label", "value", *(f"probs_{k}" for k in range(3))) if text else tuple(columns))
    asked = {"id": "any", "label": "any", "value": "number", "probs": "number"}
    if text:
        asked = {name: asked.get(name, "number") for name in table.names}
    chunks = list(table.chunks(asked, rows=16))
    assert [chunk.start for chunk in chunks] == [0, 16, 32, 48] or ending == ".parquet"
    assert chunks[-1].done == 1.0
    whole = read_columns(table, asked)
    assert whole["id"].tolist() == columns["id"].tolist()
    assert as_labels(whole["label"]).tolist() == columns["label"].tolist()
    assert (whole["value"] == columns["value"]).all()
    probs = np.column_stack([whole[f"probs_{k}"] for k in range(3)]) if text else whole["probs"]
    assert (probs == columns["probs"]).all()
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_a_header_among_the_rows_is_refused(tmp_path):
    for path in (put(tmp_path, CELLS * 2), put(tmp_path, gzip.compress(CELLS.encode()) * 2, "table.csv.gz")):
        with pytest.raises(InputError, match=r"row 3 \(line 5\) repeats the header; were two files"):
            read_columns(open_table(path), {"id": "any", "age": "number"})


def test_an_error_leaves_no_file(tmp_path, columns):
    def write_and_fail():
        with new_table(tmp_path / "table.npz") as writer:
            writer.write(columns)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


def test_what_stands_is_not_replaced_unless_asked(tmp_path):
    path = put(tmp_path, CELLS)
    with pytest.raises(InputError, match="exists; name another file, or pass --force"), new_table(path):
        pass
    with new_table(path, overwrite=True) as writer:
        writer.write({"a": np.arange(2)})
    assert path.read_text() == '"a"\n0\n1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CELLS.replace("2,7", "two,7"), r"table.csv row 1 \(line 3\), column 'age' is 'two', not a number"),
        (CELLS.replace("2,7", ",7"), r"row 1 \(line 3\), column 'age' is empty"),
        (CELLS.replace("0.1", "nan"), r"row 2 \(line 4\), column 'pay' is missing \(NaN\)"),
        (CELLS.replace("0.1", "inf"), r"row 2 \(line 4\), column 'pay' is inf"),
        (CELLS.replace("0.1", "1_000"), r"row 2 \(line 4\), column 'pay' is '1_000', not a number"),
        (CELLS.replace("2,7", "2"), r"row 1 \(line 3\) has 2 cells but the header names 3"),
        ("id,age,age\n1,2,3\n", "two columns 'age'"),
        ("1,2,3\n1,2,3\n", "begins with numbers; its first line has to name the columns"),
        ("id,,pay\n1,2,3\n", "column 1 has no name"),
        ("", "empty first line"),
        ("id,age,pay\n", "has no rows"),
        ("id,age,pay\nä,1,2\n".encode("latin-1"), "is not UTF-8 text"),
        ('id,age,pay\n"a,1,2\n', "can be read .*unexpected end of data"),
    ],
)
def test_a_bad_csv_is_refused_by_place(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_columns(open_table(put(tmp_path, text)), {"age": "number", "pay": "number"})


def test_infinite_scores_are_allowed_where_asked(tmp_path):
    table = open_table(put(tmp_path, CELLS.replace("0.1", "-inf")))
    assert read_columns(table, {"pay": "score"})["pay"].tolist() == [-2000.0, 7.0, -np.inf]


@pytest.mark.parametrize(
    "text",
    [
        CELLS,
        CELLS.replace(",", ";"),
        CELLS.replace(",", "\t"),
        CELLS.replace("\n", "\r\n"),
        "\ufeff" + CELLS,
        CELLS.replace("\nb", "\n\nb"),
        CELLS.replace("a,1.5", '"a","1.5"').rstrip("\n"),
    ],
)
def test_csv_in_the_ways_programs_write_it(tmp_path, text):
    found = read_columns(open_table(put(tmp_path, text)), {"age": "number", "pay": "number", "id": "any"})
    assert found["id"].tolist() == ["a", "b", "c"]
    assert found["age"].tolist() == [1.5, 2.0, 3.0]
    assert found["pay"].tolist() == [-2000.0, 7.0, 0.1]


def test_gzipped_csv_and_a_name_over_two_lines(tmp_path):
    path = put(tmp_path, gzip.compress(b'id,"the\nage"\n"a\nb",1\nc,2\n'), "table.csv.gz")
    found = read_columns(open_table(path), {"id": "any", "the\nage": "number"})
    assert (found["id"].tolist(), found["the\nage"].tolist()) == (["a\nb", "c"], [1.0, 2.0])


def test_a_name_that_is_missing_gets_a_suggestion(tmp_path):
    table = open_table(put(tmp_path, CELLS))
    with pytest.raises(InputError, match=r"--label is 'ages', which .* lacks; did you mean 'age'"):
        table.column("ages", "--label")
    with pytest.raises(InputError, match="it has id, age, pay"):
        table.column("species", "--label")


def test_files_of_no_kind_or_not_there(tmp_path):
    with pytest.raises(InputError, match=r"is no kind of table; its name has to end in one of .csv"):
        open_table(tmp_path / "table.xlsx")
    with pytest.raises(MissingDataError, match="does not exist"):
        open_table(tmp_path / "table.csv")
    for ending in (".npz", ".parquet"):
        with pytest.raises(InputError, match=r"cannot be read|can be read"):
            open_table(put(tmp_path, CELLS, f"table{ending}"))


def test_chunks_have_the_asked_rows_however_the_file_is_read(tmp_path):
    path = tmp_path / "long.csv"
    values = np.random.default_rng(0).normal(size=60_000)
    with new_table(path) as writer:
        writer.write({"id": np.arange(60_000), "value": values})
    assert path.stat().st_size > 1 << 20
    chunks = list(open_table(path).chunks({"value": "number"}, rows=25_000))
    assert [(chunk.start, len(chunk)) for chunk in chunks] == [(0, 25_000), (25_000, 25_000), (50_000, 10_000)]
    assert (np.concatenate([chunk.columns["value"] for chunk in chunks]) == values).all()
    put(tmp_path, path.read_text().replace("\n59000,", "\n59000,x"), "bad.csv")
    with pytest.raises(InputError, match=r"row 59000 \(line 59002\), column 'value' is 'x"):
        read_columns(open_table(tmp_path / "bad.csv"), {"value": "number"})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_every_layout(tmp_path, save):
    random = np.random.default_rng(0)
    rows = random.normal(size=(40, 3))
    save(tmp_path / "a.npz", x=np.asfortranarray(rows), half=rows.astype(np.float16), y=np.arange(40), one=np.array(1))
    table = open_table(tmp_path / "a.npz")
    assert table.names == ("x", "half", "y")
    found = read_columns(table, {"x": "number", "half": "number", "y": "any"})
    assert (found["x"] == rows).all()
    assert (found["half"] == rows.astype(np.float16)).all()
    assert found["half"].dtype == np.float32
    assert found["y"].dtype == np.int64


def test_npz_errors_name_the_array(tmp_path):
    rows = np.zeros((5, 2))
    rows[3, 1] = np.nan
    np.savez(tmp_path / "a.npz", x=rows, y=np.arange(4), names=np.array(list("abcde")), o=np.array([{}] * 5))
    table = open_table(tmp_path / "a.npz")
    for asked, message in (
        ({"x": "number"}, "a.npz row 3, column 'x' is missing"),
        ({"x": "number", "y": "any"}, "'y' has 4 rows but 'x' has 5"),
        ({"names": "number"}, "'names' is <U1, not numbers"),
        ({"o": "any"}, "'o' holds Python objects"),
    ):
        with pytest.raises(InputError, match=message):
            read_columns(table, asked)


def test_a_damaged_npz_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(1000.0))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[4000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(InputError, match="is damaged"):
        read_columns(open_table(tmp_path / "a.npz"), {"x": "number"})


def test_parquet_kinds_and_errors(tmp_path):
    import pyarrow
    from pyarrow import parquet

    columns = {
        "name": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
        "hole": pyarrow.array([1, None, 3]),
        "list": pyarrow.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "ragged": pyarrow.array([[1.0], [3.0, 4.0], [5.0]]),
        "flag": pyarrow.array([True, False, True]),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet")
    assert [(column.name, column.numeric, column.wide) for column in table.columns] == [
        ("name", False, False),
        ("hole", True, False),
        ("list", True, True),
        ("ragged", True, True),
        ("flag", True, False),
    ]
    found = read_columns(table, {"name": "any", "list": "number", "flag": "number"})
    assert found["name"].tolist() == ["a", "b", "a"]
    assert found["list"].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert found["flag"].tolist() == [1.0, 0.0, 1.0]
    for name, message in (
        ("hole", "a.parquet row 1, column 'hole' is empty"),
        ("ragged", "row 1, column 'ragged' has 2 numbers, others have 1"),
        ("name", "column 'name' is not numeric"),
    ):
        with pytest.raises(InputError, match=message):
            read_columns(table, {name: "number"})


def test_a_file_that_vanishes_while_it_is_read_is_named(tmp_path):
    table = open_table(put(tmp_path, CELLS))
    os.remove(table.path)
    with pytest.raises(FileNotFoundError, match=r"table\.csv"):
        read_columns(table, {"age": "number"})
