"""Anyone's model as an ONNX graph with calibration and decisions behind it, compared with Python before it is written.

The base model's graph is put before ours. Thresholds of trees are where graphs fail: one that compares in float32 sends
a row at a threshold to the other side. So rows next to them are compared too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from torch import Tensor, nn

from volta.core.errors import InputError, reason
from volta.core.files import canonical_json
from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.column_encoding import ColumnSchema, TableSchema
from volta.data.frames import read_table
from volta.decisions.conformal import Floats
from volta.decisions.decide import ACTIONS
from volta.estimators.base_graphs import (
    base_graph,
    column_name,
    fitted_parts,
    outputs_of_graph,
    prefixed,
    put_before,
    session_of,
)
from volta.estimators.base_models import TableRows, name_of, split_steps
from volta.estimators.onnx import (
    ROOM,
    Decider,
    EvidenceScores,
    GraphOutputs,
    Joined,
    Rounding,
    Rules,
    notes_of,
    tied_up_to,
)
from volta.estimators.onnx_tables import feeds, with_encoding
from volta.features.engines import ExportError
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction
from volta.methods.saving import no_graph, write_onnx

if TYPE_CHECKING:
    from volta.estimators.trusted import TrustedClassifier, TrustedMember

FloatName: TypeAlias = Literal["float32", "float64"]

MOST_APART = 1e-5
"""Probabilities of a graph may be so far from Python's."""
MOST_THRESHOLDS = 2000
"""So many thresholds of trees are tried, drawn at random where there are more."""


def input_schema(classifier: TrustedClassifier) -> TableSchema | None:
    """Return the columns that are inputs of their own: those of a mixed table, or where the model picks by name."""
    if classifier.schema_ is not None:
        return classifier.schema_
    prepare, _ = split_steps(classifier.members_[0].model.estimator)
    begin = prepare[0] if hasattr(prepare, "steps") else prepare
    if not isinstance(begin, ColumnTransformer) or not hasattr(begin, "feature_names_in_"):
        return None
    return TableSchema(tuple(ColumnSchema(str(name), "number") for name in begin.feature_names_in_), named=True)


class CalibratedOutputs(nn.Module):
    """One fit's calibrated prediction from its base model's outputs (n, k)."""

    def __init__(self, member: TrustedMember) -> None:
        super().__init__()
        model = member.model
        if not isinstance(member.method, HasTensorFormula):
            raise no_graph(member.method)
        self._formula = member.method.predict_tensors
        self._margins, self._binary = model.margins, len(model.columns) == 2
        self._lacking = len(model.columns) < model.n_classes
        order = np.full(model.n_classes, len(model.columns))
        order[model.columns] = np.arange(len(model.columns))
        self.order = nn.Parameter(torch.tensor(order), requires_grad=False)
        self.floor = nn.Parameter(torch.tensor([model.floor], dtype=torch.float64), requires_grad=False)

    def forward(self, outputs: Tensor) -> TensorPrediction:
        """Return the prediction."""
        found = outputs.double()
        if self._margins and self._binary:
            last = found[:, -1:]
            found = torch.cat([torch.zeros_like(last), last], dim=1)
        if self._margins and self._lacking:
            found = torch.softmax(found, dim=1)
        # A class that the base model did not see is the column of zeros behind its own.
        padded = torch.cat([found, torch.zeros_like(found[:, :1])], dim=1)
        logits = padded.index_select(1, self.order)
        if self._lacking or not self._margins:
            logits = torch.maximum(logits, self.floor).log()
        prediction: TensorPrediction = self._formula(TensorOutputs(logits, logits[:, :0]))
        return prediction


class TrustedMemberGraph(nn.Module):
    """One fit of a :class:`TrustedClassifier` from its base model's outputs (n, k) and float64 rows (n, d)."""

    def __init__(self, member: TrustedMember, joined: Joined) -> None:
        super().__init__()
        self.calibrated, self.evidence, self.joined = CalibratedOutputs(member), EvidenceScores(member.evidence), joined

    def forward(self, rows: Tensor, outputs: Tensor) -> tuple[TensorPrediction, Tensor]:
        """Return the prediction and OOD scores (n, 1)."""
        found = self.calibrated(outputs)
        return found, self.joined(torch.cat([self.evidence(rows), found.ood_score.unsqueeze(1)], dim=1))


