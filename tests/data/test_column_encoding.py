from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.data.column_encoding import N_SHARED, UnreadCellsWarning, fit_schema, named_rows
from volta.data.frames import is_plain, read_table

TABLE = {
    "mass": [3750.0, None, 3250.0, 4000.5],
    "island": ["Dream", "Biscoe", None, "Dream"],
    "adult": [True, False, None, True],
    "seen": [dt.datetime(2024, 2, 29, 18), None, dt.datetime(2025, 1, 1), dt.datetime(2023, 3, 4)],
    "count": [1, 2, 3, 4],
    "sex": ["m", "f", "m", "f"],
}
ROWS = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]


def frames():
    """The same table in every form that is at hand."""
    yield ROWS
    yield {name: [str(value) for value in values] for name, values in TABLE.items()}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    yield from (frame, frame.convert_dtypes(), frame.astype(object), frame.astype({"sex": "category"}))
    pyarrow = pytest.importorskip("pyarrow")
    yield pyarrow.table(TABLE)
    yield pyarrow.table(frame.astype({"sex": "category"}))


def test_every_form_of_a_table_has_one_schema_and_one_encoding():
    schema = fit_schema(TABLE)
    assert [column.kind for column in schema.columns] == [
        "number", "category", "boolean", "date", "number", "category"
    ]  # fmt: skip
    encoded = schema.encode(TABLE)
    assert np.isfinite(encoded).all()
    assert encoded.shape == (4, len(schema.encoded_names)) == (4, len(schema.sources))
    assert not encoded[:, schema.flags].any()
    for form in frames():
        assert fit_schema(form) == schema
        assert np.array_equal(schema.encode(form), encoded)


def test_polars_frames_are_read():
    polars = pytest.importorskip("polars")
    schema = fit_schema(TABLE)
    assert fit_schema(polars.DataFrame(TABLE)) == schema
    assert np.array_equal(schema.encode(polars.DataFrame(TABLE)), schema.encode(TABLE))


def test_what_each_kind_becomes():
    schema = fit_schema(TABLE)
    first, second, *_ = (dict(zip(schema.encoded_names, row, strict=True)) for row in schema.encode(TABLE).tolist())
    assert (first["mass"], second["mass"], second["mass is missing"]) == (3750.0, 3750.0, 1.0)
    assert (first["island=Dream"], first["island=Biscoe"], second["island=Biscoe"]) == (1.0, 0.0, 1.0)
    assert (first["adult"], second["adult"]) == (1.0, 0.0)
    assert [first[f"seen{part}"] for part in ("", " month", " day", " weekday", " hour")] == [19782.75, 2, 29, 3, 18]
    assert second["seen is missing"] == 1.0


def test_unlike_cells_are_flagged_and_named():
    schema = fit_schema(TABLE)
    row = ROWS[0] | {"island": "Atlantis", "mass": np.inf, "adult": "maybe", "count": "many", "seen": 3.0, "sex": None}
    encoded = schema.encode(row)
    assert np.isfinite(encoded).all()
    assert encoded[0, schema.flags].tolist() == [1.0] * 6
    said = [str(misfit) for misfit in schema.misfits(schema.match(read_table(row)), encoded)]
    assert said[1] == "column 'island' is 'Atlantis'; training rows have one of 'Dream', 'Biscoe'"
    assert said[5] == "column 'sex' is missing; training rows have one of 'f', 'm'"


def test_columns_are_found_by_name():
    schema = fit_schema(TABLE)
    turned = {name: TABLE[name] for name in reversed(TABLE)} | {"more": [1, 2, 3, 4]}
    assert np.array_equal(schema.encode(turned), schema.encode(TABLE))
    with pytest.raises(InputError, match="X lacks columns 'mass', 'sex'; the table fitted had mass, island"):
        schema.encode({name: TABLE[name] for name in ("island", "adult", "seen", "count")})
    with pytest.raises(InputError, match="X has 2 features, but 6 were fitted"):
        schema.encode([[1.0, "a"]])


def test_all_columns_that_cannot_be_features_are_named_at_once():
    table = {
        "name": [f"bird {i}" for i in range(40)],
        "tags": [[i] for i in range(40)],
        "mass": [np.inf, *range(39)],
        "sex": ["m", "f"] * 20,
    }
    with pytest.raises(InputError, match=r"3 columns.*'name' holds free text.*'tags' holds.*'mass' holds infinity"):
        fit_schema(table)


def test_few_cells_that_are_no_numbers_are_missing_in_a_column_of_numbers():
    cells = [str(i) for i in range(60)]
    cells[7] = "broken"
    with pytest.warns(UnreadCellsWarning, match="column 'a' has 1, first 'broken'"):
        schema = fit_schema({"a": cells})
    assert (schema.columns[0].kind, schema.columns[0].missing) == ("number", True)


def test_many_levels_share_columns_and_single_ones_are_unknown_to_the_others():
    levels = [f"l{i}" for i in range(50)] * 3 + ["once"]
    schema = fit_schema({"a": levels})
    assert schema.encode({"a": levels}).shape[1] == N_SHARED + 1
    assert schema.encode({"a": ["l49", "once", "new"]})[:, schema.flags[0]].tolist() == [0.0, 0.0, 1.0]
    training = schema.encode({"a": levels}, training=True)
    assert training[:, schema.flags[0]].tolist() == [0.0] * 150 + [1.0]


def test_an_empty_column_says_where_there_is_something():
    schema = fit_schema({"a": [None, None], "b": [1.0, 2.0]})
    assert schema.encode({"a": [None, 3.0], "b": [1.0, 1.0]})[:, :3].tolist() == [[0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]


def test_encoded_rows_become_tables_again():
    schema = fit_schema(TABLE)
    encoded = schema.encode(TABLE)
    assert np.array_equal(schema.encode_table(schema.decode(encoded)), encoded)


def test_plain_matrices_need_no_schema():
    pandas = pytest.importorskip("pandas")
    rows = np.arange(6.0).reshape(3, 2)
    plain = [rows, rows.tolist(), rows.astype(object), rows.astype(int), pandas.DataFrame(rows), rows.astype(str)]
    assert all(map(is_plain, plain))
    gap = rows.copy()
    gap[1, 1] = np.nan
    other = [gap, gap.tolist(), pandas.DataFrame(gap), [["a", 1.0]], {"a": [1.0]}, np.zeros(2, dtype=[("a", "f8")])]
    assert not any(map(is_plain, other))


def test_columns_of_numbers_are_taken_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [1.0, 2.0], "c": [0.0, 0.0], "a": [3.0, 4.0]})
    assert named_rows(frame, ["a", "b"]).columns.tolist() == ["a", "b"]
    assert named_rows({"b": 1, "a": 3}, ["a", "b"]).tolist() == [[3.0, 1.0]]
    assert named_rows(frame.iloc[0], ["a", "b"]).tolist() == [[3.0, 1.0]]
