"""Anyone's fitted classifier as an ONNX graph of its own, each step in the precision that it has in Python.

Trees and linear models are read and written again (`exact_graphs`); what prepares their inputs, and other models, are
written by skl2onnx.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from volta.core.errors import InputError, reason
from volta.core.types import Array
from volta.data.column_encoding import TableSchema
from volta.estimators.base_models import BaseModel, name_of, split_steps
from volta.estimators.exact_graphs import (
    ML_OPSET,
    OPSET,
    TreeSum,
    boosted_trees,
    catboost_trees,
    converted_trees,
    lightgbm_trees,
    linear_graph,
    sklearn_trees,
    tree_graph,
)
from volta.estimators.model_files import format_of
from volta.features.engines import ExportError

BOOSTER_OPSET = 15
"""What the converters of boosted trees know; their operators mean the same in ``OPSET``."""


def base_graph(model: BaseModel, rows: Any, schema: TableSchema | None) -> Any:
    """Return a base model from ``inputs`` (n, d) float64 to (n, k) probabilities or margins, its last output.

    rows: some as the model takes them; with a ``schema`` there is an input for each of its columns. Every step
    computes in the precision that it has in Python.
    """
    if model.response == "function":
        raise InputError(f"estimator is the function {name_of(model.estimator)}, which has no graph; wrap a classifier")
    if model.response == "network":
        raise InputError(
            "estimator is a network, which has no graph here; PostHocClassifier exports from its logits on"
        )
    estimator = model.estimator
    prepare, last = split_steps(estimator)
    try:
        if prepare is None and schema is None:
            return _converted(last, rows.shape[1])
        if prepare is None:
            raise InputError(
                f"{name_of(estimator)} takes text, dates or missing cells by itself, which converters do not know; "
                "put a ColumnTransformer that makes numbers of it before the model, in a pipeline"
            )
        first = _from_sklearn(prepare, rows.shape[1] if schema is None else schema)
        return chained(first, _converted(last, prepare.transform(rows[:2]).shape[1]))
    except ImportError as error:
        raise ExportError(f"exporting needs {error.name}; install it with: pip install 'volta-uq[onnx]'") from error
    except InputError:
        raise
    except Exception as error:  # converters raise many kinds
        raise InputError(f"{name_of(estimator)} cannot be exported: its converter says: {reason(error)}") from error


def _from_sklearn(estimator: Any, columns: int | TableSchema) -> Any:
    from skl2onnx import convert_sklearn, update_registered_converter
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType
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
    estimator = _copy_to_convert(estimator, () if isinstance(columns, int) else columns.names)
    if hasattr(estimator, "predict_proba"):
        options = {id(estimator): {"zipmap": False}}
    elif hasattr(estimator, "decision_function"):
        options = {id(estimator): {"raw_scores": True}}
    if isinstance(columns, int):
        types = [("inputs", DoubleTensorType([None, columns]))]
    else:
        types = [
            (column_name(place), (StringTensorType if column.kind == "category" else DoubleTensorType)([None, 1]))
            for place, column in enumerate(columns.columns)
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = convert_sklearn(
            estimator,
            initial_types=types,
            options=options,
            target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
        )
    _impute_in_double(found.graph, estimator)
    if not isinstance(columns, int):
        found = prefixed(found, "table_", {name: name for name, _ in types})
    return found


def _copy_to_convert(estimator: Any, names: Sequence[str]) -> Any:
    """Return a copy whose columns are called by number, and whose encoders know a missing category as the empty text.

    Converters change names that hold other characters than letters and digits.
    """
    copied = copy.deepcopy(estimator)
    numbered = {name: column_name(place) for place, name in enumerate(names)}

    def renamed(columns: Any) -> Any:
        if isinstance(columns, str):
            return numbered.get(columns, columns)
        return [renamed(each) for each in columns] if isinstance(columns, list | np.ndarray) else columns

    for part in fitted_parts(copied):
        if isinstance(part, ColumnTransformer):
            part.transformers_ = [(name, own, renamed(columns)) for name, own, columns in part.transformers_]
        for levels in getattr(part, "categories_", ()):
            if levels.dtype == object and any(isinstance(level, str) for level in levels):
                levels[[level is None or isinstance(level, float) for level in levels]] = ""
    return copied


def _impute_in_double(graph: Any, estimator: Any) -> None:
    """Put operators of float64 in the place of imputers, which ONNX Runtime has in float32 alone."""
    import onnx

    learned = [
        np.asarray(part.statistics_, dtype=np.float64)
        for part in fitted_parts(estimator)
        if hasattr(part, "statistics_") and part.statistics_.dtype.kind == "f"
    ]
    for place, node in reversed(list(enumerate(graph.node))):
        given = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type != "Imputer" or not np.isnan(given.get("replaced_value_float", 0.0)):
            continue
        fill, missing = f"{node.output[0]}_fill", f"{node.output[0]}_missing"
        single = np.array(given["imputed_value_floats"], dtype=np.float32)
        exact = [each for each in learned if np.array_equal(each.astype(np.float32), single)]
        values = exact[0] if exact else single.astype(np.float64)
        graph.initializer.append(onnx.numpy_helper.from_array(values[None], fill))
        tests = onnx.helper.make_node("IsNaN", [node.input[0]], [missing], missing)
        chosen = onnx.helper.make_node("Where", [missing, fill, node.input[0]], [node.output[0]], fill)
        graph.node.remove(node)
        graph.node.insert(place, chosen)
        graph.node.insert(place, tests)


def fitted_parts(estimator: Any) -> Iterator[Any]:
    """Walk a fitted transformer, pipelines and column transformers in depth."""
    if isinstance(estimator, ColumnTransformer):
        parts = [part for _, part, _ in estimator.transformers_]
    else:
        parts = [part for _, part in getattr(estimator, "steps", getattr(estimator, "transformer_list", []))]
    yield estimator
    for part in parts:
        yield from fitted_parts(part)


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


def _xgboost_trees(model: Any) -> TreeSum:
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("inputs", FloatTensorType([None, model.n_features_in_]))]
    found = convert_xgboost(model, initial_types=types, target_opset=BOOSTER_OPSET)
    return converted_trees(found, "none", rounded=True, single=True)


def _histogram_trees(model: Any) -> TreeSum:
    found = _from_sklearn(model, model.n_features_in_)
    return converted_trees(found, "sigmoid" if len(model.classes_) == 2 else "softmax")


READERS: dict[str, Callable[[Any], TreeSum]] = {
    "lightgbm": lightgbm_trees,
    "xgboost": _xgboost_trees,
    "catboost": catboost_trees,
}
"""What reads the trees of a model, by the format in which it is stored."""

SKLEARN_READERS: tuple[tuple[tuple[type, ...], Callable[[Any], TreeSum]], ...] = (
    ((DecisionTreeClassifier, ExtraTreeClassifier, ExtraTreesClassifier, RandomForestClassifier), sklearn_trees),
    ((GradientBoostingClassifier,), boosted_trees),
    ((HistGradientBoostingClassifier,), _histogram_trees),
)


def _converted(model: Any, n_columns: int) -> Any:
    """Return a fitted classifier without preparation from ``inputs`` (n, d) float64 to its probabilities or margins."""
    read = READERS.get(
        format_of(model), next((own for kinds, own in SKLEARN_READERS if isinstance(model, kinds)), None)
    )
    if read is not None:
        return tree_graph(read(model), n_columns)
    if isinstance(model, LogisticRegression | RidgeClassifier | LinearSVC):
        return linear_graph(model, n_columns)
    return _from_sklearn(model, n_columns)


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


def column_name(place: int) -> str:
    """Return what a base graph calls a column: names of tables may be taken by operators."""
    return f"volta_column_{place}"


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