class TrustedGraph(nn.Module):
    """A :class:`TrustedClassifier` from rows (n, d) and its base models' outputs side by side, of these widths."""

    def __init__(self, members: list[TrustedMemberGraph], widths: list[int], decider: Decider) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self._ends = np.cumsum(widths).tolist()
        self._starts = [0, *self._ends[:-1]]
        self.decider = decider

    def forward(self, inputs: Tensor, outputs: Tensor) -> GraphOutputs:
        """Return probabilities, uncertainty, OOD score and p-value, set and decision of each row."""
        rows = inputs.double()
        made = [
            member(rows, outputs[:, start:end])
            for member, start, end in zip(self.members, self._starts, self._ends, strict=True)
        ]
        lost = rows.sum(dim=1, keepdim=True).isnan()
        decided: GraphOutputs = self.decider([found for found, _ in made], [ood for _, ood in made], lost)
        return decided


def export_trusted(classifier: TrustedClassifier, rules: Rules, path: Path, dtype: FloatName) -> None:
    """Write a classifier around base models as one graph, if it decides as Python does on rows that are hard to it."""
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}; pass float32 or float64")
    members = list(classifier.members_)
    schema = input_schema(classifier)
    bases = [base_graph(member.model, classifier.probes_, schema) for member in members]
    rows = probe_rows(classifier, schema, dtype, bases)
    fed = {"inputs": rows.numbers} if schema is None else column_feeds(schema, rows.raw)
    roundings, widths = [], []
    for member, base in zip(members, bases, strict=True):
        outputs = outputs_of_graph(base, fed)
        roundings.append(base_rounding(member, outputs, rows, len(classifier.probes_)))
        widths.append(outputs.shape[1])
    joined = [Joined(classifier.calibration_.join, rounding) for rounding in roundings]
    parts = [TrustedMemberGraph(*each) for each in zip(members, joined, strict=True)]
    module = TrustedGraph(parts, widths, Decider(rules, joined, roundings))

    def merge(model: Any) -> Any:
        merged = put_before(model, side_by_side(bases, widen=schema is None))
        if schema is not None:
            merged = with_columns(merged, schema, encoded=classifier.schema_ is not None)
        own = {"inputs": rows.numbers.astype(dtype)} if schema is None else feeds_by_name(merged, fed)
        check_graph(classifier, merged, rows, own, rules)
        return merged

    examples = {
        "inputs": torch.zeros((2, rows.numbers.shape[1]), dtype=torch.float64 if schema else getattr(torch, dtype)),
        "outputs": torch.full((2, sum(widths)), 0.5, dtype=torch.float64),
    }
    name = name_of(members[0].model.estimator)
    notes = notes_of(classifier, classifier.method_, rules) | {"model": canonical_json(name)}
    write_onnx(module, examples, GraphOutputs._fields, path, notes, rewrite=merge)


def side_by_side(bases: Sequence[Any], *, widen: bool) -> list[Any]:
    """Return graphs that share their inputs and give ``outputs``, those of all side by side.

    ``widen``: their one input is ``inputs``, of any precision, which are made float64 first.
    """
    import onnx

    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    wide = helper.make_node("Cast", ["inputs"], ["wide_inputs"], "widen", to=double)
    names = [f"base_{place}" for place in range(len(bases))]
    found = [
        prefixed(
            base,
            f"{name}_",
            {each.name: "wide_inputs" if widen else each.name for each in base.graph.input}
            | {base.graph.output[-1].name: name},
        )
        for name, base in zip(names, bases, strict=True)
    ]
    if widen:
        found[0].graph.node.insert(0, wide)
    casts = [helper.make_node("Cast", [name], [f"{name}_wide"], f"{name}_widen", to=double) for name in names]
    joined = helper.make_node("Concat", [f"{name}_wide" for name in names], ["outputs"], "side_by_side", axis=1)
    last = found[-1].graph
    last.node.extend([*casts, joined])
    last.output.append(helper.make_tensor_value_info("outputs", double, None))
    for each in found:
        del each.graph.input[:]
    return found


def column_feeds(schema: TableSchema, frame: Any) -> dict[str, Array]:
    """Return the columns of a data frame as base graphs take them, by numbered names."""
    names = [column_name(place) for place in range(len(schema.columns))]
    return dict(feeds(schema.match(read_table(frame)), names))


