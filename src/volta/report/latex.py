"""A table as LaTeX with booktabs, ready for a paper."""

from __future__ import annotations

from volta.report.table_model import Table, TableCell

_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"$<$",
        ">": r"$>$",
        "−": r"$-$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "τ": r"$\tau$",
        "α": r"$\alpha$",
        "†": r"$^{\dagger}$",
        "‡": r"$^{\ddagger}$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "«": "``",
        "»": "''",
        "’": "'",
        "–": "--",
        "…": r"\dots{}",
        "\n": " ",
    }
)


def latex_table(table: Table, context: str) -> str:
    """Return a table environment: mean ± std, best in bold, daggers for significance, the context in the caption."""
    columns = "".join("r" if column.numeric else "l" for column in table.columns)
    head = " & ".join(column.label.translate(_SPECIAL) for column in table.columns)
    body = "\n".join(f"    {' & '.join(_cell(entry) for entry in row.cells)} \\\\" for row in table.rows)
    caption = f"{table.caption}. {context}. {table.legend}".translate(_SPECIAL)
    label = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "-:") else "-" for letter in table.key
    )
    return (
        "\\begin{table}\n"
        f"  \\caption{{{caption}}}\n"
        f"  \\label{{tab:{label}}}\n"
        "  \\centering\n"
        f"  \\begin{{tabular}}{{{columns}}}\n"
        "    \\toprule\n"
        f"    {head} \\\\\n"
        "    \\midrule\n"
        f"{body}\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}"
    )


def _cell(entry: TableCell) -> str:
    words = entry.text.translate(_SPECIAL)
    words = f"\\textbf{{{words}}}" if entry.best else words
    spread = f" $\\pm$ {entry.std_text}" if entry.std_text else ""
    floor = f" ({entry.floor.translate(_SPECIAL)})" if entry.floor else ""
    return f"{words}{spread}{entry.mark.translate(_SPECIAL)}{floor}"
