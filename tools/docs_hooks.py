"""What mkdocs does beyond Markdown: pages from code, what blocks print and draw, MathML, links out of ``docs``."""

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


RUN_PAGES = "calibration selective-prediction ood-detection guarantees honest-comparisons evaluate from-openood"
RUN = re.compile(rf"(tutorials(?!/scale-with-ray)|gallery)/[\w-]+\.md|({RUN_PAGES.replace(' ', '|')})\.md")
"""Pages whose blocks are run when the site is built, and show what they print and draw."""

shown_of: dict[str, list[Any]] = {}
plots_of: dict[str, list[list[tuple[str, str]]]] = {}


def on_config(config: Any) -> Any:
    """List the gallery's pages in the navigation."""
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "src")]
    from gallery import gallery_pages

    (section,) = [entry["Gallery"] for entry in config["nav"] if "Gallery" in entry]
    section[1:] = [f"gallery/{name}.md" for name in gallery_pages()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the gallery, the reference, pages that lie beside ``docs``, and the plots that blocks draw."""
    from api_pages import MODULES, api_page, class_pages
    from gallery import gallery_pages
    from reference_tables import cli_page, methods_page
    from run_pages import run_pages

    made = {f"reference/{module.removeprefix('volta.')}.md": api_page(module) for module in MODULES}
    made |= {f"reference/{name}": text for name, text in class_pages().items()}
    made |= {"reference/commands.md": cli_page(), "reference/methods-table.md": methods_page()}
    made |= {f"gallery/{name}.md": text for name, text in gallery_pages().items()}
    for name in ("CHANGELOG", "CONTRIBUTING"):
        made[f"{name.lower()}.md"] = (ROOT / f"{name}.md").read_text(encoding="utf-8").replace("](docs/", "](")
    texts = {page.src_uri: page.content_string for page in files.documentation_pages()} | made
    shown_of.update(run_pages({name: text for name, text in texts.items() if RUN.fullmatch(name)}))
    for name, blocks in shown_of.items():
        stem, place = name.removesuffix(".md").replace("/", "-"), 0
        plots_of[name] = [[] for _ in blocks]
        for block, plots in zip(blocks, plots_of[name], strict=True):
            for about, drawing in block.figures:
                place += 1
                plots.append((about, f"plots/{stem}-{place}.svg"))
                files.append(File.generated(config, plots[-1][1], content=drawing))
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def with_output(markdown: str, name: str) -> str:
    """Put what a page's blocks print and draw below them; a folded block's code goes below its plot."""
    from run_pages import BLOCK

    blocks = iter(zip(shown_of[name], plots_of[name], strict=True))
    up = "../" * name.count("/")

    def put(block: re.Match[str]) -> str:
        shown, plots = next(blocks)
        code = re.sub(r"^(```\w+.*?)( skip| fold)$", r"\1", block[0], count=1, flags=re.MULTILINE)
        kinds = ".text .output .wide" if "──" in shown.text else ".text .output"
        text = f"```{{{kinds}}}\n{shown.text.rstrip()}\n```" if shown.text.strip() else ""
        drawn = [f"![{html.escape(about)}]({up}{path}){{ .plot loading=lazy }}" for about, path in plots]
        if block["mark"] == " fold":
            code = f'<details class="fold" markdown>\n<summary>Code of this plot</summary>\n\n{code}\n\n</details>'
            return "\n\n".join([*drawn, *filter(None, [text]), code])
        return "\n\n".join([code, *filter(None, [text]), *drawn])

    return BLOCK.sub(put, markdown)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show what blocks print and draw, and links to files of the repository as names."""
    name = page.file.src_uri
    folder = (Path(config["docs_dir"]) / name).parent
    if name == "gallery/index.md":
        from gallery import gallery_pages, with_cards

        pages = gallery_pages()
        last = {each: [path for plots in plots_of[f"gallery/{each}.md"] for _, path in plots][-1] for each in pages}
        markdown = with_cards(markdown, pages, last)

    def shown(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        path = (folder / target).resolve()
        if path.suffix == ".py" and path.parent.name == "gallery" != folder.name:
            return f"[{text}]({target.removesuffix('.py')}.md)"
        inside = path.is_relative_to(config["docs_dir"]) and path.is_file() and path.suffix != ".py"
        if inside or files.get_file_from_path(target) or not path.exists():
            return match.group(0)
        return f"{text} (`{path.relative_to(ROOT)}`)" if text != str(path.relative_to(ROOT)) else f"`{text}`"

    markdown = LINK.sub(shown, markdown)
    if name == "api.md":
        from api_pages import linked

        return linked(markdown)
    return with_output(markdown, name) if name in shown_of else markdown


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw by themselves, and keep a mean and its deviation on one line."""

    def drawn(match: re.Match[str]) -> str:
        display = "block" if match.group(1) == "div" else "inline"
        return convert(html.unescape(match.group(2)).strip(), display=display)

    return FORMULA.sub(drawn, content).replace(" ± ", "\u00a0±\u00a0")
