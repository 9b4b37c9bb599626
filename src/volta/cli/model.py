"""``volta fit, predict, decide, explain, export, card``: a model from a table."""

from __future__ import annotations

import dataclasses
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from volta.cli.bench import import_from_here
from volta.cli.terminal import ALL_OR_NOTHING, RowProgress, echo, row_progress, stoppable, warnings_as_lines
from volta.core.errors import InputError, MissingDataError, VoltaWarning

if TYPE_CHECKING:
    import numpy as np

    from volta.core.types import Array, Prediction
    from volta.data.feature_files import FeatureChunk, FeatureTable
    from volta.data.frames import RawTable
    from volta.decisions import Decisions
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.deciding import ErrorsName
    from volta.estimators.row_classifier import RowClassifier
    from volta.serve.batch import FolderJob


# An option under each heading of a command's help.
_input = partial(typer.Option, rich_help_panel="Input")
_output = partial(typer.Option, rich_help_panel="Output")
_model = partial(typer.Option, rich_help_panel="Model")
_policy = partial(typer.Option, rich_help_panel="Abstention policy")
_guarantee = partial(typer.Option, rich_help_panel="Guarantees")

_folder = partial(typer.Option, rich_help_panel="Folders of files")

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by volta fit.")]
DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="Samples: .csv, .tsv (also .gz), .npz (x), .parquet or .json.")
]
IdOption = Annotated[list[str] | None, _input("--id", help="ID column, copied to the output; may be repeated.")]
LabelOption = Annotated[str | None, _input(help="Column of true classes, if there is one.")]
OutOption = Annotated[Path, _output(help="New file: .csv, .tsv, .npz or .parquet.")]
ForceOption = Annotated[bool, _output("--force", help="Overwrite existing output.")]
QuietOption = Annotated[bool, _output("--quiet", help="Show no progress.")]


def load_model(path: Path) -> RowClassifier:
    """Return the classifier of a file, our own or one around another library's model; raise if it is unusable."""
    from volta.estimators.saving import load_row_classifier

    if not path.is_file():
        raise MissingDataError(
            f"MODEL is {path}, which does not exist; make one: volta fit DATA --label COLUMN --out {path}"
        )
    return load_row_classifier(path)


def check_new_file(path: Path, force: bool, *reads: Path | None) -> None:
    """Raise if a file cannot be written, is one the command ``reads``, or exists without ``force``."""
    if path.is_dir():
        raise InputError(f"--out is {path}, which is a folder; name a file in it")
    place = next(folder for folder in path.absolute().parents if folder.exists())
    if not place.is_dir():
        raise InputError(f"--out is {path}, but {place} is a file, not a folder; name another folder")
    if not os.access(place, os.W_OK):
        raise InputError(f"--out is {path}, but {place} cannot be written; name another folder")
    check_not_read(path, *reads)
    if path.exists() and not force:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def check_not_read(path: Path, *reads: Path | None) -> None:
    """Raise if the output is a file that the command reads."""
    if any(read is not None and path.exists() and read.exists() and path.samefile(read) for read in reads):
        raise InputError(f"--out is {path}, which this command reads; name another file")


def policy_options(max_error: float | None, coverage: float | None, confidence: float | None) -> dict[str, float]:
    """Return what ``fit_policy`` is asked for by options; raise if they exclude each other or are no shares."""
    if max_error is not None and coverage is not None:
        raise InputError(f"--max-error is {max_error} and --coverage {coverage}; pass one of them")
    asked = {"max_error": max_error, "coverage": coverage, "confidence": confidence}
    check_shares(asked)
    return {name: value for name, value in asked.items() if value is not None}


def check_shares(options: Mapping[str, float | None]) -> None:
    """Raise if a given option is no share strictly between 0 and 1."""
    from volta.core.checks import check_fraction

    for name, value in options.items():
        if value is not None:
            check_fraction(value, f"--{name.replace('_', '-')}")


_PARTS = {"train": "training", "val": "validation", "cal": "calibration"}

_OPTIONS = {"eval_set": "--eval", "cal_set": "--cal", "random_state": "--seed"}


