"""The page on audits prints what its code prints, and every library's table has its file."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "audit.md"


def test_the_page_shows_what_its_code_prints(tmp_path, monkeypatch, capsys):
    """Five seconds: two audits of twelve attacks."""
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, tmp_path)
    printed = capsys.readouterr().out.splitlines()
    shown = re.search(r"<!-- output -->\n```text\n(.*?)```\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert printed[:-1] == shown[1].splitlines()


def test_every_file_of_results_has_its_table_and_its_rules():
    files = {path.stem for path in (DOCS / "results" / "audit").glob("*.csv")}
    assert files == set(re.findall(r"<!-- audit (\w+) -->", PAGE.read_text(encoding="utf-8")))
    assert files == {path.stem[3:] for path in (DOCS.parent / "benchmarks" / "audit").glob("of_*.py")}
