"""A table as Markdown."""

from __future__ import annotations

from volta.report.table_model import Table, TableCell

_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\|*_`<>[]"} | {"\n": " "})


def escaped(text: str) -> str:
    """Return text in which no character means anything to Markdown, on one line."""
    return text.translate(_SPECIAL)


def markdown_table(table: Table) -> str:
    """Return a pipe table: best in bold, ± for the deviation, daggers for significance, the legend beneath."""
    head = [escaped(column.label) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [head, rule, *([_cell(entry) for entry in row.cells] for row in table.rows)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    legend = f"\n\n{escaped(table.legend)}" if table.legend else ""
    return f"### {escaped(table.caption)}\n\n{body}{legend}"


def _cell(entry: TableCell) -> str:
    words = escaped(entry.text)
    words = f"**{words}**" if entry.best else words
    spread = f" ± {entry.std_text}" if entry.std_text else ""
    in_paper = f" (paper {escaped(entry.paper)})" if entry.paper else ""
    floor = f" ({entry.floor})" if entry.floor else ""
    return f"{words}{spread}{escaped(entry.mark)}{floor}{in_paper}"