def fit(
    data: DataArgument,
    out: Annotated[Path, _output(help="Model file, e.g. model.safetensors.")],
    label: Annotated[str | None, _input(help="Column of classes. Default in an npz: y or labels.")] = None,
    ids: IdOption = None,
    eval_: Annotated[Path | None, _input("--eval", help="Validation set.")] = None,
    cal: Annotated[Path | None, _input(help="Calibration set.")] = None,
    method: Annotated[str, _model(help="Method; see: volta methods.")] = "volta",
    encoder: Annotated[str, _model(help="tabular, or vision for features of a backbone.")] = "tabular",
    scale: Annotated[str, _model(help="Feature scaling: auto, standard or none.")] = "auto",
    seed: Annotated[int, _model(help="Random seed of weights, batches and sampling.")] = 42,
    max_epochs: Annotated[int | None, _model(help="Maximum number of epochs.")] = None,
    keep_rows: Annotated[bool, _model("--keep-rows", help="Store the training samples, for volta explain.")] = False,
    max_error: Annotated[float | None, _policy(help="Maximum error rate of answered samples.")] = None,
    confidence: Annotated[float | None, _policy(help="Confidence of the guarantee. Default: 0.95.")] = None,
    coverage: Annotated[float | None, _policy(help="Alternatively: share of samples answered. Default: 0.9.")] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fit a classifier on a table, with prediction sets, an abstention policy and OOD detection, in one file."""
    from volta.data.feature_files import Roles, open_features
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.deciding import DEFAULT_COVERAGE
    from volta.estimators.saving import registered_name
    from volta.methods import find_method

    check_new_file(out, force, data, eval_, cal)
    policy = policy_options(max_error, coverage, confidence)
    import_from_here()
    # Raises before training: a model that cannot be saved is useless to other commands.
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
        if policy:
            classifier.fit_policy(**policy if max_error is not None else {"coverage": DEFAULT_COVERAGE} | policy)
        classifier.save(out)
    for line in summary(classifier):
        echo(line)
    echo(f"model: {out}")


def fit_on_tables(classifier: VoltaClassifier, table: FeatureTable, eval_: Path | None, cal: Path | None) -> None:
    """Fit on a table, with custom validation and calibration sets; the model stores column names and file hashes."""
    import numpy as np

    from volta.core.files import hash_file
    from volta.data.column_encoding import numbers_of
    from volta.data.feature_files import Roles, open_features
    from volta.data.frames import RawTable

    rows, labels = table.read_labelled()
    _warn_of_counters(numbers_of(rows) if isinstance(rows, RawTable) else rows, table.names)
    classes, roles = np.unique(labels), Roles(table.label, known=table.ids)
    mixed = isinstance(rows, RawTable) or bool(np.isnan(rows).any())
    own: dict[str, tuple[Array | RawTable, Array]] = {}
    for name, path in (("eval_set", eval_), ("cal_set", cal)):
        if path is not None:
            width = len(rows.columns) if isinstance(rows, RawTable) else rows.shape[1]
            like = open_features(path, roles, names=table.names, n_features=width, labelled=True, mixed=mixed)
            own[name] = like.read_labelled(classes)
    try:
        classifier.fit(rows, labels, **own)  # type: ignore[arg-type]
    except ValueError as error:
        # scikit-learn's own checks, such as labels that are measurements, are the user's business too.
        hint = ", or name columns that are no features with --id" if "cannot be features" in str(error) else ""
        raise InputError(_in_options(str(error), classifier, table.table.path) + hint) from error
    if table.names is not None:
        classifier.feature_names_in_ = np.array(table.names, dtype=object)
    files = {path.name: hash_file(path) for path in (table.table.path, eval_, cal) if path is not None}
    classifier.fit_record_ = replace(classifier.fit_record_, files=files, label=table.label)


def _warn_of_counters(rows: Array, names: Sequence[str] | None) -> None:
    """Warn of columns that look like a row index, which new samples would continue."""
    import numpy as np

    # The first rows rule out nearly all columns, so that no copy of the table is made.
    begun = (np.diff(rows[:3], axis=0) == 1).all(axis=0) & (len(rows) > 2)
    for place in (place for place in np.flatnonzero(begun).tolist() if (np.diff(rows[:, place]) == 1).all()):
        name = place if names is None else repr(names[place])
        warnings.warn(
            f"Column {name} looks like a row index; exclude it with --id {names[place] if names else place}.",
            VoltaWarning,
            stacklevel=2,
        )


def _in_options(text: str, classifier: VoltaClassifier, path: Path) -> str:
    """Return an error of the Python API with the names of options, or with the file that it is about."""
    for name, option in _OPTIONS.items():
        text = text.replace(name, option)
    name, _, rest = text.partition(" ")
    if name in classifier.get_params():
        return f"--{name.replace('_', '-')} {rest}"
    return text if text.startswith("--") else f"{path}: {text}"


def summary(classifier: VoltaClassifier) -> list[str]:
    """Return the main facts of a new model."""
    from volta.estimators.card import policy_sentence

    record, policy, calibration = classifier.fit_record_, classifier.policy_, classifier.calibration_
    if record.n_folds > 1:
        parts = f"{record.n_rows('train')}, each held out of one of {record.n_folds} fits"
    else:
        parts = ", ".join(f"{record.n_rows(part)} {name}" for part, name in _PARTS.items())
    n_right = int((calibration.predicted == calibration.labels).sum())
    return [
        f"{len(classifier.classes_)} classes, {classifier.n_features_in_} features; samples: {parts}",
        f"calibration accuracy: {n_right} of {len(calibration.labels)}",
        f"policy: {policy_sentence(policy)}",
    ]


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: OutOption,
    ids: IdOption = None,
    label: LabelOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict the class, uncertainty and class probabilities of every sample. Files may exceed memory."""
    from volta.data.tables import check_new_table, new_table
    from volta.serve.batch import check_extra_columns, model_rows

    check_not_read(out, model, data)
    check_new_table(out, overwrite=force)
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    n_rows = 0
    joined = out.suffix.lower() == ".npz"
    with (
        stoppable(ALL_OR_NOTHING),
        warnings_as_lines(),
        row_progress("predicting", quiet=quiet) as advance,
        new_table(out, overwrite=force) as writer,
    ):
        shared = {"classes": classifier.classes_} if joined else {}
        if shared:
            writer.write(shared)
        for part in table.chunks():
            found = prediction_columns(classifier, classifier.predict_full(part.rows), joined=joined)
            given = part.ids | ({} if part.labels is None else {"label": part.labels})
            check_extra_columns(given, found | shared)
            writer.write(given | found)
            n_rows += len(part.rows)
            advance(len(part.rows), part.chunk.done)
    echo(f"{n_rows} rows: {out}")


def prediction_columns(classifier: RowClassifier, prediction: Prediction, *, joined: bool) -> dict[str, Array]:
    """Return the columns to write: ``class``, ``uncertainty`` and ``p_CLASS`` …, or ``probs`` (n, K) if ``joined``."""
    columns: dict[str, Array] = {"class": classifier.classes_[prediction.labels], "uncertainty": prediction.uncertainty}
    if joined:
        return columns | {"probs": prediction.probs}
    return columns | {f"p_{name}": prediction.probs[:, k] for k, name in enumerate(classifier.classes_)}


def decided(
    classifier: RowClassifier,
    table: FeatureTable,
    advance: RowProgress,
    alpha: float,
    fpr: float | None,
    fdr: float | None,
    errors: ErrorsName,
) -> Iterator[tuple[FeatureChunk, Decisions]]:
    """Decide the table chunk by chunk; FDR control reads it twice, first for all p-values."""
    from volta.estimators.deciding import DEFAULT_FPR

    if fdr is None:
        for part in table.chunks(missing=errors == "flag"):
            yield part, classifier.decide(part.rows, fpr=fpr or DEFAULT_FPR, alpha=alpha, errors=errors)
            advance(len(part.rows), part.chunk.done)
        return
    level = _batch_level(classifier, table, advance, fdr)
    reason = f"OOD: p-value selected at FDR {fdr:g} over this file"
    for part in table.chunks():
        yield part, classifier.decide_at(part.rows, level, reason, alpha=alpha, errors=errors)
        advance(len(part.rows), 0.5 + part.chunk.done / 2)


def _batch_level(classifier: RowClassifier, table: FeatureTable, advance: RowProgress, fdr: float) -> float:
    """Return the largest flagged p-value, or a level below all where none is flagged."""
    import numpy as np

    from volta.decisions import benjamini_hochberg
    from volta.decisions.ood import discovery_note
    from volta.estimators.deciding import TooFewRowsWarning

    found = []
    for part in table.chunks():
        found.append(classifier.ood_pvalues(part.rows))
        advance(0, part.chunk.done / 2)
    pvalues, n_calibration = np.concatenate(found), len(classifier.calibration_.ood)
    if note := discovery_note(n_calibration, len(pvalues), fdr):
        warnings.warn(note, TooFewRowsWarning, stacklevel=3)
    return float(max(pvalues[benjamini_hochberg(pvalues, fdr)], default=0.5 / (n_calibration + 1)))


def decide(
    model: ModelArgument,
    data: DataArgument,
    out: OutOption,
    ids: IdOption = None,
    label: LabelOption = None,
    alpha: Annotated[float, _guarantee(help="Maximum miscoverage of prediction sets.")] = 0.1,
    fpr: Annotated[float | None, _guarantee(help="False-positive rate of OOD flags. Default: 0.05.")] = None,
    fdr: Annotated[
        float | None, _guarantee(help="Alternatively: false discovery rate of this file's OOD flags.")
    ] = None,
    max_error: Annotated[
        float | None, _guarantee(help="Maximum error rate of answered samples, instead of the model's policy.")
    ] = None,
    confidence: Annotated[float | None, _guarantee(help="Confidence of the guarantee. Default: 0.95.")] = None,
    coverage: Annotated[float | None, _guarantee(help="Alternatively: share of samples answered.")] = None,
    errors: Annotated[
        str, _guarantee(help="Cells that no training sample has: flag the sample, or raise an error.")
    ] = "flag",
    workers: Annotated[int | None, _folder(help="Processes. Default: as many as cores.", min=1)] = None,
    executor: Annotated[str, _folder(help="local, or ray for a cluster.")] = "local",
    address: Annotated[str | None, _folder(help="Address of the Ray cluster. Default: one on this machine.")] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Decide for every sample: answer, abstain or ood, with label, probability, p-value, set and reason.

    Where DATA is a folder, every table in it becomes a file of the same name in the folder --out; finished files are
    kept when the command is run again.
    """
    import numpy as np

    from volta.core.processes import n_cores
    from volta.data.tables import check_new_table, new_table
    from volta.decisions.decide import ACTIONS
    from volta.estimators.deciding import DEFAULT_FPR
    from volta.serve.batch import check_extra_columns, decision_columns, folder_job, model_rows

    if not data.is_dir():
        check_not_read(out, model, data)
        check_new_table(out, overwrite=force)
    if fpr is not None and fdr is not None:
        raise InputError(f"--fpr is {fpr} and --fdr {fdr}; pass one of them")
    if errors not in ("flag", "raise"):
        raise InputError(f"--errors is {errors!r}; pass flag or raise")
    policy = policy_options(max_error, coverage, confidence)
    if list(policy) == ["confidence"]:
        raise InputError("--confidence requires --max-error or --coverage")
    check_shares({"alpha": alpha, "fpr": fpr, "fdr": fdr})
    if data.is_dir():
        if fdr is not None:
            raise InputError(f"--fdr is {fdr}, which bounds the flags of one file; pass --fpr for a folder")
        checked = cast("ErrorsName", errors)
        level = fpr or DEFAULT_FPR
        job = folder_job(model, alpha=alpha, fpr=level, policy=policy, label=label, ids=ids or (), errors=checked)
        _decide_folder(data, out, job, workers or n_cores(), executor, address, force, quiet)
        return
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    counts = np.zeros(len(ACTIONS), dtype=np.int64)
    with stoppable(ALL_OR_NOTHING), warnings_as_lines(), row_progress("deciding", quiet=quiet) as advance:
        if policy:
            classifier.fit_policy(**policy)
        with new_table(out, overwrite=force) as writer:
            for part, decisions in decided(classifier, table, advance, alpha, fpr, fdr, cast("ErrorsName", errors)):
                found = decision_columns(decisions)
                given = part.ids | ({} if part.labels is None else {"true_label": part.labels})
                check_extra_columns(given, found)
                writer.write(given | found)
                counts += np.bincount(decisions.action, minlength=len(ACTIONS))
    words = ", ".join(f"{count} {action}" for action, count in zip(ACTIONS, counts.tolist(), strict=True))
    echo(f"{counts.sum()} samples ({words}): {out}")


def _decide_folder(
    data: Path, out: Path, job: FolderJob, workers: int, executor: str, address: str | None, force: bool, quiet: bool
) -> None:
    from volta.serve.batch import Failure, decide_folder, summary_lines

    started, records = time.monotonic(), []
    with stoppable(), warnings_as_lines():
        for record in decide_folder(data, out, job, workers=workers, executor=executor, address=address, force=force):
            records.append(record)
            if not quiet:
                echo(f"{record.name}: {'failed' if isinstance(record, Failure) else f'{record.rows:,} rows'}", err=True)
    for line in summary_lines(records, time.monotonic() - started):
        echo(line)
    echo(f"results: {out}")
    if any(isinstance(record, Failure) for record in records):
        raise typer.Exit(2)


FIRST_ROWS = 10


def explain(
    model: ModelArgument,
    data: DataArgument,
    rows: Annotated[
        str | None, _input(help=f"Row numbers from 0: 0,5,7 or 0-9. Default: the first {FIRST_ROWS}.")
    ] = None,
    ids: IdOption = None,
    label: LabelOption = None,
    most: Annotated[int, _output(help="Maximum number of classes, columns and training samples shown.")] = 3,
    as_json: Annotated[bool, _output("--json", help="Print one JSON object per sample.")] = False,
) -> None:
    """Explain a prediction: nearest classes, columns out of range, most similar training samples."""
    from volta.serve.batch import model_rows

    wanted = None if rows is None else parse_rows(rows)
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    lines: list[str] = []
    with warnings_as_lines():
        for part, places in _picked(table, wanted):
            found = classifier.explain(part.rows[places], most=most)
            for place, explanation in zip(places.tolist(), found, strict=True):
                row = part.chunk.start + place
                known = {name: values[place].item() for name, values in part.ids.items()}
                if as_json:
                    value = {"row": row, **known, **dataclasses.asdict(explanation)}
                    lines.append(json.dumps(value, default=lambda array: array.tolist(), ensure_ascii=False))
                else:
                    names = "".join(f", {name} {value}" for name, value in known.items())
                    lines.append(f"row {row}{names}: {explanation}")
    # Printed last, so that a missing row number raises before any output.
    for line in lines:
        echo(line)


def parse_rows(text: str) -> tuple[int, ...]:
    """Return the row numbers of ``0,5,7`` or ``0-9``, in rising order.

    >>> parse_rows("7,0-2")
    (0, 1, 2, 7)
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise InputError(f"--rows is {text!r}; pass row numbers from 0, as in 0,5,7 or 0-9")
        if last and int(last) < int(first):
            raise InputError(f"--rows has {part.strip()!r}, a decreasing range; write {last}-{first}")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _picked(table: FeatureTable, wanted: tuple[int, ...] | None) -> Iterator[tuple[FeatureChunk, np.ndarray]]:
    """Yield chunks with the positions of the wanted rows, up to the last of them."""
    import numpy as np

    n_rows = 0
    asked = np.array(range(FIRST_ROWS) if wanted is None else wanted)
    for part in table.chunks():
        end = n_rows + len(part.rows)
        places = asked[(asked >= n_rows) & (asked < end)] - n_rows
        if len(places):
            yield part, places
        n_rows = end
        if asked[-1] < end:
            return
    if wanted is not None:
        raise InputError(f"--rows asks for row {wanted[-1]}, but {table.table.path} has {n_rows} rows, from 0")


def export(
    model: ModelArgument, out: Annotated[Path, _output(help="New file that ends in .onnx.")], force: ForceOption = False
) -> None:
    """Write the model as an ONNX graph, scaling included, that runs without Python or volta."""
    if out.suffix.lower() != ".onnx":
        raise InputError(f"--out is {out}; its name has to end in .onnx")
    check_new_file(out, force, model)
    with warnings_as_lines():
        load_model(model).to_onnx(out)
    echo(f"graph: {out}")


def card(
    model: ModelArgument,
    out: Annotated[Path | None, _output(help="Folder for NAME-card.html and .md. Default: the model's.")] = None,
    data: Annotated[Path | None, _input(help="Labelled samples to evaluate on, e.g. the test set.")] = None,
    label: LabelOption = None,
    ids: IdOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a model card: calibration, risk and coverage, policies with guarantees, hashes, limits."""
    from volta.core.files import write_text
    from volta.estimators.card import calibration_evidence, card_html, card_markdown, make_card, row_evidence
    from volta.serve.batch import model_rows

    folder = model.parent if out is None else out
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out is {folder}, which is a file; name a folder")
    page, text = (folder / f"{model.stem}-card{ending}" for ending in (".html", ".md"))
    for path in (page, text):
        check_new_file(path, force)
    classifier = load_model(model)
    with warnings_as_lines(), row_progress("evaluating", quiet=quiet) as advance:
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
