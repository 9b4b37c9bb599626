"""The tables of docs/volta-plus.md are what `benchmarks/heads.py` prints of the committed table file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("head_table", ROOT / "benchmarks" / "head_table.py")
HEADS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(HEADS)
ROWS = HEADS.read_table(ROOT / "docs" / "results" / "heads" / "heads.csv")


def page() -> str:
    return (ROOT / "docs" / "volta-plus.md").read_text(encoding="utf-8")


def test_the_pages_tables_are_those_of_the_table_file() -> None:
    tables = HEADS.tables_of(ROWS)
    assert len(tables) == 8
    assert [table for table in tables if table not in page()] == []


def test_volta_plus_is_measured_on_every_task_and_once() -> None:
    keys = [tuple(row[field] for field in HEADS.FIELDS[:5]) for row in ROWS]
    assert len(set(keys)) == len(keys)
    tasks = {row["task"] for row in ROWS}
    assert {row["task"] for row in ROWS if row["method"] == "volta_plus"} == tasks
    assert set(HEADS.STORED) <= tasks


def test_rows_that_are_known_are_not_asked_for_again() -> None:
    row = dict.fromkeys(HEADS.FIELDS, "") | {"task": "digits", "method": "knn", "seed": "42"}
    assert HEADS.missing([row], "digits", ["knn", "vim"], [42], []) == ["vim"]
    assert HEADS.missing([row], "digits", ["knn", "vim"], [42, 123], []) == ["knn", "vim"]
    assert HEADS.missing([row], "digits", ["knn"], [42], ["knn"]) == ["knn"]
    assert HEADS.missing([row], "cifar10", ["knn"], [42], []) == ["knn"]
