"""``volta predict``: the class, the probabilities and the uncertainty of every row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volta.cli.model_files import check_carried, check_not_read, load_model, model_rows
from volta.cli.options import DataArgument, ForceOption, IdOption, LabelOption, ModelArgument, OutOption, QuietOption
from volta.cli.printing import echo
from volta.cli.row_progress import row_progress
from volta.cli.stopping import ALL_OR_NOTHING, stoppable
from volta.cli.warning_lines import warnings_as_lines

if TYPE_CHECKING:
    from volta.core.types import Array, Prediction
    from volta.estimators.classifier import VoltaClassifier


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: OutOption,
    ids: IdOption = None,
    label: LabelOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict every row: its class, its uncertainty and the probability of each class. Files may exceed memory."""
    from volta.data.formats.tabular_files import check_new_table, new_table

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
            check_carried(given, found | shared)
            writer.write(given | found)
            n_rows += len(part.rows)
            advance(len(part.rows), part.chunk.done)
    echo(f"{n_rows} rows: {out}")


def prediction_columns(classifier: VoltaClassifier, prediction: Prediction, *, joined: bool) -> dict[str, Array]:
    """Return the columns to write: ``class``, ``uncertainty`` and ``p_CLASS`` …, or ``probs`` (n, K) if ``joined``."""
    columns: dict[str, Array] = {
        "class": classifier.classes_[prediction.labels],
        "uncertainty": prediction.uncertainty,
    }
    if joined:
        return columns | {"probs": prediction.probs}
    return columns | {f"p_{name}": prediction.probs[:, k] for k, name in enumerate(classifier.classes_)}
