"""The classifier page's table of cross-fitting is that of the committed CSV file."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("cross", ROOT / "benchmarks" / "cross.py")
CROSS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(CROSS)


def test_the_table_is_that_of_the_file():
    with (ROOT / "docs" / "results" / "cross" / "tables.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    page = (ROOT / "docs" / "classifier.md").read_text("utf-8")
    (found,) = re.findall(r"<!-- cross -->\n(.*?)\n<!-- end -->", page, flags=re.DOTALL)
    assert found == CROSS.summary(rows)
    assert len(rows) == 2 * 14 * 5


def test_a_table_that_is_installed_is_measured():
    found = CROSS.measure("wine", 0, "split", "linear")
    assert list(found) == list(CROSS.FIELDS)
    assert found["accuracy"] > 0.8
    assert found["n"] == 106
