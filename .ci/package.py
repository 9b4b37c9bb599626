"""Install the wheel into empty environments with the lowest and the newest core dependencies; run README's example.

A small benchmark with its report is run there too. For every Python of 3.11, 3.12 and 3.13 that is present, or for
those named as arguments. The lowest versions are those of ``pyproject.toml``, the newest those that pip finds. torch's
releases come with gigabytes of GPU libraries, about 5 GB an environment; each is removed before the next is made.
``--torch-of-constraints`` takes the release of ``constraints.txt`` everywhere, which has a CPU build for Python 3.11.
Run it by ``make package``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
COMMANDS = ("--version", "doctor", "bench digits --methods volta,softmax --seeds 2 --max-epochs 1 --out run")
EXTRAS = ("bench", "onnx")
OPTION = "--torch-of-constraints"


def main() -> None:
    """Build, check, install and run; print a line for each environment and end with 1 if one failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(sys.executable, "-m", "hatchling", "build", "--directory", str(folder / "dist"))
        _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted((folder / "dist").iterdir())))
        (wheel,) = (folder / "dist").glob("*.whl")
        words = sys.argv[1:]
        torch = _pinned_torch() if OPTION in words else []
        wanted = [word for word in words if word != OPTION] or PYTHONS
        present = [python for python in wanted if _runs(python)]
        absent = [python for python in wanted if python not in present]
        print(f"Pythons: {', '.join(present)}; absent: {', '.join(absent) or 'none'}", flush=True)
        failed = [
            f"{python} {which}"
            for python in present
            for which, constraints in {"lowest": lowest(python), "newest": []}.items()
            if not _works(folder / f"{Path(python).name}-{which}", python, wheel, which, _with(constraints, torch))
        ]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _runs(python: str) -> bool:
    """Whether the command is there and starts; a version manager's may stand for a version that is not installed."""
    return shutil.which(python) is not None and subprocess.run([python, "--version"], check=False).returncode == 0


def lowest(python: str) -> list[str]:
    """Return the lower bounds of the core dependencies for a Python, pinned; an installed extra may raise one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shown = _run(python, "-c", "import sys; print(*sys.version_info[:2], sep='.')").strip()
    core = [Requirement(text) for text in project["dependencies"]]
    extras = [Requirement(text) for extra in EXTRAS for text in project["optional-dependencies"][extra]]
    found: dict[str, Version] = {}
    for one in (*core, *(one for one in extras if one.name in {own.name for own in core})):
        if one.marker is None or one.marker.evaluate({"python_version": shown}):
            for bound in one.specifier:
                found[one.name] = max(Version(bound.version), found.get(one.name, Version("0")))
    return [f"{name}=={version}" for name, version in found.items()]


def _pinned_torch() -> list[str]:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [pin for pin in pins if pin.startswith("torch==")]


def _with(constraints: list[str], torch: list[str]) -> list[str]:
    """Return the constraints, with that on torch in place of their own if there is one."""
    return [pin for pin in constraints if not (torch and pin.startswith("torch=="))] + torch


def _works(folder: Path, python: str, wheel: Path, which: str, constraints: list[str]) -> bool:
    folder.mkdir()
    try:
        return _example_runs(folder, python, wheel, which, constraints)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _example_runs(folder: Path, python: str, wheel: Path, which: str, constraints: list[str]) -> bool:
    (folder / "constraints.txt").write_text("\n".join(constraints) + "\n", encoding="utf-8")
    _run(python, "-m", "venv", "env", folder=folder)
    inside = str(folder / "env" / "bin" / "python")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"## On your own features\n\n```python\n(.*?)```", readme, re.DOTALL)
    (folder / "example.py").write_text(code.group(1) if code else "raise SystemExit('no example')", encoding="utf-8")
    try:
        wanted = ("--constraint", "constraints.txt", f"{wheel}[{','.join(EXTRAS)}]")
        _run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted, folder=folder)
        _run(inside, "example.py", folder=folder)
        for command in COMMANDS:
            _run(inside, "-m", "volta", *command.split(), folder=folder)
    except subprocess.CalledProcessError as error:
        print(f"{python} {which}: failed\n{error.stdout}{error.stderr}")
        return False
    versions = _run(inside, "-m", "pip", "freeze", "--disable-pip-version-check", folder=folder)
    names = {line.partition("==")[0] for line in lowest(python)}
    shown = [line for line in versions.splitlines() if line.partition("==")[0].lower() in names]
    print(f"{python} {which}: README's example and a small benchmark run with {', '.join(shown)}", flush=True)
    return True


def _run(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    main()
