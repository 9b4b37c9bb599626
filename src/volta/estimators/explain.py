"""Why a row was classified as it was: the nearest classes, columns that speak against it, similar training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.scaling import Scaler
from volta.core.types import Array, Prediction
from volta.data.column_encoding import TableSchema
from volta.data.frames import RawTable
from volta.decisions import ColumnEvidence, TableEvidence

if TYPE_CHECKING:
    from volta.methods.base import Method


@dataclass(frozen=True)
class NearClass:
    """A class with its probability and the cosine between the row and the class's prototype."""

    label: Any
    similarity: float
    probability: float


@dataclass(frozen=True, eq=False)
class SimilarRow:
    """A training row: its number in the X given to fit, its label, the cosine to it and its values as given."""

    index: int
    label: Any
    similarity: float
    values: NDArray[Any]


@dataclass(frozen=True)
class CellEvidence:
    """A cell of a table with a schema that speaks against its row: its ``value`` and what is ``expected``, in words.

    ``column`` is the number of the source column; ``weight`` and ``reason`` as in `ColumnEvidence`.
    """

    column: int
    name: str
    value: str
    expected: str
    weight: float
    reason: str


@dataclass(frozen=True, eq=False)
class Explanation:
    """What stands behind one row's prediction.

    ``classes``: the nearest by cosine to their prototype, nearest first; ``columns``: those that speak against the row,
    the strongest first, in the user's units; ``rows``: the most similar training rows, None unless the model keeps
    them.
    """

    label: Any
    probability: float
    classes: tuple[NearClass, ...]
    columns: tuple[ColumnEvidence | CellEvidence, ...]
    rows: tuple[SimilarRow, ...] | None

    def __str__(self) -> str:
        lines = [f"{self.label} with probability {self.probability:.3g}"]
        lines += [f"  like class {near.label}: cosine {near.similarity:.3f}" for near in self.classes]
        lines += [f"  {_column_words(column)}" for column in self.columns]
        lines += [
            f"  like training row {row.index} ({row.label}): cosine {row.similarity:.3f}" for row in self.rows or ()
        ]
        return "\n".join(lines)


NEARLY_ZERO = 1e-6
"""A number that is smaller, beside the others that are printed with it, is what rounding left of 0."""


def _column_words(found: ColumnEvidence | CellEvidence) -> str:
    if isinstance(found, CellEvidence):
        return f"{found.name} is {found.value}, {found.reason}: training rows have {found.expected}"
    largest = max(abs(found.value), abs(found.low), abs(found.high))
    value, low, high = (
        "0" if abs(number) < NEARLY_ZERO * largest else f"{number:.6g}"
        for number in (found.value, found.low, found.high)
    )
    return f"{found.name} is {value}, {found.reason}: training rows have {low} to {high}"


