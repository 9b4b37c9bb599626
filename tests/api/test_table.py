from __future__ import annotations

import csv
import io

import pytest

from volta import InputError, MissingDataError, Table

TABLE = Table(("method", "n", "value"), (("a", 3, 0.25), ("<b>", 2, None), ("a", 1, 1.0)))


def test_columns_rows_and_choices():
    assert len(TABLE) == 3
    assert TABLE.column("n") == (3, 2, 1)
    assert TABLE.where(method="a", n=1).rows == (("a", 1, 1.0),)
    assert list(TABLE)[1] == {"method": "<b>", "n": 2, "value": None}
    with pytest.raises(InputError, match="there is no column 'valu'; did you mean value"):
        TABLE.column("valu")
    with pytest.raises(InputError, match="there is no column 'x'"):
        TABLE.where(x=1)


def test_it_becomes_a_frame_where_pandas_is():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = TABLE.to_pandas()
    assert list(frame.columns) == list(TABLE.columns)
    assert frame["n"].tolist() == [3, 2, 1]
    assert pandas.isna(frame["value"][1])


def test_it_becomes_a_frame_where_polars_is_and_says_so_where_not():
    try:
        import polars  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDataError, match="pip install polars"):
            TABLE.to_polars()
    else:
        assert TABLE.to_polars()["n"].to_list() == [3, 2, 1]


def test_it_shows_itself():
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows == [["method", "n", "value"], ["a", "3", "0.25"], ["<b>", "2", ""], ["a", "1", "1.0"]]
    page = TABLE._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert str(TABLE).splitlines()[0].split() == ["method", "n", "value"]
    long = Table(("n",), tuple((n,) for n in range(100)))
    assert "and 40 more rows" in str(long)
    assert "and 40 more rows" in long._repr_html_()
