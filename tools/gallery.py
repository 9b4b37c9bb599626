"""The gallery's pages, made from the scripts in ``docs/gallery``.

A script opens with a docstring: a title, a line of summary, and more text. A line ``# %%`` begins a part, whose first
comment is text; everything else is code.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery"
CARD = re.compile(r"^- \[[^\]]+\]\(([\w-]+)\.py\)\n?", re.MULTILINE)


def gallery_pages() -> dict[str, str]:
    """Return each script as a Markdown page, by name and in the order of the index."""
    names = CARD.findall((FOLDER / "index.md").read_text(encoding="utf-8"))
    return {name: page(FOLDER / f"{name}.py") for name in names}


def page(script: Path) -> str:
    """Return a script as a Markdown page."""
    text = script.read_text(encoding="utf-8")
    title, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    parts = [f"# {title.rstrip('.')}", rest.strip()]
    for part in re.split(r"^# %%.*\n", text[text.index('"""', 3) + 3 :], flags=re.MULTILINE):
        comment = re.match(r"(?:#.*\n)*", part)[0]  # type: ignore[index]
        parts.append(re.sub(r"^# ?", "", comment, flags=re.MULTILINE).strip())
        if code := part[len(comment) :].strip():
            parts.append(f"```python\n{code}\n```")
    parts.append(f"The script: [docs/gallery/{script.name}]({script.name})")
    return "\n\n".join(filter(None, parts)) + "\n"


def title_and_summary(text: str) -> tuple[str, str]:
    """Return the title and the summary of a page."""
    title, summary = text.split("\n\n")[:2]
    return title.removeprefix("# "), summary


def with_cards(index: str, pages: Mapping[str, str], pictures: Mapping[str, str]) -> str:
    """Return the index with a card for each link to a script: its last picture, its title and its summary."""

    def card(found: re.Match[str]) -> str:
        title, summary = (html.escape(text) for text in title_and_summary(pages[found[1]]))
        picture = f'<img class="plot" loading="lazy" alt="" src="../{pictures[found[1]]}">'
        return f'<a href="{found[1]}.html">{picture}<strong>{title}</strong><span>{summary}</span></a>\n'

    cards = CARD.sub(card, index)
    return re.sub(r"((?:^<a href.*\n)+)", r'<div class="gallery">\n\1</div>\n', cards, flags=re.MULTILINE)