def explain_cells(
    found: tuple[ColumnEvidence, ...], schema: TableSchema, table: RawTable, row: int, most: int
) -> tuple[ColumnEvidence | CellEvidence, ...]:
    """Return the evidence of encoded columns as that of a table's cells, each once, the strongest first."""
    cells: dict[int, ColumnEvidence | CellEvidence] = {}
    for each in found:
        source = int(schema.sources[each.column])
        column, text = schema.columns[source], table.columns[source].text(row)
        flagged = each.column == schema.flags[source]
        if source in cells:
            continue
        if schema.encoded_names[each.column] == column.name and column.kind == "number" and not flagged:
            cells[source] = replace(each, column=source)
        else:
            reason = "unseen value" if flagged else each.reason.replace("out of range", "unseen value")
            cells[source] = CellEvidence(source, column.name, text, column.wanted(), each.weight, reason)
    return tuple(cells.values())[:most]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows for later comparison: ``index`` in X, ``labels`` (class numbers), ``values``, unit ``vectors``."""

    index: NDArray[np.int64]
    labels: NDArray[np.int64]
    values: NDArray[Any]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Reference:
    """What rows are compared with: unit ``prototypes`` (n_classes, width), and training rows where they are kept.

    A prototype is the method's own where it has one, else the mean direction of the class's training rows in the
    method's embedding; a class without training rows has the zero vector, which is like nothing.
    """

    prototypes: NDArray[np.float32]
    kept: TrainingRows | None


def fit_reference(
    method: Method, scaled: Array, labels: NDArray[np.int64], n_classes: int, kept: tuple[Array, Array] | None
) -> Reference:
    """Learn the prototypes from training rows; ``kept`` is (row numbers, values) of those to keep, or None."""
    from volta.networks.modules import PrototypeHead

    network = getattr(method, "network_", None)
    head = None if network is None else network.classifier.head
    own = _unit(head.prototypes.detach().cpu().numpy()) if isinstance(head, PrototypeHead) else None
    if own is not None and kept is None:
        return Reference(own, None)
    vectors = _vectors(method, scaled)
    prototypes = _mean_directions(vectors, labels, n_classes) if own is None else own
    return Reference(prototypes, None if kept is None else TrainingRows(kept[0], labels, kept[1], _unit(vectors)))


def explain_rows(
    rows: Array,
    *,
    method: Method,
    scaler: Scaler,
    evidence: TableEvidence,
    reference: Reference,
    prediction: Prediction,
    classes: NDArray[Any],
    names: list[str] | None,
    most: int,
    encoded: tuple[TableSchema, RawTable] | None = None,
) -> list[Explanation]:
    """Explain rows (n, d) in the user's units; ``most`` bounds classes, columns and training rows alike.

    ``encoded``: the schema by which a table became the rows, and the table.
    """
    vectors = _unit(_vectors(method, scaler.apply(rows)))
    similarities = vectors @ reference.prototypes.T
    unlike: list[tuple[ColumnEvidence | CellEvidence, ...]]
    if encoded is None:
        unlike = [*evidence.explain(rows, names=names, most=most)]
    else:
        schema, table = encoded
        found = evidence.explain(rows, names=schema.encoded_names, most=rows.shape[1])
        unlike = [explain_cells(each, schema, table, row, most) for row, each in enumerate(found)]
    labels = prediction.labels
    return [
        Explanation(
            label=_plain(classes[labels[row]]),
            probability=float(prediction.probs[row, labels[row]]),
            classes=_nearest_classes(similarities[row], prediction.probs[row], classes, most),
            columns=unlike[row],
            rows=None if reference.kept is None else _similar(vectors[row], reference.kept, classes, most),
        )
        for row in range(len(rows))
    ]


def _nearest_classes(similarities: Array, probs: Array, classes: NDArray[Any], most: int) -> tuple[NearClass, ...]:
    order = np.argsort(-similarities, kind="stable")[:most]
    return tuple(NearClass(_plain(classes[k]), float(similarities[k]), float(probs[k])) for k in order)


def _similar(vector: Array, kept: TrainingRows, classes: NDArray[Any], most: int) -> tuple[SimilarRow, ...]:
    cosines = kept.vectors @ vector
    order = np.argsort(-cosines, kind="stable")[:most]
    return tuple(
        SimilarRow(int(kept.index[i]), _plain(classes[kept.labels[i]]), float(cosines[i]), kept.values[i])
        for i in order
    )


def _vectors(method: Method, scaled: Array) -> Array:
    """Return (n, width) penultimate vectors of the network, or the inputs of a method without one network."""
    network = getattr(method, "network_", None)
    return scaled if network is None else network.outputs(scaled).need_features()


def _unit(vectors: Array) -> NDArray[np.float32]:
    wide = vectors.astype(np.float64)
    return np.asarray(wide * _inverse_lengths(wide)[:, None], dtype=np.float32)


def _inverse_lengths(vectors: Array) -> NDArray[np.float64]:
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.asarray(1.0 / np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny)))


def _mean_directions(vectors: Array, labels: NDArray[np.int64], n_classes: int) -> NDArray[np.float32]:
    """Return the direction of each class's sum of unit vectors, which are never all in memory."""
    weights, order = _inverse_lengths(vectors), np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(n_classes + 1))
    sums = np.zeros((n_classes, vectors.shape[1]))
    for label, (start, end) in enumerate(pairwise(ends)):
        rows = order[start:end]
        sums[label] = weights[rows] @ vectors[rows]
    return _unit(sums)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
