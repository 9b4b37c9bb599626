"""Arguments and options that the commands about a model of one's own share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

INPUT_PANEL = "What is read"
OUTPUT_PANEL = "What is written"

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that volta fit wrote.")]
DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="Rows: .csv, .tsv (also .gz), .npz (x) or .parquet.")
]
IdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--id", help="A column that is no feature and goes along; may be repeated.", rich_help_panel=INPUT_PANEL
    ),
]
LabelOption = Annotated[
    str | None, typer.Option(help="The column with the true classes, if there is one.", rich_help_panel=INPUT_PANEL)
]
OutOption = Annotated[
    Path, typer.Option(help="A new file: .csv, .tsv, .npz or .parquet.", rich_help_panel=OUTPUT_PANEL)
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace what stands under the name.", rich_help_panel=OUTPUT_PANEL)
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.", rich_help_panel=OUTPUT_PANEL)]
