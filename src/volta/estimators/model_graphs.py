"""Anyone's model as an ONNX graph with calibration and decisions behind it, compared with Python before it is written.

The base model is converted by its own library's converter, and its graph is put before ours. Thresholds of trees are
where converters fail: a graph that compares in float32 sends a row at a threshold to the other side.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from torch import Tensor, nn

from volta.core.errors import InputError, reason
from volta.core.files import canonical_json
from volta.core.seeding import rng
from volta.core.types import Array
from volta.data.column_encoding import TableSchema
from volta.data.frames import read_table
from volta.decisions.conformal import Floats
from volta.decisions.decide import ACTIONS
from volta.estimators.base_models import BaseModel, TableRows, final_step, name_of
from volta.estimators.model_files import LightGBMModel, PreparedModel, format_of, unfrozen
from volta.estimators.onnx import (
    ROOM,
    Decider,
    EvidenceScores,
    GraphOutputs,
    Joined,
    Rounding,
    Rules,
    notes_of,
)
from volta.estimators.onnx_tables import feeds, with_encoding
from volta.features.engines import ExportError
from volta.methods.graphs import HasTensorFormula, TensorOutputs, TensorPrediction
from volta.methods.saving import no_graph, write_onnx

if TYPE_CHECKING:
    from volta.estimators.trusted import TrustedClassifier, TrustedMember

FloatName: TypeAlias = Literal["float32", "float64"]

OPSET, ML_OPSET = 18, 3
BOOSTER_OPSET = 15
"""What the converters of boosted trees know; their operators mean the same in ``OPSET``."""
MOST_APART = 1e-5
"""Probabilities of a graph may be so far from Python's."""
MOST_THRESHOLDS = 2000
"""So many thresholds of trees are tried, drawn at random where there are more."""