def with_columns(model: Any, schema: TableSchema, *, encoded: bool) -> Any:
    """Return a graph of rows, and of columns for its base models, as one of the table's columns.

    Its rows are the columns as they are, unless they are ``encoded``.
    """
    import onnx

    model = with_encoding(model, schema, encoded=encoded)
    for place, given in enumerate(list(model.graph.input)):
        node = onnx.helper.make_node("Identity", [given.name], [column_name(place)], f"{column_name(place)}_of_table")
        model.graph.node.insert(0, node)
    return model


def feeds_by_name(model: Any, fed: Mapping[str, Array]) -> dict[str, Array]:
    """Return numbered columns under the names that a whole graph gives its inputs."""
    return {given.name: fed[column_name(place)] for place, given in enumerate(model.graph.input)}


def probe_rows(
    classifier: TrustedClassifier, schema: TableSchema | None, dtype: FloatName, bases: Sequence[Any]
) -> TableRows:
    """Return calibration rows, and rows on both sides of the thresholds of trees, in steps of ``dtype``.

    Trees behind other steps of a pipeline: two rows that a threshold parts are brought together by halving until there
    is no number between them.
    """
    held = classifier.probes_
    if schema is None:
        held = np.asarray(held, dtype=np.float64)
    elif not hasattr(held, "iloc"):
        held = held.to_pandas()
    random = rng(0, "export", "thresholds")
    found = [held]
    for member, base in zip(classifier.members_, bases, strict=True):
        thresholds = list(tree_thresholds(base))
        most = max(1, MOST_THRESHOLDS // len(bases))
        if len(thresholds) > most:
            thresholds = [thresholds[j] for j in random.choice(len(thresholds), most, replace=False)]
        if thresholds:
            prepare, _ = split_steps(member.model.estimator)
            columns, values = np.array(thresholds).T
            places = columns.astype(np.int64)
            if schema is None:
                found += list(_at_thresholds(held, prepare, places, values, dtype, random))
            else:
                found += list(_cells_at_thresholds(held, prepare, places, values))
    if schema is not None:
        import pandas

        frame = pandas.concat([*found, *_with_missing_cells(classifier, held)], ignore_index=True)
        encoded = classifier.schema_ is not None
        return TableRows(frame, schema.encode(frame) if encoded else frame.to_numpy(dtype=np.float64))
    rows = np.concatenate(found).astype(dtype).astype(np.float64)
    return TableRows(rows, rows)


def _with_missing_cells(classifier: TrustedClassifier, held: Any) -> Iterator[Any]:
    """Walk rows that lack one category each, of those that training rows lack: few may be among calibration rows."""
    prepare, _ = split_steps(classifier.members_[0].model.estimator)
    levels = [level for part in fitted_parts(prepare) for each in getattr(part, "categories_", ()) for level in each]
    missing = None if any(level is None for level in levels) else np.nan
    for column in () if classifier.schema_ is None else classifier.schema_.columns:
        if column.kind == "category" and column.missing:
            yield held.head(1).assign(**{column.name: np.array([missing], dtype=object)})


def _at_thresholds(
    held: Floats,
    prepare: Any,
    columns: NDArray[np.int64],
    values: Floats,
    dtype: FloatName,
    random: np.random.Generator,
) -> Iterator[Floats]:
    each, kind = np.arange(len(values)), np.dtype(dtype).type
    rows = held[random.integers(len(held), size=len(values))]
    if prepare is None:
        near = values.astype(dtype)
        for moved in (near, np.nextafter(near, kind(-np.inf)), np.nextafter(near, kind(np.inf))):
            rows = rows.copy()
            rows[each, columns] = moved
            yield rows
        return

    def seen(given: Floats) -> Floats:
        made = prepare.transform(given)
        dense = made.toarray() if hasattr(made, "toarray") else np.asarray(made)
        return np.asarray(dense[each, columns], dtype=np.float64)

    whole = prepare.transform(held)
    whole = np.asarray(whole.toarray() if hasattr(whole, "toarray") else whole, dtype=np.float64)
    low, high = (held[pick(whole, axis=0)[columns]].astype(dtype) for pick in (np.argmin, np.argmax))
    for _ in range(HALVINGS):
        middle = (low.astype(np.float64) + (high.astype(np.float64) - low) / 2.0).astype(dtype)
        above = (seen(middle.astype(np.float64)) > values)[:, None]
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    yield low.astype(np.float64)
    yield high.astype(np.float64)


HALVINGS = 80


def _cells_at_thresholds(held: Any, prepare: Any, columns: NDArray[np.int64], values: Floats) -> Iterator[Any]:
    """Do the same for a data frame: numbers are brought together, other cells are those of the lower row."""

    def seen(frame: Any) -> Floats:
        made = prepare.transform(frame)
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)

    each, whole = np.arange(len(values)), np.nan_to_num(seen(held))
    low, high = (held.iloc[pick(whole, axis=0)[columns]].reset_index(drop=True) for pick in (np.argmin, np.argmax))
    numbers = [name for name in held.columns if held[name].dtype.kind == "f"]
    below, above = (frame[numbers].to_numpy() for frame in (low, high))
    above = np.where(np.isnan(above), below, above)
    for _ in range(HALVINGS):
        middle = below + (above - below) / 2.0
        higher = (seen(low.assign(**dict(zip(numbers, middle.T, strict=True))))[each, columns] > values)[:, None]
        below, above = np.where(higher, below, middle), np.where(higher, middle, above)
    for made in (below, above):
        yield low.assign(**dict(zip(numbers, made.T, strict=True)))


