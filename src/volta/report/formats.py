"""A run's tables as Markdown, LaTeX, CSV, or the whole page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from volta.bench.store import RunStore, csv_text
from volta.core.errors import InputError
from volta.report.leaderboard import leaderboard_table
from volta.report.result_tables import group_tables, results_table
from volta.report.run import Group, Run, load_run
from volta.report.statistics import ALL_PAIRS, Statistics, read_analyses, run_statistics
from volta.report.table_model import Table, TableCell
from volta.stats.bootstrap import N_RESAMPLES

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
    return f"{words}{spread}{escaped(entry.mark)}{in_paper}"


_LATEX_SPECIAL = str.maketrans(
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
    head = " & ".join(column.label.translate(_LATEX_SPECIAL) for column in table.columns)
    body = "\n".join(f"    {' & '.join(_latex_cell(entry) for entry in row.cells)} \\\\" for row in table.rows)
    caption = f"{table.caption}. {context}. {table.legend}".translate(_LATEX_SPECIAL)
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


def _latex_cell(entry: TableCell) -> str:
    words = entry.text.translate(_LATEX_SPECIAL)
    words = f"\\textbf{{{words}}}" if entry.best else words
    spread = f" $\\pm$ {entry.std_text}" if entry.std_text else ""
    return f"{words}{spread}{entry.mark.translate(_LATEX_SPECIAL)}"


def export(
    store: RunStore,
    format: str,  # noqa: A002
    say: Callable[[str], object] | None = None,
    reference: str | None = None,
) -> str:
    """Return the run's tables as ``md``, ``latex`` (booktabs), ``csv`` or the page as ``html``.

    Markdown and LaTeX hold, per task and protocol, the headline results, the ablation, the tests and the paper's values
    next to ours; CSV holds the results with every metric, one row per method. ``say`` hears of metrics that had to be
    computed again; ``reference``: a method's name, "best" or "all", see :func:`build_report`.
    """
    if format not in FORMATS:
        raise InputError(f"format is {format!r}; pass one of: {', '.join(FORMATS)}")
    run = load_run(store, say)
    # The CSV holds values alone, so nothing has to be resampled for it.
    n_resamples = 0 if format == "csv" else N_RESAMPLES
    stats = run_statistics(store, run.tables, n_resamples, reference)
    if format == PAGE:
        from volta.report.build import make_page, read_groups

        return make_page(run, stats, read_groups(store, run), analyses=read_analyses(store))
    return _TEXTS[format](run, stats)


def printed_tables(group: Group, stats: Statistics) -> list[Table]:
    """Return the tables of a group for paper, the results with their headline columns."""
    own = stats.of(group.task, group.protocol)
    found = group_tables(group, own)
    tables = [only_family(found["results"], "headline")] if "results" in found else []
    if own.leaderboard:
        tables.append(leaderboard_table(group, own.leaderboard, own.alpha))
    for part in ("ood", "ablation", "tests", "paper"):
        if part == "tests" and own.reference == ALL_PAIRS and own.pairs:
            matrix = found[part]
            tables += [replace(only_family(matrix, key), caption=f"All pairs, {name}") for key, name in matrix.families]
        elif part in found:
            tables.append(found[part])
    return tables


def only_family(table: Table, family: str) -> Table:
    """Return the table with one family of columns alone."""
    keep = [i for i, column in enumerate(table.columns) if not column.families or family in column.families]
    rows = [replace(row, cells=[row.cells[i] for i in keep]) for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in keep], rows=rows, families=())


def _markdown(run: Run, stats: Statistics) -> str:
    parts = [f"# VOLTA benchmark: {', '.join(dict.fromkeys(group.task for group in run.groups))}"]
    for group in run.groups:
        parts.append(f"## {group.task}, {group.protocol} protocol\n\n{group.context.line}")
        if group.missing:
            parts.append(f"{len(group.missing)} of {len(group.planned)} cells are not finished.")
        parts += [markdown_table(table) for table in printed_tables(group, stats)]
    return "\n\n".join(parts) + "\n"


def _latex(run: Run, stats: Statistics) -> str:
    parts = ["% needs: \\usepackage{booktabs}"]
    for group in run.groups:
        parts += [latex_table(table, group.context.line) for table in printed_tables(group, stats)]
    return "\n\n".join(parts) + "\n"


def _csv(run: Run, stats: Statistics) -> str:
    columns: dict[str, None] = {}
    lines: list[dict[str, object]] = []
    for group in run.groups:
        own = stats.of(group.task, group.protocol)
        table = results_table(group, own)
        for row in table.rows:
            line: dict[str, object] = {
                "task": group.task,
                "protocol": group.protocol,
                "method": row.name,
                "title": row.cells[0].text,
            }
            for column, cell in zip(table.columns[1:], row.cells[1:], strict=True):
                line |= {f"{column.key}_mean": cell.value, f"{column.key}_std": cell.std}
            lines.append(line)
            columns |= dict.fromkeys(line)
    return csv_text(list(columns), ([line.get(name) for name in columns] for line in lines))


PAGE = "html"
_TEXTS: dict[str, Callable[[Run, Statistics], str]] = {"md": _markdown, "latex": _latex, "csv": _csv}
FORMATS = (PAGE, *_TEXTS)
