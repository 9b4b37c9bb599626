"""The three stamps follow the code that decides weights, predictions and metrics, and no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import volta

METHODS = ("energy", "knn", "conformal", "volta")
# Changes one file after another of the package it runs from and prints what changed with it.
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
import volta
from volta.bench.keys import stamps_of
from volta.core import source_stamp
from volta.core.types import FitData, Split
from volta.methods import find_method
from volta.networks.trainer import Trainer

class Keys:
    def claim(self, key, device):
        self.key = key
        raise LookupError

def network_key():
    rows = Split(np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=np.int64))
    keys = Keys()
    try:
        Trainer(seed=0, store=keys).network(FitData(rows, rows, rows, n_classes=1))
    except LookupError:
        return keys.key

def stamps():
    for cached in (source_stamp._stamp, source_stamp._used_by, source_stamp._parsed):
        cached.cache_clear()
    found = {name: stamps_of(find_method(name).method) for name in METHODS}
    any_method = found["energy"]
    return {
        "training": any_method.training, "scoring": any_method.scoring, "network": network_key(),
        **{name: one.method for name, one in found.items()},
    }

METHODS = json.loads(sys.argv[1])
package = Path(volta.__file__).parent
before = stamps()
changed = {}
for edit in json.loads(sys.argv[2]):
    path = package / edit.removesuffix(":docstring")
    text = path.read_text(encoding="utf-8")
    new = text.replace('\"\"\"', '\"\"\"In short: ', 1) if edit.endswith(":docstring") else text + "\\nCHANGED = 1\\n"
    path.write_text(new, encoding="utf-8")
    after = stamps()
    path.write_text(text, encoding="utf-8")
    changed[edit] = sorted(name for name in before if before[name] != after[name])
assert stamps() == before
print(json.dumps(changed))
"""
EVERY_METHOD = {*METHODS}
WEIGHTS = {"training", "network"}
EXPECTED = {
    "networks/loop.py": WEIGHTS | EVERY_METHOD,
    # A comment or docstring changes the stamp too: a source is taken as it is, so that nothing is judged harmless.
    "networks/loop.py:docstring": WEIGHTS | EVERY_METHOD,
    "networks/heads.py": WEIGHTS | EVERY_METHOD,
    "networks/augment.py": WEIGHTS | EVERY_METHOD,
    "networks/network.py": EVERY_METHOD,
    "core/seeding.py": WEIGHTS | EVERY_METHOD,
    "core/quantile.py": {"conformal"},
    "methods/base.py": EVERY_METHOD,
    "methods/energy.py": {"energy"},
    "methods/knn.py": {"knn"},
    "methods/volta.py": {"volta"},
    "methods/scaling.py": {"volta", "scoring"},
    "methods/ablation.py": set(),
    "methods/saving.py": set(),
    "methods/__init__.py": set(),
    "metrics/calibration.py": {"scoring"},
    "metrics/summary.py": {"scoring"},
    "metrics/__init__.py": set(),
    "bench/scoring.py": {"scoring"},
    "bench/evaluate.py": EVERY_METHOD,
    "bench/efficiency.py": set(),
    "bench/store.py": set(),
    "report/run.py": set(),
}


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    copy = tmp_path_factory.mktemp("source") / "volta"
    shutil.copytree(Path(volta.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(METHODS), json.dumps(list(EXPECTED))],
        env={**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("edit", EXPECTED)
def test_a_change_is_seen_where_it_matters(changed, edit):
    assert set(changed[edit]) == EXPECTED[edit]
