"""``volta fit``: a table becomes a model, in one file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volta.cli.model_files import check_new_file
from volta.cli.options import INPUT_PANEL, OUTPUT_PANEL, DataArgument, ForceOption, IdOption, QuietOption
from volta.cli.own_modules import import_from_here
from volta.cli.printing import echo
from volta.cli.stopping import ALL_OR_NOTHING, stoppable
from volta.cli.warning_lines import warnings_as_lines
from volta.core.errors import InputError, VoltaWarning

if TYPE_CHECKING:
    from volta.core.types import Array
    from volta.data.formats.feature_tables import FeatureTable
    from volta.estimators.classifier import VoltaClassifier

_PARTS = {"train": "to train", "val": "to steer", "cal": "to calibrate"}

_OPTIONS = {"eval_set": "--eval", "cal_set": "--cal", "random_state": "--seed"}

_MODEL_PANEL = "The model"
_POLICY_PANEL = "Which rows are answered"


def fit(
    data: DataArgument,
    out: Annotated[Path, typer.Option(help="The model's file, e.g. model.safetensors.", rich_help_panel=OUTPUT_PANEL)],
    label: Annotated[
        str | None,
        typer.Option(
            help="The column with the classes; in an npz y or labels unless given.", rich_help_panel=INPUT_PANEL
        ),
    ] = None,
    ids: IdOption = None,
    eval_: Annotated[
        Path | None,
        typer.Option("--eval", help="Rows of your own that steer training.", rich_help_panel=INPUT_PANEL),
    ] = None,
    cal: Annotated[
        Path | None,
        typer.Option(help="Rows of your own to calibrate on, and nothing else.", rich_help_panel=INPUT_PANEL),
    ] = None,
    method: Annotated[str, typer.Option(help="See: volta methods.", rich_help_panel=_MODEL_PANEL)] = "volta",
    encoder: Annotated[
        str, typer.Option(help="tabular, or vision for features of a backbone.", rich_help_panel=_MODEL_PANEL)
    ] = "tabular",
    scale: Annotated[str, typer.Option(help="auto, standard or none.", rich_help_panel=_MODEL_PANEL)] = "auto",
    seed: Annotated[
        int, typer.Option(help="Decides weights, batches and sampling.", rich_help_panel=_MODEL_PANEL)
    ] = 42,
    max_epochs: Annotated[
        int | None, typer.Option(help="Train at most this long.", rich_help_panel=_MODEL_PANEL)
    ] = None,
    keep_rows: Annotated[
        bool,
        typer.Option("--keep-rows", help="Keep training rows, for volta explain.", rich_help_panel=_MODEL_PANEL),
    ] = False,
    max_error: Annotated[
        float | None, typer.Option(help="At most this share of answers wrong.", rich_help_panel=_POLICY_PANEL)
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="How surely: 0.95 unless given.", rich_help_panel=_POLICY_PANEL)
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Or: answer this share of rows, 0.9 unless given.", rich_help_panel=_POLICY_PANEL),
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fit a classifier on a table: probabilities, uncertainty, sets, abstention and OOD flags, in one file."""
    from volta.core.checks import check_fraction
    from volta.data.formats.feature_tables import Roles, open_features
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.deciding import DEFAULT_COVERAGE
    from volta.estimators.saving import registered_name
    from volta.methods import find_method

    check_new_file(out, force, data, eval_, cal)
    if max_error is not None and coverage is not None:
        raise InputError(f"--max-error is {max_error} and --coverage {coverage}; pass one of them")
    for value, name in ((max_error, "--max-error"), (confidence, "--confidence"), (coverage, "--coverage")):
        if value is not None:
            check_fraction(value, name)
    import_from_here()
    # Refused before training: what cannot be saved is of no use to any other command.
    registered_name(find_method(method).method)
    classifier = VoltaClassifier(
        method,
        encoder=encoder,
        scale=scale,  # type: ignore[arg-type]
        random_state=seed,
        max_epochs=max_epochs,
        keep_rows=keep_rows,
        verbose=not quiet,
    )
    with stoppable(ALL_OR_NOTHING), warnings_as_lines():
        table = open_features(data, Roles(label, tuple(ids or ())), labelled=True)
        fit_on_tables(classifier, table, eval_, cal)
        if any(asked is not None for asked in (max_error, coverage, confidence)):
            coverage = DEFAULT_COVERAGE if max_error is None and coverage is None else coverage
            surely = {} if confidence is None else {"confidence": confidence}
            classifier.fit_policy(max_error, coverage=coverage, **surely)
        classifier.save(out)
    for line in summary(classifier):
        echo(line)
    echo(f"model: {out}")


