"""``volta card``: what a model is, what it promises and what it does not, as a page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volta.cli.model_files import check_new_file, load_model, model_rows
from volta.cli.options import INPUT_PANEL, OUTPUT_PANEL, ForceOption, IdOption, LabelOption, ModelArgument, QuietOption
from volta.cli.printing import echo
from volta.cli.row_progress import row_progress
from volta.cli.warning_lines import warnings_as_lines
from volta.core.errors import InputError


def card(
    model: ModelArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder for NAME-card.html and .md; the model's unless given.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Labelled rows to judge by, e.g. test rows.", rich_help_panel=INPUT_PANEL)
    ] = None,
    label: LabelOption = None,
    ids: IdOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the model's card: calibration, risk and coverage, policies and their guarantees, hashes, limits."""
    from volta.cards.card import make_card
    from volta.cards.evidence import calibration_evidence, row_evidence
    from volta.cards.render import card_html, card_markdown
    from volta.core.files import write_text

    folder = model.parent if out is None else out
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out is {folder}, which is a file; name a folder")
    page, text = (folder / f"{model.stem}-card{ending}" for ending in (".html", ".md"))
    for path in (page, text):
        check_new_file(path, force)
    classifier = load_model(model)
    with warnings_as_lines(), row_progress("judging rows", quiet=quiet) as advance:
        if data is None:
            evidence = calibration_evidence(classifier)
        else:
            name = label or classifier.fit_record_.label
            table = model_rows(classifier, data, name, ids, labelled=True)
            evidence = row_evidence(classifier, table, advance)
        made = make_card(classifier, model, evidence)
    write_text(page, card_html(made))
    write_text(text, card_markdown(made))
    echo(f"card: {page}, {text}")
