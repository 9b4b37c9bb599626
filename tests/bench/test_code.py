"""A cell's key follows the code that decides its numbers, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import volta

SCRIPT = """
from volta.bench.code import code_of
from volta.methods import find_method
print(code_of(find_method("energy").method), code_of(find_method("knn").method))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    copy = tmp_path_factory.mktemp("source") / "volta"
    shutil.copytree(Path(volta.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def codes(source):
    environment = {**os.environ, "PYTHONPATH": str(source.parent)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("changed", "energy", "knn"),
    [
        ("methods/energy.py", True, False),
        ("methods/scores.py", True, True),
        ("networks/loop.py", True, True),
        ("metrics/calibration.py", True, True),
        ("bench/efficiency.py", True, True),
        ("report/run.py", False, False),
    ],
)
def test_a_change_is_seen_where_it_matters(source, changed, energy, knn):
    path = source / changed
    before, text = codes(source), path.read_text(encoding="utf-8")
    path.write_text(text + "\n# changed\n", encoding="utf-8")
    after = codes(source)
    path.write_text(text, encoding="utf-8")
    assert [one != other for one, other in zip(before, after, strict=True)] == [energy, knn]
