"""``volta export``: a model as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volta.cli.model_files import check_new_file, load_model
from volta.cli.options import OUTPUT_PANEL, ForceOption, ModelArgument
from volta.cli.printing import echo
from volta.cli.warning_lines import warnings_as_lines
from volta.core.errors import InputError


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="A new file that ends in .onnx.", rich_help_panel=OUTPUT_PANEL)],
    force: ForceOption = False,
) -> None:
    """Write the model as an ONNX graph, scaling included, that runs without Python or volta."""
    if out.suffix.lower() != ".onnx":
        raise InputError(f"--out is {out}; its name has to end in .onnx")
    check_new_file(out, force, model)
    with warnings_as_lines():
        load_model(model).to_onnx(out)
    echo(f"graph: {out}")
