"""The page on OOD flags: its tables are those of the committed CSV file, its code runs, its figures hold."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from tools.run_pages import run_page

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("flags", ROOT / "benchmarks" / "flags.py")
FLAGS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FLAGS)
PAGE = ROOT / "docs" / "ood-flags.md"
ROWS = FLAGS.read(ROOT / "docs" / "results" / "flags" / "tables.csv")


@pytest.mark.parametrize(("half", "mode"), [("look", "cross"), ("look", "split"), ("choose", "cross")])
def test_tables_are_those_of_the_file(half, mode):
    (found,) = re.findall(rf"<!-- {half} {mode} -->\n(.*?)\n<!-- end -->", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert found == FLAGS.summary(ROWS, mode, half)


def test_no_table_has_many_false_alarms():
    new = [row for row in ROWS if row["test"] == "new rows"]
    assert len({row["table"] for row in new}) >= 20
    assert {row["draws"] for row in new} == {"10"}
    assert max(float(row["mean"]) for row in new) <= 1.5 * FLAGS.FPR


def test_means_and_quantiles_over_draws():
    row = dict.fromkeys(FLAGS.GROUPS, "a")
    (found,) = FLAGS.by_table([row | {"flagged": str(share)} for share in (0.0, 0.5, 1.0)])
    assert (found["draws"], found["mean"], found["lowest"], found["p90"]) == ("3", "0.5000", "0.0000", "0.9000")


def test_the_code_runs(tmp_path):
    names, shown = run_page(PAGE.read_text(encoding="utf-8"), PAGE.stem, tmp_path)
    assert names["test"].flags(names["join"].score(names["evidence"].scores(names["inches"])), fpr=0.05).all()
    assert "height = 68: out of range" in "".join(block.text for block in shown)
