"""What mkdocs does beyond Markdown: pages from docstrings and root files, formulas as MathML, links out of ``docs``."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the reference, made from docstrings, and the pages that lie beside ``docs``."""
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "src")]
    from api_pages import MODULES, api_page, class_pages

    for module in MODULES:
        name = module.removeprefix("volta.")
        files.append(File.generated(config, f"reference/{name}.md", content=api_page(module)))
    for name, text in class_pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, f"{name.lower()}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show links to files of the repository as names."""
    folder = (Path(config["docs_dir"]) / page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        path = (folder / target).resolve()
        inside = path.is_relative_to(config["docs_dir"]) and path.is_file() and path.suffix != ".py"
        if inside or files.get_file_from_path(target) or not path.exists():
            return match.group(0)
        return f"{text} (`{path.relative_to(ROOT)}`)" if text != str(path.relative_to(ROOT)) else f"`{text}`"

    if page.file.src_uri == "api.md":
        from api_pages import linked

        return linked(LINK.sub(shown, markdown))
    return LINK.sub(shown, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw by themselves, and keep a mean and its deviation on one line."""

    def drawn(match: re.Match[str]) -> str:
        display = "block" if match.group(1) == "div" else "inline"
        return convert(html.unescape(match.group(2)).strip(), display=display)

    return FORMULA.sub(drawn, content).replace(" ± ", "\u00a0±\u00a0")
