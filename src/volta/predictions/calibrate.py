"""A file of external predictions calibrated by what is fitted to held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from volta.bench.cell_metrics import TEST, VAL
from volta.bench.store import pack_arrays
from volta.core.errors import InputError
from volta.core.files import write_atomic
from volta.core.types import Array
from volta.data.tables import check_new_table, new_table
from volta.methods.calibrators import FittedCalibrator, find_calibrator
from volta.methods.scores import Floats
from volta.predictions.external_model import NO_LABEL, ExternalModel, RowSet
from volta.predictions.prediction_files import read_models

MAX_SHOWN = 20
"""More fitted numbers than this are counted, not printed."""
_SCORES = ("uncertainty", "ood_score")


def calibrate_file(
    file: Path, fit: Path, out: Path, method: str, *, logits: bool = False, overwrite: bool = False
) -> str:
    """Fit a calibrator to each model's rows in ``fit``, write its rows of ``file`` calibrated, and say what was fitted.

    What is fitted to are the rows of set ``val`` of ``fit`` or, in a file of its own without such a set, all its
    labelled rows. Logits stay logits and probabilities stay probabilities; a probability counts as its logarithm.
    Rows of ``file`` need no labels. Uncertainties and OOD scores there are those of the model before: they are left
    out, save where a set has scores alone. Ids, sets, labels and the names of classes are kept; other columns are not
    part of predictions, and what is left out is said.
    """
    calibrator = find_calibrator(method)
    check_new_table(out, overwrite=overwrite)
    lines: list[str] = []
    models = read_models([file], logits=logits, labelled=False, say=lambda text: lines.append(f"{text} (left out)"))
    same = fit.resolve() == file.resolve()
    held_out = models if same else read_models([fit], logits=logits, labelled=False)
    calibrated = []
    for model in models:
        rows = _fit_rows(_partner(model, held_out, fit, len(models) == 1), fit, same)
        if rows.labels is None:
            raise InputError(f"{rows.where} has no labels; a calibrator needs them")
        fitted = calibrator.fit(_logits(rows), rows.labels)
        plain, note = _without_scores(model)
        calibrated.append(_apply(plain, fitted, rows.n_classes))
        lines.append(f"{model.label}: {calibrator.title} on {len(rows)} rows, {_words(fitted)}{note}")
    _write(out, calibrated, overwrite)
    return "\n".join(lines)


def _without_scores(model: ExternalModel) -> tuple[ExternalModel, str]:
    """Return the model without scores that were made from what is calibrated now, and what to say of it."""
    given = [name for name in _SCORES if any(name in rows.arrays for rows in model.sets.values())]
    if not given:
        return model, ""
    words = " and ".join(given)
    if any(rows.n_classes is None for rows in model.sets.values()):
        return model, f"; {words} kept as given, of the model before: a set has scores alone"
    sets = {name: replace(rows, uncertainty=None, ood_score=None) for name, rows in model.sets.items()}
    return replace(model, sets=sets), f"; {words} left out: of the model before"


def _partner(model: ExternalModel, held_out: Sequence[ExternalModel], fit: Path, alone: bool) -> ExternalModel:
    """Return the held-out rows of the same model: of the same method and seed, or the only one where both are alone."""
    same = [one for one in held_out if (one.method, one.seed) == (model.method, model.seed)]
    if same:
        return same[0]
    if alone and len(held_out) == 1:
        return held_out[0]
    raise InputError(f"{fit} has no rows of {model.label}; it has {'; '.join(one.label for one in held_out)}")


def _fit_rows(model: ExternalModel, fit: Path, same: bool) -> RowSet:
    if VAL in model.sets:
        return model.sets[VAL]
    if str(TEST) in model.sets and not same:
        return model.sets[str(TEST)]
    raise InputError(
        f"{fit} has no val rows of {model.label}; a calibrator is fitted to rows that are not calibrated with it: add "
        "them as set val, or name another file with --fit"
    )


def _logits(rows: RowSet) -> Floats:
    if rows.logits is not None:
        return np.asarray(rows.logits, dtype=np.float64)
    probs = np.asarray(rows.probs, dtype=np.float64)
    return np.asarray(np.log(np.maximum(probs, np.finfo(np.float64).tiny)))


def _apply(model: ExternalModel, fitted: FittedCalibrator, n_classes: int | None) -> ExternalModel:
    sets = {}
    for name, rows in model.sets.items():
        if rows.n_classes not in (None, n_classes):
            raise InputError(f"{rows.where} has {rows.n_classes} classes but the calibrator was fitted to {n_classes}")
        if rows.logits is not None:
            sets[name] = replace(rows, logits=fitted.logits(_logits(rows)))
        elif rows.probs is not None:
            sets[name] = replace(rows, probs=fitted.probs(_logits(rows)))
        else:
            sets[name] = rows
    return replace(model, sets=sets)


def _words(fitted: FittedCalibrator) -> str:
    parts = []
    for name, value in fitted.parameters.items():
        numbers = list(_numbers(value))
        few = len(numbers) <= MAX_SHOWN
        parts.append(f"{name} {' '.join(f'{one:.6g}' for one in numbers) if few else f'of {len(numbers)} numbers'}")
    return ", ".join(parts)


def _numbers(value: object) -> Iterator[float]:
    """Walk the numbers of lists in lists, of any lengths."""
    if isinstance(value, list | tuple | np.ndarray):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float | np.number):
        yield float(value)


def _write(out: Path, models: Sequence[ExternalModel], overwrite: bool) -> None:
    """Write one model to an npz under its sets' names, anything else as a long table."""
    if out.suffix.lower() == ".npz" and len(models) == 1:
        classes = models[0].classes
        arrays: dict[str, Array] = {}
        for name, rows in models[0].sets.items():
            arrays |= {f"{name}/{'id' if kind == 'ids' else kind}": values for kind, values in rows.arrays.items()}
            if classes and rows.labels is not None:
                arrays[f"{name}/labels"] = _named(rows.labels, classes)
        if classes:
            arrays["classes"] = np.array(classes)
        write_atomic(out, lambda file: file.write(pack_arrays(arrays)))
        return
    parts = [(model, name, rows) for model in models for name, rows in model.sets.items()]
    kinds = {frozenset(rows.arrays) - {"labels"} for _, _, rows in parts}
    if len(kinds) > 1:
        raise InputError(f"--out is {out}, a table, but sets differ in what they hold; name an npz and one model")
    wide = out.suffix.lower() == ".npz"
    with new_table(out, overwrite=overwrite) as writer:
        for model, name, rows in parts:
            writer.write(_columns(model, name, rows, wide, max(len(name) for _, name, _ in parts)))


