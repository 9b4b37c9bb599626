"""Write ``examples`` from the tutorials: ``python tools/examples.py``; a test keeps them equal."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
EXAMPLES = ROOT / "examples"
NOTEBOOK = "own-features"
PARTS = re.compile(r'^```(\w+)(?: title="([\w./]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def main() -> None:
    """Write every file."""
    for name, text in made().items():
        (EXAMPLES / name).write_text(text, encoding="utf-8")


def made() -> dict[str, str]:
    """Return each example's file name and text."""
    found: dict[str, str] = {}
    for path in sorted(TUTORIALS.glob("*.md")):
        blocks = PARTS.findall(path.read_text(encoding="utf-8"))
        found |= {title: code for _, title, code in blocks if title}
        if any(kind == "python" and not title for kind, title, _ in blocks):
            found[f"{path.stem.replace('-', '_')}.py"] = script(path.stem, blocks)
    page = (TUTORIALS / f"{NOTEBOOK}.md").read_text(encoding="utf-8")
    return found | {f"{NOTEBOOK}.ipynb": notebook(page)}


def script(name: str, blocks: list[tuple[str, str, str]]) -> str:
    """Return a page's code as one script, shell commands run by ``subprocess``."""
    lines = [f'"""The code of docs/tutorials/{name}.md, made by tools/examples.py."""', ""]
    if any(kind == "console" for kind, _, _ in blocks):
        lines += ["import subprocess", ""]
    for kind, title, code in blocks:
        if kind == "python" and not title:
            lines += [code]
        elif kind == "console":
            lines += [f"subprocess.run({command!r}, shell=True, check=True)" for command in code.splitlines()] + [""]
    return "\n".join(lines).rstrip() + "\n"


def notebook(page: str) -> str:
    """Return a page as a notebook: prose and code as cells, links made to lead into ``docs``."""
    cells: list[dict[str, object]] = []
    last = 0
    for found in PARTS.finditer(page):
        cells += [_prose(page[last : found.start()]), _code(found.group(3))]
        last = found.end()
    cells.append(_prose(page[last:]))
    kept = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells) if cell["source"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": kept, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _prose(text: str) -> dict[str, object]:
    text = text.replace("](../", "](../docs/")
    text = re.sub(r"\]\(([\w-]+\.md)", r"](../docs/tutorials/\1", text)
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}


def _code(text: str) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.strip()}


if __name__ == "__main__":
    main()
