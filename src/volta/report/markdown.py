"""A table as Markdown."""

from __future__ import annotations

from volta.report.table_model import Table, TableCell

_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\|*_`<>[]"} | {"\n": " "})


def markdown_table(table: Table) -> str:
    """Return a pipe table: best in bold, ± for the deviation, daggers for significance, the legend beneath."""
    head = [column.label.translate(_SPECIAL) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    lines = [head, rule, *([_cell(entry) for entry in row.cells] for row in table.rows)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    legend = f"\n\n{table.legend.translate(_SPECIAL)}" if table.legend else ""
    return f"### {table.caption.translate(_SPECIAL)}\n\n{body}{legend}"


def _cell(entry: TableCell) -> str:
    words = entry.text.translate(_SPECIAL)
    words = f"**{words}**" if entry.best else words
    spread = f" ± {entry.std_text}" if entry.std_text else ""
    in_paper = f" (paper {entry.paper.translate(_SPECIAL)})" if entry.paper else ""
    return f"{words}{spread}{entry.mark.translate(_SPECIAL)}{in_paper}"
