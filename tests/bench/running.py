"""Running the real command in real processes, and reading what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from volta.bench.cells import TIMING_METRICS
from volta.bench.store import RunStore
from volta.bench.tables import result_rows

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "default"}
QUICK = ("--max-epochs", "3", "--seeds", "1,2")


def volta(*arguments, script=None, **options):
    """Run the command line to its end; ``script`` is Python to run in place of the installed command."""
    start = [sys.executable, script] if script else [sys.executable, "-m", "volta"]
    return subprocess.run(
        [*start, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=300,
        check=False,
        **options,
    )


def results(folder):
    """Return the rows of results.csv, with all digits, without what depends on the clock."""
    rows = result_rows(RunStore(Path(folder)).records())
    return [(*row[:6], repr(row[6])) for row in rows if row[5] not in TIMING_METRICS]