def tree_thresholds(base: Any) -> Iterator[tuple[int, float]]:
    """Walk the columns and values at which a graph's trees split rows."""
    import onnx

    for node in base.graph.node:
        if not node.op_type.startswith("TreeEnsemble"):
            continue
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        values = given.get("nodes_values")
        if values is None:
            values = onnx.numpy_helper.to_array(given["nodes_values_as_tensor"])
        for mode, column, value in zip(given["nodes_modes"], given["nodes_featureids"], values, strict=True):
            if mode != b"LEAF":
                yield int(column), float(value)


def base_rounding(member: TrustedMember, outputs: Array, rows: TableRows, n_calibration: int) -> Rounding:
    """Compare a base graph's outputs, calibrated, with Python on the same rows; leave room to spare.

    What float64 leaves counts as equal anyway. A wider tie would join scores that Python tells apart.
    """
    exact = member.predict(rows)
    with torch.no_grad():
        found = CalibratedOutputs(member)(torch.from_numpy(outputs))
    pairs = ((found.probs.numpy(), exact.probs), (found.uncertainty.numpy()[:, None], exact.uncertainty[:, None]))
    apart = np.hstack([np.abs(one - other) - (tied_up_to(other, Rounding().scores) - other) for one, other in pairs])
    # Rows next to a threshold may be sent elsewhere, which is no rounding; the calibration rows come first.
    return Rounding(absolute=ROOM * max(0.0, float(apart[:n_calibration].max())))


def check_graph(
    classifier: TrustedClassifier, model: Any, rows: TableRows, fed: Mapping[str, Array], rules: Rules
) -> None:
    """Refuse a graph that decides otherwise than Python, or has another probability, and say for which row and why."""
    names, called = list(GraphOutputs._fields), name_of(classifier.members_[0].model.estimator)
    try:
        got = dict(zip(names, session_of(model).run(names, dict(fed)), strict=True))
    except Exception as error:  # the runtime raises many kinds
        raise ExportError(f"the graph of {called} does not run ({reason(error)})") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = classifier.decide(rows.raw, fpr=rules.fpr, alpha=rules.alpha)
        probs = classifier.predict_proba(rows.raw)
    apart = np.abs(got["probs"] - probs).max(axis=1)
    wrong = (apart > MOST_APART) | (got["decision"] != expected.action) | (got["set"] != expected.sets).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "a calibration row" if row < len(classifier.probes_) else "a row next to a split of its trees"
        raise InputError(
            f"the graph of {called} differs from Python for {int(wrong.sum())} of {len(wrong)} rows tried, first for "
            f"{kind}: probabilities are {apart[row]:.2g} apart, decisions {ACTIONS[got['decision'][row]]} and "
            f"{ACTIONS[expected.action[row]]}; its converter does not compute as Python does"
        )
