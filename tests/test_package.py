"""The wheel and the sdist are built and checked as an index would."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import volta

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling", reason="needs the dev extra: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_wheel_and_sdist_pass_the_strict_check(built):
    pytest.importorskip("twine", reason="needs the dev extra: pip install -e '.[dev]'")
    names = sorted(map(str, built.iterdir()))
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_holds_the_package_and_what_it_reads(built):
    (wheel,) = built.glob(f"volta_uq-{volta.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    sources = {path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.relative_to(ROOT / "src").as_posix() for path in sources} <= names
    assert not [name for name in names if name.startswith(("tests", "docs"))]


def test_the_sdist_holds_what_the_wheel_is_built_from(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "src/volta/_version.py",
        "src/volta/py.typed",
    } <= names
