import subprocess
import sys

import numpy as np

from tests.records import store_again
from volta.stats.bootstrap import bootstrap_tables
from volta.stats.results import load_tables

from .builders import make_store


def test_other_test_rows_are_never_paired(tmp_path):
    store = make_store(tmp_path / "run", {"volta": 3.0, "energy": 1.0, "swag": 2.0})
    cell = load_tables(store)[0].cells["swag", 42]
    arrays = store.read_arrays(cell)
    arrays["test/labels"] = np.roll(arrays["test/labels"], 1)
    store_again(store, store.read_record(cell), arrays)
    found = bootstrap_tables(store, load_tables(store), 10)
    assert found == {("digits", "fair"): "rows not resampled: swag seed 42 was scored on other test rows"}


def test_nothing_heavy_is_imported():
    code = (
        "import sys, volta.stats, volta.paper; "
        "bad = {'torch', 'matplotlib', 'pandas', 'volta.figures'} & set(sys.modules); print(bad); sys.exit(bool(bad))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