def fit_on_tables(classifier: VoltaClassifier, table: FeatureTable, eval_: Path | None, cal: Path | None) -> None:
    """Fit on a table, and own rows to steer or calibrate by; the model keeps column names and the files' hashes."""
    import numpy as np

    from volta.core.files import hash_file

    rows, labels = table.read_labelled()
    _warn_of_counters(rows, table.names)
    classes = np.unique(labels)
    own: dict[str, tuple[Array, Array]] = {}
    for name, path in (("eval_set", eval_), ("cal_set", cal)):
        if path is not None:
            own[name] = _like(table, path, rows.shape[1]).read_labelled(classes)
    try:
        classifier.fit(rows, labels, **own)
    except ValueError as error:
        # scikit-learn's own checks, such as labels that are measurements, are the user's business too.
        raise InputError(_in_options(str(error), classifier, table.table.path)) from error
    if table.names is not None:
        classifier.feature_names_in_ = np.array(table.names, dtype=object)
    files = {path.name: hash_file(path) for path in (table.table.path, eval_, cal) if path is not None}
    classifier.fit_record_ = replace(classifier.fit_record_, files=files, label=table.label)


def _warn_of_counters(rows: Array, names: Sequence[str] | None) -> None:
    """Say which columns count the rows up: no later row is like the ones that trained."""
    import numpy as np

    # The first rows rule out nearly all columns, so that no copy of the table is made.
    begun = (np.diff(rows[:3], axis=0) == 1).all(axis=0) & (len(rows) > 2)
    for place in (place for place in np.flatnonzero(begun).tolist() if (np.diff(rows[:, place]) == 1).all()):
        name = place if names is None else repr(names[place])
        warnings.warn(
            f"column {name} counts the rows; if it is no feature, name it with --id", VoltaWarning, stacklevel=2
        )


def _in_options(text: str, classifier: VoltaClassifier, path: Path) -> str:
    """Return what Python says of a fit with the options' names, or of the rows with that of their file."""
    for name, option in _OPTIONS.items():
        text = text.replace(name, option)
    name, _, rest = text.partition(" ")
    if name in classifier.get_params():
        return f"--{name.replace('_', '-')} {rest}"
    return text if text.startswith("--") else f"{path}: {text}"


def summary(classifier: VoltaClassifier) -> list[str]:
    """Return what a person wants to know first of a new model."""
    from volta.cards.words import policy_sentence

    record, policy, calibration = classifier.fit_record_, classifier.policy_, classifier.calibration_
    parts = ", ".join(f"{record.n_rows(part)} {words}" for part, words in _PARTS.items())
    if record.n_folds:
        n_train, n_cal = record.n_rows("train"), record.n_rows("cal")
        parts = f"{n_train} to train and, in {record.n_folds} folds, to steer, {n_cal} to calibrate"
    n_right = int((calibration.predicted == calibration.labels).sum())
    return [
        f"{len(classifier.classes_)} classes, {classifier.n_features_in_} features; rows: {parts}",
        f"right on {n_right} of {len(calibration.labels)} calibration rows",
        f"policy: {policy_sentence(policy)}",
    ]


def _like(table: FeatureTable, path: Path, n_features: int) -> FeatureTable:
    from volta.data.formats.feature_tables import Roles, open_features

    roles = Roles(table.label, known=table.ids)
    return open_features(path, roles, names=table.names, n_features=n_features, labelled=True)