ROUNDED_TREES = (
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
"""Trees of scikit-learn that round their inputs to float32, as XGBoost and CatBoost do; others compare in float64."""


def base_graph(model: BaseModel, rows: Any, schema: TableSchema | None) -> Any:
    """Return a base model from ``inputs`` (n, d) float64 to (n, k) probabilities or margins, its last output.

    rows: some as the model takes them; with a ``schema`` there is an input for each of its columns. Every step
    computes in the precision that it has in Python.
    """
    if model.response == "function":
        raise InputError(f"estimator is the function {name_of(model.estimator)}, which has no graph; wrap a classifier")
    estimator = unfrozen(model.estimator)
    prepare, last = _last_step(estimator)
    try:
        if prepare is None and schema is None:
            return _converted(last, rows.shape[1])
        if prepare is None:
            raise InputError(
                f"{name_of(estimator)} takes text, dates or missing cells by itself, which converters do not know; "
                "put a ColumnTransformer that makes numbers of it before the model, in a pipeline"
            )
        begin = prepare[0] if hasattr(prepare, "steps") else prepare
        if schema is None and isinstance(begin, ColumnTransformer) and hasattr(begin, "feature_names_in_"):
            said = "was fitted on named columns, all numbers, which a graph takes as one tensor without names"
            raise InputError(f"{name_of(estimator)} {said}; fit on an array, and let ColumnTransformer pick by number")
        first = _from_sklearn(prepare, rows.shape[1] if schema is None else schema)
        return chained(first, _converted(last, prepare.transform(rows[:2]).shape[1]))
    except ImportError as error:
        raise ExportError(f"exporting needs {error.name}; install it with: pip install 'volta-uq[onnx]'") from error
    except InputError:
        raise
    except Exception as error:  # converters raise many kinds
        raise InputError(f"{name_of(estimator)} cannot be exported: its converter says: {reason(error)}") from error


def _last_step(estimator: Any) -> tuple[Any, Any]:
    """Return the earlier steps of a pipeline, or None, and its last."""
    if isinstance(estimator, PreparedModel):
        return estimator.prepare, estimator.model
    if hasattr(estimator, "steps") and len(estimator.steps) > 1:
        return estimator[:-1], final_step(estimator)
    return None, final_step(estimator)


def _converted(model: Any, n_columns: int) -> Any:
    return _CONVERTERS[format_of(model)](model, n_columns)


def _from_sklearn(estimator: Any, columns: int | TableSchema) -> Any:
    from skl2onnx import convert_sklearn, update_registered_converter
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
    from skl2onnx.operator_converters.random_forest import convert_sklearn_random_forest_classifier

    def histogram_trees(scope: Any, operator: Any, container: Any) -> None:
        convert_sklearn_random_forest_classifier(scope, operator, _TreeContainer(container), op_version=ML_OPSET)

    update_registered_converter(
        HistGradientBoostingClassifier,
        "SklearnHistGradientBoostingClassifier",
        calculate_linear_classifier_output_shapes,
        histogram_trees,
        options={"zipmap": [True, False, "columns"], "raw_scores": [True, False], "nocl": [True, False]},
    )
    options: dict[int, Any] = {}
    if hasattr(estimator, "predict_proba"):
        options = {id(estimator): {"zipmap": False}}
    elif hasattr(estimator, "decision_function"):
        options = {id(estimator): {"raw_scores": True}}
    rounded = isinstance(estimator, ROUNDED_TREES)
    kind = FloatTensorType if rounded else DoubleTensorType
    if isinstance(columns, int):
        types = [("inputs", kind([None, columns]))]
    else:
        types = [
            (column.name, (StringTensorType if column.kind == "category" else DoubleTensorType)([None, 1]))
            for column in columns.columns
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = convert_sklearn(
            estimator,
            initial_types=types,
            options=options,
            target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
        )
    if not rounded:
        _impute_in_double(found.graph)
    if not isinstance(columns, int):
        # A converter may leave out the inputs that a pipeline does not use.
        places = {column.name: column_name(place) for place, column in enumerate(columns.columns)}
        found = prefixed(found, "table_", places)
    if isinstance(estimator, HistGradientBoostingClassifier):
        _set_type(found.graph.output[-1], single=True)
    return rounding_inputs(found) if rounded else found


def _impute_in_double(graph: Any) -> None:
    """Put operators of float64 in the place of imputers, which ONNX Runtime has in float32 alone."""
    import onnx

    for place, node in reversed(list(enumerate(graph.node))):
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type != "Imputer" or not np.isnan(given.get("replaced_value_float", 0.0)):
            continue
        fill, missing = f"{node.output[0]}_fill", f"{node.output[0]}_missing"
        values = np.array(given["imputed_value_floats"], dtype=np.float64)[None]
        graph.initializer.append(onnx.numpy_helper.from_array(values, fill))
        tests = onnx.helper.make_node("IsNaN", [node.input[0]], [missing], missing)
        chosen = onnx.helper.make_node("Where", [missing, fill, node.input[0]], [node.output[0]], fill)
        graph.node.remove(node)
        graph.node.insert(place, chosen)
        graph.node.insert(place, tests)


class _TreeContainer:
    """A converter's container for trees that compare in float64: what onnx writes single by default becomes tensors."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def add_node(self, *args: Any, **attributes: Any) -> Any:
        import onnx

        made: dict[str, Any] = {}
        for name, value in attributes.items():
            if isinstance(value, np.ndarray) and value.dtype == np.float64:
                made[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(value, name)
            elif isinstance(value, list):
                # onnx asks for Python's own numbers.
                made[name] = [int(each) if isinstance(each, np.integer | np.bool_ | bool) else each for each in value]
            else:
                made[name] = value
        made.pop("nodes_hitrates_as_tensor", None)
        return self._container.add_node(*args, **made)


def _set_type(value: Any, *, single: bool) -> None:
    import onnx

    value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT if single else onnx.TensorProto.DOUBLE


def rounding_inputs(model: Any) -> Any:
    """Return a graph of float32 inputs as one of float64 inputs, which are rounded first, as Python rounds them."""
    import onnx

    (first,) = model.graph.input
    name, first.name = first.name, "exact_inputs"
    _set_type(first, single=False)
    model.graph.node.insert(
        0, onnx.helper.make_node("Cast", ["exact_inputs"], [name], "round", to=onnx.TensorProto.FLOAT)
    )
    return model


def _from_lightgbm(model: Any, n_columns: int) -> Any:
    import onnx
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    booster = model.booster if isinstance(model, LightGBMModel) else model.booster_
    types = [("inputs", FloatTensorType([None, n_columns]))]
    found = convert_lightgbm(booster, initial_types=types, zipmap=False, target_opset=BOOSTER_OPSET)
    (trees,) = [node for node in found.graph.node if node.op_type == "TreeEnsembleClassifier"]
    given = {each.name: onnx.helper.get_attribute_value(each) for each in trees.attribute}
    exact = _exact_thresholds(booster)
    values = np.array(given["nodes_values"], dtype=np.float64)
    for place, mode in enumerate(given["nodes_modes"]):
        if mode != b"LEAF":
            own = exact[given["nodes_treeids"][place], given["nodes_featureids"][place]]
            # A split of missing cells from all others has the threshold 1e300, infinite in float32.
            with np.errstate(over="ignore"):
                values[place] = own[own.astype(np.float32) == np.float32(values[place])][0]
    doubles = {"nodes_values": values} | {
        name: np.array(given[name], dtype=np.float64) for name in ("class_weights", "base_values") if name in given
    }
    kept = [each for each in trees.attribute if each.name not in (*doubles, "nodes_hitrates")]
    del trees.attribute[:]
    trees.attribute.extend(kept)
    for name, array in doubles.items():
        tensor = onnx.numpy_helper.from_array(array, name)
        trees.attribute.append(onnx.helper.make_attribute(f"{name}_as_tensor", tensor))
    _set_type(found.graph.input[0], single=False)
    del found.opset_import[:]
    found.opset_import.extend(
        [onnx.helper.make_opsetid("", BOOSTER_OPSET), onnx.helper.make_opsetid(trees.domain, ML_OPSET)]
    )
    return found


def _exact_thresholds(booster: Any) -> dict[tuple[int, int], Floats]:
    """Return the thresholds of a LightGBM model by tree and column: its converter rounds them to float32."""
    found: dict[tuple[int, int], list[float]] = {}

    def walk(tree: int, node: dict[str, Any]) -> None:
        if "split_feature" in node:
            found.setdefault((tree, node["split_feature"]), []).append(node["threshold"])
            walk(tree, node["left_child"])
            walk(tree, node["right_child"])

    for tree, described in enumerate(booster.dump_model()["tree_info"]):
        walk(tree, described["tree_structure"])
    return {place: np.array(values, dtype=np.float64) for place, values in found.items()}


def _from_xgboost(model: Any, n_columns: int) -> Any:
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("inputs", FloatTensorType([None, n_columns]))]
    return rounding_inputs(convert_xgboost(model, initial_types=types, target_opset=BOOSTER_OPSET))


def _from_catboost(model: Any, n_columns: int) -> Any:
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.save_model(str(path), format="onnx")
        found = onnx.load(str(path))
    (zipmap,) = [node for node in found.graph.node if node.op_type == "ZipMap"]
    found.graph.node.remove(zipmap)
    del found.graph.output[:]
    found.graph.output.append(onnx.helper.make_tensor_value_info(zipmap.input[0], onnx.TensorProto.FLOAT, [None, None]))
    return rounding_inputs(found)


_CONVERTERS: dict[str, Callable[[Any, int], Any]] = {
    "skops": _from_sklearn,
    "lightgbm": _from_lightgbm,
    "xgboost": _from_xgboost,
    "catboost": _from_catboost,
}
"""By the format in which a model is stored."""


def prefixed(model: Any, prefix: str, inputs: dict[str, str]) -> Any:
    """Return a copy whose names begin with ``prefix``, but for its inputs, which are renamed as ``inputs`` says."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    renamed = dict(inputs)

    def rename(name: str) -> str:
        return renamed.get(name, f"{prefix}{name}") if name else name

    _rename_graph(copy.graph, rename)
    return copy


def _rename_graph(graph: Any, rename: Callable[[str], str]) -> None:
    for node in graph.node:
        node.name = rename(node.name)
        node.input[:] = [rename(name) for name in node.input]
        node.output[:] = [rename(name) for name in node.output]
        for attribute in node.attribute:
            for part in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _rename_graph(part, rename)
    for values in (graph.input, graph.output, graph.initializer, graph.value_info):
        for value in values:
            value.name = rename(value.name)


def chained(first: Any, second: Any) -> Any:
    """Return two graphs one after another: the first output of one, cast, is the only input of the other."""
    import onnx

    before = prefixed(first, "prepare_", {value.name: value.name for value in first.graph.input})
    made = prefixed(second, "model_", {second.graph.input[0].name: "prepared"})
    kind, own = made.graph.input[0].type, before.graph.output[0]
    cast = onnx.helper.make_node("Cast", [own.name], ["prepared"], "prepared_as", to=kind.tensor_type.elem_type)
    before.graph.node.append(cast)
    own.name = "prepared"
    own.type.CopyFrom(kind)
    return put_before(made, [before])


def put_before(model: Any, earlier: Sequence[Any]) -> Any:
    """Return ``model`` with other graphs before it, whose outputs are inputs of it by name."""
    import onnx

    merged = onnx.ModelProto()
    merged.CopyFrom(model)
    graph, made = merged.graph, {value.name for part in earlier for value in part.graph.output}
    nodes = [node for part in earlier for node in part.graph.node]
    own, outer = list(graph.node), {value.name: value for part in earlier for value in part.graph.input}
    inputs = [value for value in graph.input if value.name not in made]
    inputs += [value for name, value in outer.items() if name not in {each.name for each in inputs}]
    del graph.node[:], graph.input[:], graph.value_info[:]
    graph.node.extend([*nodes, *own])
    graph.input.extend(inputs)
    graph.initializer.extend([value for part in earlier for value in part.graph.initializer])
    versions = {entry.domain: entry.version for each in (*earlier, merged) for entry in each.opset_import}
    versions |= {entry.domain: entry.version for entry in model.opset_import}
    if "ai.onnx.ml" in versions:
        # What came in version 1 means the same later; texts are encoded by operators of version 2.
        versions["ai.onnx.ml"] = max(versions["ai.onnx.ml"], ML_OPSET)
    del merged.opset_import[:]
    merged.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in versions.items())
    merged.functions.extend([value for part in earlier for value in part.functions])
    return merged


class CalibratedOutputs(nn.Module):
    """One fit's calibrated prediction from its base model's outputs (n, k)."""

    def __init__(self, member: TrustedMember) -> None:
        super().__init__()
        model = member.model
        if not isinstance(member.method, HasTensorFormula):
            raise no_graph(member.method)
        self._formula = member.method.predict_tensors
        self._margins, self._binary = model.response == "decision_function", model.n_classes == 2
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
        # A class that the base model did not see is the column of zeros behind its own.
        padded = torch.cat([found, torch.zeros_like(found[:, :1])], dim=1)
        logits = padded.index_select(1, self.order)
        if not self._margins:
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
    schema = classifier.schema_
    bases = [base_graph(member.model, classifier.probes_, schema) for member in members]
    rows = probe_rows(classifier, dtype, bases)
    fed = {"inputs": rows.numbers} if schema is None else column_feeds(schema, rows.raw)
    roundings, widths = [], []
    for member, base in zip(members, bases, strict=True):
        outputs = outputs_of_graph(base, fed)
        roundings.append(measured_rounding(member, outputs, rows, len(classifier.probes_)))
        widths.append(outputs.shape[1])
    joined = [Joined(classifier.calibration_.join, rounding) for rounding in roundings]
    parts = [TrustedMemberGraph(*each) for each in zip(members, joined, strict=True)]
    module = TrustedGraph(parts, widths, Decider(rules, joined, roundings))

    def merge(model: Any) -> Any:
        merged = put_before(model, side_by_side(bases, widen=schema is None))
        if schema is not None:
            merged = with_columns(merged, schema)
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


def column_name(place: int) -> str:
    """Return what a base graph calls a column: names of tables may be taken by operators."""
    return f"volta_column_{place}"


def with_columns(model: Any, schema: TableSchema) -> Any:
    """Return a graph of encoded rows, and of columns for its base models, as one of the table's columns."""
    import onnx

    model = with_encoding(model, schema)
    for place, given in enumerate(list(model.graph.input)):
        node = onnx.helper.make_node("Identity", [given.name], [column_name(place)], f"{column_name(place)}_of_table")
        model.graph.node.insert(0, node)
    return model


def feeds_by_name(model: Any, fed: Mapping[str, Array]) -> dict[str, Array]:
    """Return numbered columns under the names that a whole graph gives its inputs."""
    return {given.name: fed[column_name(place)] for place, given in enumerate(model.graph.input)}


def session_of(model: Any) -> Any:
    """Return a graph in memory, ready to run on one thread."""
    from volta.features.backbones.backbone import onnx_session

    return onnx_session(model.SerializeToString(), 1)


def outputs_of_graph(base: Any, fed: Mapping[str, Array]) -> Array:
    """Return a base graph's last output for rows; a graph of one input takes them whole."""
    try:
        session = session_of(base)
        inputs = [each.name for each in session.get_inputs()]
        found: Array = session.run([base.graph.output[-1].name], {n: fed[n if n in fed else "inputs"] for n in inputs})[
            0
        ]
    except Exception as error:  # the runtime raises many kinds
        raise ExportError(f"the graph that the converter made does not run ({reason(error)})") from error
    return found


def probe_rows(classifier: TrustedClassifier, dtype: FloatName, bases: Sequence[Any]) -> TableRows:
    """Return calibration rows, and rows on both sides of the thresholds of trees, in steps of ``dtype``.

    Trees behind other steps of a pipeline: two rows that a threshold parts are brought together by halving until there
    is no number between them.
    """
    schema = classifier.schema_
    held = classifier.probes_ if schema is not None else np.asarray(classifier.probes_, dtype=np.float64)
    random = rng(0, "export", "thresholds")
    found = [held]
    for member, base in zip(classifier.members_, bases, strict=True):
        thresholds = list(tree_thresholds(base))
        most = max(1, MOST_THRESHOLDS // len(bases))
        if len(thresholds) > most:
            thresholds = [thresholds[j] for j in random.choice(len(thresholds), most, replace=False)]
        if thresholds:
            prepare, _ = _last_step(unfrozen(member.model.estimator))
            columns, values = np.array(thresholds).T
            places = columns.astype(np.int64)
            if schema is None:
                found += list(_at_thresholds(held, prepare, places, values, dtype, random))
            else:
                found += list(_cells_at_thresholds(held, prepare, places, values))
    if schema is not None:
        import pandas

        frame = pandas.concat(found, ignore_index=True)
        return TableRows(frame, schema.encode(frame))
    rows = np.concatenate(found).astype(dtype).astype(np.float64)
    return TableRows(rows, rows)


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


def measured_rounding(member: TrustedMember, outputs: Array, rows: TableRows, n_calibration: int) -> Rounding:
    """Compare a base graph's outputs, calibrated, with Python on the same rows; leave room to spare."""
    exact = member.predict(rows)
    with torch.no_grad():
        found = CalibratedOutputs(member)(torch.from_numpy(outputs))
    apart = np.abs(found.probs.numpy() - exact.probs).max(axis=1)
    apart = np.maximum(apart, np.abs(found.uncertainty.numpy() - exact.uncertainty))
    # Rows next to a threshold may be sent elsewhere, which is no rounding; the calibration rows come first.
    return Rounding(absolute=ROOM * float(apart[:n_calibration].max()))


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
