"""The command line: one module per group of commands."""

from __future__ import annotations

import sys

from volta.core.processes import leave_the_rest, settle

_PACKAGES = ("jinja2", "matplotlib", "rich", "typer")


def main() -> None:
    """Run the ``volta`` command, or say how to get the packages it needs beyond the library's."""
    settle()
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
    try:
        run()
    finally:
        leave_the_rest()
