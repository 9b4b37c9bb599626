"""Pages are written in short sentences, paragraphs and table cells, and in the terms of the literature."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import gallery

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in gallery.FOLDER.glob("*.py"))
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
GENERATED = re.compile(r"<!-- (?!end)[^>]*-->.*?<!-- end -->", re.DOTALL)
TARGET = re.compile(r"\]\([^)]*\)")

CELL, PARAGRAPH, SENTENCE, SUMMARY = 120, 80, 40, 25
"""The most characters of a cell, and words of a paragraph, a sentence and a page's first line."""

WORDS = {
    r"beside": "next to, compared with",
    r"promis\w+": "guarantee",
    r"anew": "again",
    r"(?:first|another|many|\d+) looks?": "interim analysis",
    r"told apart": "significantly different, distinguished",
    r"copies of (?:one|a|rows|samples)": "duplicates",
    r"steers?": "validation set, control",
    r"peers?": "other libraries",
    r"goes on": "resumes, continues",
    r"sealed": "checksummed",
    r"of your own": "your",
    r"strangers?": "OOD samples",
    r"(?:training|test|validation|calibration|OOD|held-out) rows?": "samples",
    r"[«»]": 'plain quotes, "…"',
}


def text_of(page: str) -> str:
    """Return a page's Markdown; of a script, that of its page in the gallery."""
    return gallery.page(ROOT / page) if page.endswith(".py") else (ROOT / page).read_text(encoding="utf-8")


def prose(page: str) -> str:
    """Return a page without code, comments and the targets of links."""
    text = text_of(page)
    return TARGET.sub("]", COMMENT.sub("\n\n", CODE.sub("\n\n", text)))


def paragraphs(page: str) -> list[str]:
    """Return the paragraphs and list items of a page, without tables and headings."""
    text = re.sub(r"^[|#].*$", "", prose(page), flags=re.MULTILINE)
    return re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)


@pytest.mark.parametrize("page", PAGES)
def test_no_cell_is_long(page):
    rows = [line for line in prose(page).splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in cells if len(cell) > CELL] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_paragraph_is_long(page):
    assert [text for text in paragraphs(page) if len(text.split()) > PARAGRAPH] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_long(page):
    sentences = [one for text in paragraphs(page) for one in re.split(r"(?<=[.:;?!])\s+", text)]
    assert [one for one in sentences if len(one.split()) > SENTENCE] == []


@pytest.mark.parametrize("page", PAGES)
def test_words_are_those_of_the_literature(page):
    text = re.sub(r"`[^`\n]*`", "", TARGET.sub("]", GENERATED.sub("", CODE.sub("", text_of(page)))))
    found = {
        match[0]: instead for word, instead in WORDS.items() for match in re.finditer(rf"(?<!\w){word}(?!\w)", text)
    }
    assert found == {}


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_page_opens_with_a_summary(page):
    title, summary = text_of(page).split("\n\n")[:2]
    assert title.startswith("# ")
    assert 3 < len(summary.split()) <= SUMMARY
    assert not re.search(r"[.?!] ", summary)
