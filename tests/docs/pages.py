"""Runs a page of the documentation as a reader would: its blocks one after another, in one folder and one session."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from volta.cli.main import app

BLOCK = re.compile(r'^```(python|console)(?: title="([\w./]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def run_page(page: Path, folder: Path) -> dict[str, Any]:
    """Run the Python and console blocks of a page in the current folder; a block with a title is a file to save."""
    names: dict[str, Any] = {"__name__": page.stem}
    for kind, title, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            (folder / title).write_text(code, encoding="utf-8")
        elif kind == "python":
            exec(compile(code, str(page), "exec"), names)
        else:
            for line in code.splitlines():
                run_line(line)
    return names


def run_line(line: str) -> str:
    """Run a printed ``volta`` command in this process, and return what it said."""
    words = shlex.split(line, comments=True)
    assert words[0] == "volta", f"only volta commands are run: {line}"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, (line, done.output, done.exception)
    return done.output
