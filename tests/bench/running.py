"""Running the command, in this process or in one of its own, and reading what it left."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from volta.bench.records import MANIFEST_FILE
from volta.bench.store import MANIFEST, RunStore, result_rows
from volta.cli.main import main
from volta.core.checksummed import encode_object, read_object
from volta.metrics import METRICS

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "default"}
TIMED = frozenset(name for name, metric in METRICS.items() if metric.timing)
QUICK = ("--max-epochs", "3", "--seeds", "1,2")


def volta(*arguments):
    """Run the command line to its end in this process; return its exit code and what it printed."""
    words = ["volta", *map(str, arguments)]
    out, errors, n_threads = io.StringIO(), io.StringIO(), torch.get_num_threads()
    try:
        with (
            mock.patch.object(sys, "argv", words),
            mock.patch.dict(os.environ, COLUMNS=ENVIRONMENT["COLUMNS"]),
            warnings.catch_warnings(),
            redirect_stdout(out),
            redirect_stderr(errors),
        ):
            # Here pytest makes warnings errors; in a user's shell they are lines.
            warnings.simplefilter("default")
            main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        torch.set_num_threads(n_threads)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def volta_process(*arguments, script=None, **options):
    """Run the command line in a process of its own; ``script`` is Python to run in place of the installed command.

    A process costs about three seconds before it does anything, so this is for tests of what only a process shows.
    """
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
