"""The page on audits prints what its code prints, and every library's table has its file."""

from __future__ import annotations

import re
from pathlib import Path

from tools.run_pages import run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "audit.md"


def test_the_page_shows_what_its_code_prints(tmp_path):
    """Five seconds: two audits of twelve attacks."""
    text = PAGE.read_text(encoding="utf-8")
    printed = "".join(block.text for block in run_page(text, PAGE.stem, tmp_path)[1]).splitlines()
    shown = re.search(r"<!-- output -->\n```text\n(.*?)```\n<!-- end -->", text, re.DOTALL)
    assert printed[:-1] == shown[1].splitlines()


def test_every_file_of_results_has_its_table_and_its_rules():
    files = {path.stem for path in (DOCS / "results" / "audit").glob("*.csv")}
    assert files == set(re.findall(r"<!-- audit (\w+) -->", PAGE.read_text(encoding="utf-8")))
    assert files == {path.stem[3:] for path in (DOCS.parent / "benchmarks" / "audit").glob("of_*.py")}
