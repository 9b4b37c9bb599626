"""Running the real command in real processes, and reading what it left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from volta.bench.records import MANIFEST_FILE
from volta.bench.store import MANIFEST, RunStore, result_rows
from volta.core.checksummed import encode_object, read_object
from volta.metrics import METRICS

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "default"}
TIMED = frozenset(name for name, metric in METRICS.items() if metric.timing)
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


def write_methods(methods, folder):
    """Write methods to ``folder/mine.py``; a command run in that folder takes them as ``mine:Class``."""
    head = """
        import os, signal
        from dataclasses import dataclass
        from volta.methods.softmax import Softmax
        """
    (folder / "mine.py").write_text(textwrap.dedent(head) + textwrap.dedent(methods))


def edit_manifest(folder, change):
    """Change what a run's manifest says, with a checksum that fits."""
    path = Path(folder) / MANIFEST
    value = read_object(path, MANIFEST_FILE, dict[str, Any])
    change(value)
    path.write_bytes(encode_object(MANIFEST_FILE, value))


def results(folder):
    """Return the rows of results.csv, with all digits, without what depends on the clock."""
    rows = result_rows(RunStore(Path(folder)).records())
    return [(*row[:6], repr(row[6])) for row in rows if row[5] not in TIMED]
