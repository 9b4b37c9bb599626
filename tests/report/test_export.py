from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess

import pytest

from volta.core.errors import InputError
from volta.report import export
from volta.report.formats import latex_table, markdown_table
from volta.report.table_model import Column, Row, Table, TableCell

TABLE = Table(
    "results-x_y",
    "Results & more",
    (Column("method", "Method", numeric=False), Column("ece", "ECE", "↓", where="a_set")),
    (
        Row("volta", (TableCell("VOLTA"), TableCell("0.010", 0.01, 0.001, "0.001", best=True))),
        Row("b", (TableCell("50 % | {b}_c"), TableCell("0.020", 0.02, 0.002, "0.002", mark="‡"))),
    ),
    "† p < 0.05",
)


def test_latex_is_a_booktabs_table_with_bold_and_daggers():
    text = latex_table(TABLE, "digits · n = 289")
    assert text.splitlines()[6:10] == [
        r"    Method & ECE (a\_set) $\downarrow$ \\",
        r"    \midrule",
        r"    VOLTA & \textbf{0.010} $\pm$ 0.001 \\",
        r"    50 \% | \{b\}\_c & 0.020 $\pm$ 0.002$^{\ddagger}$ \\",
    ]
    assert r"\caption{Results \& more. digits $\cdot$ n = 289. $^{\dagger}$ p $<$ 0.05}" in text
    assert r"\label{tab:results-x-y}" in text
    assert r"\begin{tabular}{lr}" in text


def test_markdown_escapes_pipes_and_markup():
    lines = markdown_table(TABLE).splitlines()
    assert lines[2:6] == [
        r"| Method | ECE (a\_set) ↓ |",
        "| --- | ---: |",
        "| VOLTA | **0.010** ± 0.001 |",
        r"| 50 % \| {b}\_c | 0.020 ± 0.002‡ |",
    ]


def test_every_format_of_a_run(small):
    markdown = export(small, "md")
    assert "| Method | accuracy ↑ |" in markdown
    assert "1 of 21 cells are not finished." in markdown
    assert r"\<img" in markdown
    assert re.search(r"(?<!\\)<img", markdown) is None
    latex = export(small, "latex")
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 4
    rows = list(csv.DictReader(io.StringIO(export(small, "csv"))))
    assert [row["method"] for row in rows] == ["volta", "softmax", "temperature", "mahalanobis"]
    assert float(rows[0]["accuracy_mean"]) > 0.5
    assert export(small, "html").startswith("<!doctype html>")


def test_latex_has_balanced_braces_and_dollars(small):
    text = re.sub(r"\\[\\${}%&#_]", "", export(small, "latex"))
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex found")
def test_latex_compiles(small, tmp_path):
    body = export(small, "latex").replace(r"\begin{table}", r"\begin{table}\tiny")
    document = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n%s\n\\end{document}" % body  # noqa: UP031
    (tmp_path / "x.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "x.tex"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_an_unknown_format_is_refused(small):
    with pytest.raises(InputError, match=r"format is 'docx'; pass one of: html, md, latex, csv"):
        export(small, "docx")
