"""The pages that a new contributor reads first name files and calls that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "volta"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALK = re.findall(r"^\| `([\w.]+)` \| `([\w/]+\.py)` \|", PAGE, flags=re.MULTILINE)


def test_every_file_on_the_page_exists():
    named = set(re.findall(r"`([\w/]+/[\w/]*\w+\.(?:py|js|html))`", PAGE))
    assert len(named) > 15
    assert [name for name in sorted(named) if not (SOURCE / name).is_file()] == []


def test_every_package_is_on_the_page():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert packages == set(re.findall(r"^\| `(\w+)/` \|", PAGE, flags=re.MULTILINE))


def test_the_walk_from_the_command_to_the_loop_takes_twelve_calls():
    walk = WALK[: WALK.index(("train", "networks/training.py")) + 1]
    assert len(walk) == 12
    assert walk[0] == ("main", "cli/main.py")


@pytest.mark.parametrize(("call", "file"), WALK)
def test_each_step_of_the_walk_is_defined_where_the_page_says(call, file):
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    scope = tree.body
    for name in call.split("."):
        found = [node for node in scope if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
        assert found, f"{file} defines no {call}"
        scope = found[0].body
