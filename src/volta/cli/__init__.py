"""The command line: one module per group of commands."""

from __future__ import annotations

import gc
import sys

from volta.core.processes import keep_freed_memory

_PACKAGES = ("jinja2", "matplotlib", "rich", "typer")


def main() -> None:
    """Run the ``volta`` command, or say how to get the packages it needs beyond the library's."""
    # With Python's threshold of 700, `volta --help` takes 12 % more processor time (benchmarks/first_impressions.py).
    gc.set_threshold(10_000)
    keep_freed_memory()
    try:
        from volta.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        print(
            f"error: the volta command needs {error.name}; install it with: pip install 'volta-uq[bench]'",
            file=sys.stderr,
        )
        sys.exit(2)
    run()
