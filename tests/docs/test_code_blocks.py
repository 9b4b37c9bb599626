"""Code that the other pages print: what needs no data is run, and what does names only what exists."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
from tools.run_pages import BLOCK, run_page

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


def python_blocks(page):
    blocks = BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))
    return [block["code"] for block in blocks if block["kind"] == "python"]


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_everything_that_a_page_imports_from_volta_exists(page):
    for code in python_blocks(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "volta":
                module = importlib.import_module(node.module)
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_the_page_on_metrics_runs(tmp_path):
    names, _ = run_page((ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), "metrics", tmp_path)
    assert {"test", "ood:svhn", "near:", "far:"} <= set(names["result"])


def test_the_landing_pages_example_is_readmes():
    (code,) = python_blocks("docs/index.md")
    readme = python_blocks("README.md")[0].splitlines()
    assert [line for line in code.splitlines() if line not in readme] == []
    assert len([line for line in code.splitlines() if line.strip()]) == 10


def test_openoods_scores_are_evaluated_as_documented(tmp_path):
    names, shown = run_page((ROOT / "docs" / "from-openood.md").read_text(encoding="utf-8"), "from-openood", tmp_path)
    assert names["result"].metrics["far:"]["auroc"] > names["result"].metrics["near:"]["auroc"]
    assert "".join(block.text for block in shown).startswith("near AUROC 0.")
