"""The gallery has a page for each script, each with a title, a summary and a plot; the reference's tables are complete."""

from __future__ import annotations

import re

import pytest
from tools import gallery, reference_tables

PAGES = gallery.gallery_pages()


def test_every_script_has_a_card():
    scripts = {path.stem for path in gallery.FOLDER.glob("*.py")}
    assert set(PAGES) == scripts
    assert len(PAGES) >= 12


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_has_a_title_a_summary_and_a_plot(name):
    title, summary = gallery.title_and_summary(PAGES[name])
    assert 2 < len(title.split()) < 10
    assert 3 < len(summary.split()) <= 25
    assert f"[{title}]({name}.py)" in (gallery.FOLDER / "index.md").read_text(encoding="utf-8")
    assert PAGES[name].count("plt.show()") == 1


def test_every_command_is_on_its_page_with_its_options():
    page = reference_tables.cli_page()
    commands = re.findall(r"^### `volta ([\w -]+)`$", page, flags=re.MULTILINE)
    assert {"fit", "bench", "evaluate", "doctor", "serve", "data get", "data import"} <= set(commands)
    assert "| `--methods TEXT` | `standard` |" in page
    assert "| `--out PATH` | required |" in page


def test_every_method_has_needs_cost_and_paper():
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", reference_tables.methods_page(), flags=re.MULTILINE)
    from volta.methods import METHODS

    assert {name for name, _ in rows} == set(METHODS)
    cells = {name: [cell.strip() for cell in row.split("|")] for name, row in rows}
    assert cells["knn"][1:4] == ["features", "score", "1 pass + n·w"]
    assert cells["energy"][4].startswith("Liu et al. (2020)")
    assert all(all(row) and max(map(len, row)) <= 120 for row in cells.values())