def _columns(model: ExternalModel, name: str, rows: RowSet, wide: bool, width: int) -> dict[str, Array]:
    n = len(rows)
    columns: dict[str, Array] = {
        "method": np.full(n, model.method),
        "seed": np.full(n, model.seed, dtype=np.int64),
        "set": np.full(n, name, dtype=f"U{width}"),
    }
    if rows.ids is not None:
        columns["id"] = rows.ids
    # Columns of logits and of whole arrays have numbers for names.
    classes = () if wide or rows.logits is not None else model.classes
    labels = np.full(n, NO_LABEL, dtype=np.int64) if rows.labels is None else rows.labels
    columns["label"] = _named(labels, classes) if classes else labels
    for kind, short, values in (("probs", "p", rows.probs), ("logits", "logit", rows.logits)):
        if values is not None:
            names = classes or range(values.shape[1])
            columns |= {kind: values} if wide else {f"{short}_{k}": values[:, at] for at, k in enumerate(names)}
    for kind in _SCORES:
        if kind in rows.arrays:
            columns[kind] = rows.arrays[kind]
    if rows.sets is not None:
        sets = rows.sets.astype(np.int64)
        names = classes or range(sets.shape[1])
        columns |= {"sets": sets} if wide else {f"in_set_{k}": sets[:, at] for at, k in enumerate(names)}
    return columns


def _named(labels: Array, classes: Sequence[str]) -> Array:
    """Return the names of numbered labels; empty where a row has none."""
    return np.array([*classes, ""])[np.where(labels == NO_LABEL, len(classes), labels)]
