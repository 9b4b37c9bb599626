"""Pieces of HTML; whatever comes from a user is escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from volta.report.table import Column, Row, Table, TableCell

LONG_TEXT = 40


def element(tag: str, content: str = "", **attributes: str | bool | None) -> str:
    """Return an element around markup ``content``; attribute values are escaped, True gives a bare attribute.

    Names may end in an underscore and use one for a hyphen: ``class_``, ``data_v``.
    """
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        plain = name.rstrip("_").replace("_", "-")
        parts.append(f" {plain}" if value is True else f' {plain}="{escape(str(value), quote=True)}"')
    return f"<{tag}{''.join(parts)}>{content}</{tag}>"


def text(value: object) -> str:
    """Return text as markup."""
    return escape(str(value), quote=True)


def listing(items: Iterable[str]) -> str:
    """Return a plain list of texts."""
    return element("ul", "".join(element("li", text(item)) for item in items), class_="plain")


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return name and value pairs as a definition list."""
    return element("dl", "".join(element("dt", text(a)) + element("dd", text(b)) for a, b in pairs), class_="facts")


def table_markup(table: Table) -> str:
    """Return a table with its tools: families of columns, a filter, a CSV button."""
    chosen = table.families[0][0] if table.families else ""
    shown = [not column.families or chosen in column.families for column in table.columns]
    chips = "".join(
        element(
            "button",
            text(label),
            type="button",
            class_="chip",
            data_family=key,
            aria_pressed=str(key == chosen).lower(),
        )
        for key, label in table.families
    )
    search = element("input", type="search", placeholder="Filter rows", aria_label=f"Filter rows of {table.caption}")
    save = element(
        "button", "CSV", type="button", class_="button", data_csv=True, aria_label=f"Save {table.caption} as CSV"
    )
    tools = element(
        "div", chips + element("span", "", class_="push") + search.replace("</input>", "") + save, class_="tools"
    )
    head = element("tr", "".join(_head(column, on) for column, on in zip(table.columns, shown, strict=True)))
    body = "".join(_row(table, row, shown) for row in table.rows)
    grid = element(
        "table",
        element("thead", head) + element("tbody", body),
        id=table.key,
        aria_label=table.caption,
    )
    scroll = element("div", grid, class_="scroll", tabindex="0", role="region", aria_label=table.caption)
    hint = " Hover or focus a cell for the value of each seed." if _has_seeds(table) else ""
    legend = element("p", text(table.legend + hint), class_="legend") if table.legend else ""
    return element("div", tools + scroll + legend, class_="table-box")


def _has_seeds(table: Table) -> bool:
    return any(entry.tip.startswith("seed ") for row in table.rows for entry in row.cells)


def _head(column: Column, on: bool) -> str:
    arrow = " " + element("span", text(column.arrow), class_="arrow")
    where = element("span", text(column.where), class_="where") if column.where else ""
    button = element("button", text(column.heading) + arrow + where, type="button", data_tip=column.help or None)
    return element(
        "th",
        button,
        scope="col",
        class_=" ".join(name for name in ("num" if column.numeric else "", "" if on else "off") if name) or None,
        data_key=column.key,
        data_arrow=column.arrow or None,
        data_families=" ".join(column.families) or None,
    )


def _row(table: Table, row: Row, shown: list[bool]) -> str:
    cells = "".join(
        _cell(column, entry, on, first=index == 0)
        for index, (column, entry, on) in enumerate(zip(table.columns, row.cells, shown, strict=True))
    )
    return element("tr", cells, class_="ours" if row.name == "volta" else None, data_name=row.name, data_kind=row.kind)


def _cell(column: Column, entry: TableCell, on: bool, *, first: bool) -> str:
    content = text(entry.text)
    if entry.best:
        content = element("span", content, class_="best")
    if entry.std_text:
        content += element("span", f"±{text(entry.std_text)}", class_="sd")
    if entry.mark:
        content += element("sup", text(entry.mark), class_="mark")
    if entry.paper:
        content += element("span", f"paper {text(entry.paper)}", class_="printed")
    kinds = ["num"] if column.numeric else ["long"] if len(entry.text) > LONG_TEXT else []
    kinds += [entry.tone] if entry.tone else []
    kinds += [] if on else ["off"]
    return element(
        "th" if first else "td",
        content,
        scope="row" if first else None,
        class_=" ".join(kinds) or None,
        data_v="" if entry.value is None else str(entry.value),
        data_s=None if entry.std is None else str(entry.std),
        data_tip=entry.tip or None,
    )
