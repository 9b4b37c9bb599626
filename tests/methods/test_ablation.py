from __future__ import annotations

import subprocess
import sys

from volta.methods import ABLATION, find_method
from volta.methods.ablation import Ablation
from volta.methods.saving import parameters_of


def test_rows_are_found_by_their_key():
    assert list(ABLATION) == [row.key for row in Ablation]
    for row in Ablation:
        found = find_method(row.key)
        assert (found.title, found.origin) == (row.title, "ablation")
        assert row.settings.items() <= parameters_of(found.method).items()
        assert find_method(row.key).method is not found.method
    assert Ablation.NO_MARGIN.key == "volta-full-no-margin"


def test_rows_are_named_without_loading_torch():
    code = "import sys, volta.methods.ablation; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
