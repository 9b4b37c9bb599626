"""What ``volta doctor`` finds, says, and refuses to hide."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

from volta import __version__
from volta.cli import info
from volta.cli.main import app

ASKED = [
    "numpy>=1.26",
    "absent-core>=1",
    "typer>=0.12; extra == 'bench'",
    "absent>=2; extra == 'onnx'",
    "x; extra == 'dev'",
]


@pytest.fixture
def asked(monkeypatch):
    """Let the distribution ask for given packages."""
    return lambda names: monkeypatch.setattr(metadata, "requires", lambda _: names)


def doctor(tmp_path):
    return CliRunner().invoke(app, ["doctor", "--data", str(tmp_path)], env={"COLUMNS": "120"})


def test_it_says_versions_processor_and_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("VOLTA_CACHE", str(tmp_path / "nowhere"))
    done = doctor(tmp_path)
    assert done.exit_code == 0, done.output
    assert f"volta {__version__}" in done.output
    assert metadata.version("numpy") in done.output
    assert "instruction set: " in done.output
    assert f"data folder: {tmp_path} (0 MB" in done.output.replace("\n", "")
    assert "nowhere (does not exist; VOLTA_CACHE is set)" in done.output.replace("\n", "")
    assert "volta data get NAME" in done.output


def test_a_missing_optional_package_comes_with_its_command(tmp_path, asked):
    asked([ASKED[0], *ASKED[2:]])
    done = doctor(tmp_path)
    assert done.exit_code == 0
    assert done.output.startswith("optional: absent is missing: pip install --upgrade 'volta-uq[onnx]'\n")
    assert "no problems" not in done.output


def test_a_missing_core_package_is_a_problem(tmp_path, asked):
    asked(ASKED)
    done = doctor(tmp_path)
    assert done.exit_code == 1
    assert done.stderr == "problem: absent-core is missing; pip install --upgrade 'volta-uq'\n"


def test_needs_are_read_from_the_distribution(asked):
    asked(ASKED)
    found = {need.name: (need.extra, need.least) for need in info.needs()}
    assert found == {
        "numpy": (None, "1.26"),
        "absent-core": (None, "1"),
        "typer": ("bench", "0.12"),
        "absent": ("onnx", "2"),
    }


def test_what_another_python_needs_is_left_out(asked):
    asked(["numpy>=1.26; python_version < '3.13'", "numpy>=2.1; python_version >= '3.13'"])
    (need,) = info.needs()
    assert need.least == ("2.1" if sys.version_info >= (3, 13) else "1.26")


def test_an_older_version_is_noticed():
    assert info.Need("numpy", None, "1.26", "1.9.3").state == "older than 1.26"
    assert info.Need("torch", None, "2.4", "2.13.0+cpu").state == "ok"
