"""Running the real command in real processes, and reading what it left."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "default"}
QUICK = ("--max-epochs", "3", "--seeds", "1,2")
TIMINGS = {"latency_ms", "latency_p95_ms", "peak_mb", "train_s"}


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
    """Return results.csv without what depends on the clock."""
    with (Path(folder) / "results.csv").open() as file:
        return [tuple(row.values()) for row in csv.DictReader(file) if row["metric"] not in TIMINGS]
