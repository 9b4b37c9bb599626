"""Runs the code blocks of pages as a reader would, and keeps what each of them prints and draws.

A block of Python or of ``volta`` commands is run; one with a ``title`` is a file to save. One of two words may follow
the language: ``skip`` (shown, not run) or ``fold`` (run, its code folded away below what it shows).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "pages"
BLOCK = re.compile(
    r'^```(?P<kind>python|console)(?: title="(?P<title>[\w./]+)")?(?P<mark> skip| fold)?\n(?P<code>.*?)^```$',
    re.DOTALL | re.MULTILINE,
)
STYLE = {
    "figure.figsize": (5.6, 3.3),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "volta",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
_WIDTH = 110
"""Columns of the terminal that commands print for."""


@dataclass
class Shown:
    """What a block shows: its printed text, and of each figure a description and the SVG."""

    text: str = ""
    figures: list[tuple[str, str]] = field(default_factory=list)


class PageError(Exception):
    """A block of a page failed; the message names the page and shows the block."""


def run_page(text: str, name: str, folder: Path) -> tuple[dict[str, Any], list[Shown]]:
    """Run a page's blocks one after another, in one session with ``folder`` as the current folder.

    Returns the session's names, and what each block shows.
    """
    import matplotlib as mpl

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    modules, paths = set(sys.modules), list(sys.path)
    shown = []
    with contextlib.chdir(folder), mpl.rc_context(STYLE):
        sys.path[:0] = [str(folder), str(ROOT)]
        try:
            for block in BLOCK.finditer(text):
                try:
                    shown.append(_run_block(block, names, folder))
                except Exception as error:
                    raise PageError(f"{name}: {type(error).__name__}: {error}\n{block['code']}") from error
        finally:
            sys.path[:] = paths
            for module in set(sys.modules) - modules:
                if str(getattr(sys.modules[module], "__file__", None) or "").startswith(str(folder)):
                    del sys.modules[module]
    return names, shown


def _run_block(block: re.Match[str], names: dict[str, Any], folder: Path) -> Shown:
    from matplotlib import pyplot as plt

    if block["mark"] == " skip":
        return Shown()
    if block["title"]:
        (folder / block["title"]).write_text(block["code"], encoding="utf-8")
        return Shown()
    if block["kind"] == "console":
        return Shown("".join(run_line(line) for line in block["code"].splitlines()))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), _warnings_told(said):
        exec(compile(block["code"], "page.py", "exec"), names)
    figures = []
    for number in plt.get_fignums():
        drawn, figure = io.StringIO(), plt.figure(number)
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        said_of = [text for axes in figure.axes for text in (axes.get_title(), axes.get_ylabel(), axes.get_xlabel())]
        figures.append((", ".join(dict.fromkeys(filter(None, said_of))), drawn.getvalue()))
    plt.close("all")
    return Shown(said.getvalue(), figures)


@contextlib.contextmanager
def _warnings_told(said: io.StringIO) -> Iterator[None]:
    """Print the package's own warnings where a reader would see them; those of others are no part of a page."""
    from volta import VoltaWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in {str(one.message): one for one in caught if issubclass(one.category, VoltaWarning)}.values():
        said.write(f"{message.category.__name__}: {message.message}\n")


def run_line(line: str) -> str:
    """Run a printed ``volta`` command in this process, and return what it said."""
    from typer.testing import CliRunner

    from volta.cli.main import app

    words = shlex.split(line, comments=True)
    if words[:1] != ["volta"]:
        raise ValueError(f"only volta commands are run: {line}")
    done = CliRunner().invoke(app, words[1:])
    if done.exit_code != 0:
        raise ValueError(f"{line} ended with {done.exit_code}: {done.output} {done.exception}")
    return done.stdout


def run_pages(pages: Mapping[str, str]) -> dict[str, list[Shown]]:
    """Return what the blocks of pages show, by the pages' names; what is known already is not run again.

    A page is run again when its blocks, the package or these tools change.
    """
    source = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), Path(__file__), ROOT / "tools" / "guarantee_pictures.py"]):
        source.update(path.read_bytes())
    keys = {
        name: hashlib.sha256(source.digest() + "\0".join(b[0] for b in BLOCK.finditer(text)).encode()).hexdigest()
        for name, text in pages.items()
    }
    missing = [name for name in pages if not (CACHE / f"{keys[name]}.json").is_file()]
    CACHE.mkdir(parents=True, exist_ok=True)
    if missing:
        os.environ.update({"OMP_NUM_THREADS": "1", "COLUMNS": str(_WIDTH), "MPLBACKEND": "agg", "NO_COLOR": "1"})
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            for name, shown in zip(missing, pool.map(_run_alone, missing, map(pages.get, missing)), strict=True):
                path = CACHE / f"{keys[name]}.json"
                path.write_text(json.dumps([asdict(one) for one in shown], ensure_ascii=False), encoding="utf-8")
    for path in CACHE.glob("*.json"):
        if path.stem not in keys.values():
            path.unlink(missing_ok=True)
    return {
        name: [Shown(**one) for one in json.loads((CACHE / f"{key}.json").read_text(encoding="utf-8"))]
        for name, key in keys.items()
    }


def _run_alone(name: str, text: str) -> list[Shown]:
    """Run a page in a scratch folder with data and caches of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({"VOLTA_DATA": f"{folder}/data", "VOLTA_CACHE": f"{folder}/cache"})
        session = Path(folder) / "session"
        session.mkdir()
        return run_page(text, name, session)[1]
