"""The reference's pages, made from the docstrings of what is public."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = ("volta", "volta.methods", "volta.metrics", "volta.decisions")
ROLE = re.compile(r":\w+:`~?([^`]+)`")
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, ]*)\n((?: {4}.*\n?)+)", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def api_page(module_name: str) -> str:
    """Return a module's page: every public name with its signature, its docstring and its public members."""
    module = importlib.import_module(module_name)
    names = [name for name in by_importance(module_name) if not isinstance(getattr(module, name), ModuleType)]
    own = [name for name in names if has_page(module_name, getattr(module, name))]
    parts = [f"# `{module_name}`", prose(module.__doc__ or "")]
    if own:
        parts.append("Classes, a page each: " + ", ".join(f"[{name}]({class_file(name)})" for name in own) + ".")
    parts += [section(name, getattr(module, name)) for name in names if name not in own and name != "__version__"]
    return "\n\n".join(parts) + "\n"


def class_pages() -> dict[str, str]:
    """Return a page by file name for each class that has one."""
    module = importlib.import_module(MODULES[0])
    values = {name: getattr(module, name) for name in by_importance(MODULES[0])}
    return {
        class_file(name): section(name, value).replace("## ", "# ", 1).replace("\n### ", "\n## ") + "\n"
        for name, value in values.items()
        if has_page(MODULES[0], value)
    }


def class_file(name: str) -> str:
    """Return the file name of a class's page."""
    return f"class-{name}.md"


def has_page(module_name: str, value: Any) -> bool:
    """Return whether a value is described on its own page: a class of ``volta`` itself, but for errors and warnings."""
    return module_name == MODULES[0] and inspect.isclass(value) and not issubclass(value, Exception)


def linked(markdown: str) -> str:
    """Return docs/api.md with every name linked to where it is described."""
    parts = re.split(r"^(?=## `[\w.]+`$)", markdown, flags=re.MULTILINE)
    for place, part in enumerate(parts[1:], 1):
        module_name = re.match(r"## `([\w.]+)`", part)[1]  # type: ignore[index]
        module = importlib.import_module(module_name)

        def link(match: re.Match[str], module: ModuleType = module) -> str:
            name, value = match[1], getattr(module, match[1])
            if has_page(module.__name__, value):
                return f"| [`{name}`](reference/{class_file(name)}) |"
            if isinstance(value, ModuleType | str):
                return match[0]
            page = module.__name__.removeprefix("volta.")
            return f"| [`{name}`](reference/{page}.md#{name.lower()}) |"

        parts[place] = re.sub(r"^\| `(\w+)` \|", link, part, flags=re.MULTILINE)
    return "".join(parts)


def by_importance(module_name: str) -> list[str]:
    """Return the public names of a module in the order of docs/api.md, which tests hold complete."""
    _, _, rest = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8").partition(f"\n## `{module_name}`\n")
    return re.findall(r"^\| `(\w+)` \|", rest.partition("\n## ")[0], flags=re.MULTILINE)


def section(name: str, value: Any) -> str:
    """Return what is said of one public name."""
    if inspect.isclass(value):
        return "\n\n".join([f"## {name}", signature(name, value), prose(inspect.getdoc(value) or ""), *_members(value)])
    if callable(value):
        return "\n\n".join([f"## {name}", signature(name, value), prose(inspect.getdoc(value) or "")])
    entries = ", ".join(f"`{key}`" for key in value)
    return f"## {name}\n\nA table by name: {entries}."


def signature(name: str, value: Any) -> str:
    """Return a call's signature as code, a line per argument where it is long."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return ""
    text = f"{name}{found}"
    if len(text) > 110:
        arguments = [str(one) for one in found.parameters.values()]
        kinds = [one.kind for one in found.parameters.values()]
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
            arguments.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
        returned = "" if found.return_annotation is inspect.Signature.empty else f" -> {found.return_annotation}"
        text = f"{name}(\n    " + ",\n    ".join(arguments) + f",\n){returned}"
    return f"```python\n{_without_quotes(text)}\n```"


def _without_quotes(text: str) -> str:
    """Return a signature with annotations as they are written in the source, and without ``self``."""
    text = re.sub(
        r"(: |-> )(?:'([^']*)'|\"([^\"]*)\")", lambda found: found.group(1) + (found.group(2) or found.group(3)), text
    )
    return re.sub(r"\((\s*)(?:self|cls)(?:, ?\s*|(?=\)))", r"(\1", text, count=1)


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: roles as code, headings bold, parameters as a list, examples as code."""
    text = ROLE.sub(lambda found: f"`{found.group(1).rpartition('.')[2]}`", docstring)
    text = text.replace("``", "`")
    examples = [found.group(0) for found in EXAMPLE.finditer(text)]
    text = EXAMPLE.sub("\0", text)
    text = HEADING.sub(r"\n**\1**\n", text)
    text = ENTRY.sub(lambda found: f"- `{found.group(1)}`: {' '.join(textwrap.dedent(found.group(2)).split())}\n", text)
    text = text.replace("<", "&lt;").replace("|", "\\|") if "<" in text else text
    for example in examples:
        text = text.replace("\0", f"\n```pycon\n{example}\n```\n", 1)
    return text


def _members(value: type) -> list[str]:
    found = []
    for name, member in inspect.getmembers(value):
        if name.startswith("_") or not (inspect.isfunction(member) or inspect.ismethod(member)):
            continue
        if not (member.__module__ or "").startswith("volta"):
            continue
        found.append(
            f"### {value.__name__}.{name}\n\n{signature(name, member)}\n\n{prose(inspect.getdoc(member) or '')}"
        )
    return found
