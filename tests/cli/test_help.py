"""What the command offers before it runs: options by purpose, completion, suggestions."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from volta.cli.bench import complete_methods, complete_metrics, complete_tasks
from volta.cli.main import app

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def shown(*arguments):
    return COLOURS.sub("", CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERM": "dumb"}).output)


def test_options_are_grouped_by_purpose():
    said = shown("bench", "--help")
    places = [said.index(f"{panel}:\n") for panel in ("Comparison", "Data", "Reduced run", "Execution")]
    assert places == sorted(places)
    data = said[places[1] : places[2]]
    assert "--scale" in data
    assert "--backbone" in data
    assert "--executor" not in data


def test_the_shell_completes():
    assert "--install-completion" in shown("--help")
    assert complete_tasks("digits,cifar10") == ["digits,cifar10", "digits,cifar100"]
    assert complete_methods("volta,temp") == ["volta,temperature"]
    assert "all" in complete_methods("")
    assert complete_metrics("nl") == ["nll"]
