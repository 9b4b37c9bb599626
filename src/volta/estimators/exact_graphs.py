"""Trees and linear models as ONNX operators that compute what their libraries do.

ONNX's operators of trees and of linear classifiers compute in float32, which most libraries do not. Here an operator of
trees only finds the leaf of each tree, by thresholds in float64. The leaves' values are looked up in a table and added
up in the library's precision: float64, or float32 one tree after another for XGBoost.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.decisions.conformal import Floats
from volta.estimators.model_files import LightGBMModel
from volta.estimators.onnx_tables import Operators

Link: TypeAlias = Literal["none", "sigmoid", "softmax"]

OPSET, ML_OPSET = 18, 3
IR_VERSION = 8
"""The version of ONNX's files that knows these operators; newer ones older runtimes refuse."""
MOST_LEAVES = 2**24
"""Numbers of leaves are whole numbers of float32, which the operator gives."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of m nodes, the root first: a row whose column ``columns[i]`` is ≤ ``thresholds[i]`` goes to ``low[i]``.

    Others go to ``high[i]``, and NaN to the low side where ``missing_low[i]``. Leaves have ``low[i]`` −1 and
    ``values[i]`` (w,).
    """

    columns: NDArray[np.int64]
    thresholds: Floats
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    missing_low: NDArray[np.bool_]
    values: Floats


def constant(value: float | Floats) -> Tree:
    """Return a tree of one leaf."""
    none = np.array([-1])
    return Tree(np.zeros(1, np.int64), np.zeros(1), none, none, np.zeros(1, np.bool_), np.atleast_2d(value))


@dataclass(frozen=True, eq=False)
class TreeSum:
    """The sum of trees' leaves for each of ``n_outputs``, then ``link``: a classifier's probabilities or margins.

    Leaves have one value for each output, or one value alone: then trees take turns, tree t adding to output t modulo
    ``n_outputs``. ``rounded``: inputs are rounded to float32 first. ``single``: leaves are added up in float32.
    """

    trees: Sequence[Tree]
    n_outputs: int
    link: Link
    rounded: bool = False
    single: bool = False


def tree_graph(found: TreeSum, n_columns: int) -> Any:
    """Return an ensemble as an ONNX model from ``inputs`` (n, d) float64 to its probabilities or margins (n, k)."""
    from onnx import TensorProto

    leaves = np.concatenate([tree.values[tree.low < 0] for tree in found.trees])
    if len(leaves) >= MOST_LEAVES:
        raise InputError(f"its trees have {len(leaves)} leaves and a graph at most {MOST_LEAVES - 1}; fit fewer trees")
    made, rows = Operators(), "inputs"
    if found.rounded:
        rows = made.double(made.make("Cast", rows, to=TensorProto.FLOAT))
    numbers = made.make("TreeEnsembleRegressor", rows, domain="ai.onnx.ml", **_leaf_attributes(found.trees))
    numbers = made.make("Cast", numbers, to=TensorProto.INT64)
    table = made.constant(leaves.astype(np.float32 if found.single else np.float64))
    values = made.make("Gather", table, numbers, axis=0)
    values = made.make("Reshape", values, made.constant(np.array([0, -1, found.n_outputs])))
    if found.single:
        sums = made.make("CumSum", values, made.constant(np.array(1)))
        total = made.double(made.make("Gather", sums, made.constant(np.array(-1)), axis=1))
    else:
        total = made.make("ReduceSum", values, made.constant(np.array([1])), keepdims=0)
    return _classifier_graph(made, total, found.link, n_columns)


def linear_graph(model: Any, n_columns: int) -> Any:
    """Return a linear classifier of scikit-learn as an ONNX model in float64, which ONNX's own operator is not."""
    made = Operators()
    weights, intercept = made.constant(model.coef_.T.astype(np.float64)), made.constant(np.atleast_1d(model.intercept_))
    margins = made.make("Add", made.make("MatMul", "inputs", weights), intercept)
    link: Link = "none"
    if hasattr(model, "predict_proba"):
        link = "sigmoid" if len(model.classes_) == 2 else "softmax"
    return _classifier_graph(made, margins, link, n_columns)


def _classifier_graph(made: Operators, margins: str, link: Link, n_columns: int) -> Any:
    """Return a model that ends with the link from margins (n, k) to probabilities."""
    from onnx import TensorProto, helper

    output = margins
    if link == "softmax":
        output = made.make("Softmax", margins, axis=1)
    elif link == "sigmoid":
        likely = made.make("Sigmoid", margins)
        output = made.make("Concat", made.make("Sub", made.constant(np.array([1.0])), likely), likely, axis=1)
    graph = helper.make_graph(
        made.nodes,
        "classifier",
        [helper.make_tensor_value_info("inputs", TensorProto.DOUBLE, [None, n_columns])],
        [helper.make_tensor_value_info(output, TensorProto.DOUBLE, [None, None])],
        made.initializers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _leaf_attributes(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return the attributes of an operator that gives the number of a row's leaf in each tree, among all leaves."""
    from onnx import numpy_helper

    sizes = [len(tree.low) for tree in trees]
    ids = np.repeat(np.arange(len(trees)), sizes)
    nodes = np.concatenate([np.arange(size) for size in sizes])
    low, high = (np.concatenate([getattr(tree, side) for tree in trees]) for side in ("low", "high"))
    leaf = low < 0
    thresholds = np.where(leaf, 0.0, np.concatenate([tree.thresholds for tree in trees]))
    return {
        "nodes_treeids": ids.tolist(),
        "nodes_nodeids": nodes.tolist(),
        "nodes_featureids": np.where(leaf, 0, np.concatenate([tree.columns for tree in trees])).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_values_as_tensor": numpy_helper.from_array(thresholds, "nodes_values"),
        "nodes_truenodeids": np.where(leaf, 0, low).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, high).tolist(),
        "nodes_missing_value_tracks_true": np.concatenate([tree.missing_low for tree in trees]).astype(int).tolist(),
        "target_treeids": ids[leaf].tolist(),
        "target_nodeids": nodes[leaf].tolist(),
        "target_ids": ids[leaf].tolist(),
        "target_weights_as_tensor": numpy_helper.from_array(np.arange(leaf.sum(), dtype=np.float64), "target_weights"),
        "n_targets": len(trees),
    }


def sklearn_trees(model: Any) -> TreeSum:
    """Read a decision tree, a random forest or extremely randomised trees of scikit-learn: the mean of their trees."""
    trees = [each.tree_ for each in getattr(model, "estimators_", [model])]
    made = [_sklearn_tree(tree, tree.value[:, 0] / len(trees)) for tree in trees]
    return TreeSum(made, len(model.classes_), "none", rounded=True)


def boosted_trees(model: Any) -> TreeSum:
    """Read scikit-learn's GradientBoostingClassifier, of log loss and from the classes' shares or zero."""
    if model.loss != "log_loss" or (model.init is not None and model.init != "zero"):
        raise InputError(f"loss {model.loss!r} or init {model.init!r} has no graph; fit log_loss with init=None")
    n_outputs = model.estimators_.shape[1]
    base = np.zeros(n_outputs)
    if model.init is None:
        shares = np.clip(model.init_.class_prior_, np.finfo(np.float32).eps, 1.0 - np.finfo(np.float32).eps)
        base = np.log(shares) if n_outputs > 1 else np.log(shares[1:] / (1.0 - shares[1:]))
    trees = [
        _sklearn_tree(each.tree_, model.learning_rate * each.tree_.value[:, 0]) for each in model.estimators_.ravel()
    ]
    link: Link = "softmax" if n_outputs > 1 else "sigmoid"
    return TreeSum([*map(constant, base), *trees], n_outputs, link, rounded=True)


def _sklearn_tree(tree: Any, values: Floats) -> Tree:
    return Tree(
        tree.feature.astype(np.int64),
        tree.threshold,
        tree.children_left,
        tree.children_right,
        tree.missing_go_to_left.astype(np.bool_),
        values,
    )


def lightgbm_trees(model: Any) -> TreeSum:
    """Read a LightGBM classifier from its library's description."""
    booster = model.booster if isinstance(model, LightGBMModel) else model.booster_
    described = booster.dump_model()
    objective, *settings = described["objective"].split(" ")
    if objective not in ("binary", "multiclass") or described.get("average_output"):
        raise InputError(
            f"LightGBM's objective {objective!r}, or boosting 'rf', has no graph; fit binary or multiclass"
        )
    scale = next((float(each[8:]) for each in settings if each.startswith("sigmoid:")), 1.0)
    trees = [_lightgbm_tree(each["tree_structure"], scale) for each in described["tree_info"]]
    return TreeSum(trees, described["num_tree_per_iteration"], "sigmoid" if objective == "binary" else "softmax")


def _lightgbm_tree(root: dict[str, Any], scale: float) -> Tree:
    nodes, splits = [root], list[tuple[int, float, int, int, bool]]()
    for node in nodes:  # which grows: children go to its end
        if "leaf_coeff" in node:
            raise InputError("LightGBM's linear_tree has no graph; fit with linear_tree=False")
        if "split_feature" not in node:
            splits.append((0, 0.0, -1, -1, False))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise InputError(
                "LightGBM's splits of categories, and zero_as_missing, have no graph; encode categories in a pipeline"
            )
        threshold = float(node["threshold"])
        # NaN counts as 0 where no training row had one.
        to_low = bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0.0
        splits.append((node["split_feature"], threshold, len(nodes), len(nodes) + 1, to_low))
        nodes += [node["left_child"], node["right_child"]]
    columns, thresholds, low, high, missing_low = (np.array(each) for each in zip(*splits, strict=True))
    values = np.array([[scale * node.get("leaf_value", 0.0)] for node in nodes])
    return Tree(columns, thresholds, low, high, missing_low, values)


def catboost_trees(model: Any) -> TreeSum:
    """Read a CatBoost classifier of symmetric trees from its JSON: each level of a tree asks one question."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        described = json.loads(path.read_text())
    loss = described["model_info"]["params"]["loss_function"]["type"]
    trees = described.get("oblivious_trees", [])
    plain = all(split["split_type"] == "FloatFeature" for tree in trees for split in tree["splits"] or ())
    if loss not in ("Logloss", "CrossEntropy", "MultiClass") or "oblivious_trees" not in described or not plain:
        raise InputError(
            f"CatBoost's loss {loss}, categories of its own, or another grow_policy than SymmetricTree has no graph; "
            "encode categories in a pipeline, and fit Logloss or MultiClass"
        )
    scale, bias = described["scale_and_bias"]
    columns = {each["feature_index"]: each for each in described["features_info"]["float_features"]}
    found = [constant(np.atleast_1d(np.asarray(bias, dtype=np.float64)))]
    return TreeSum(
        [*found, *(_symmetric_tree(tree, columns, scale) for tree in trees)],
        found[0].values.shape[1],
        "softmax" if loss == "MultiClass" else "sigmoid",
        rounded=True,
    )


def _symmetric_tree(tree: dict[str, Any], columns: dict[int, Any], scale: float) -> Tree:
    """Return a tree whose nodes are numbered level by level: leaf numbers begin with the last split's bit."""
    splits = list(reversed(tree["splits"] or ()))
    n_splits, n_leaves = 2 ** len(splits) - 1, 2 ** len(splits)
    level = np.repeat(np.arange(len(splits)), 2 ** np.arange(len(splits)))
    of_split = [columns[split["float_feature_index"]] for split in splits]
    leaves = np.full(n_leaves, -1)

    def by_node(values: list[Any], kind: type) -> NDArray[Any]:
        return np.concatenate([np.array(values, dtype=kind)[level], np.zeros(n_leaves, dtype=kind)])

    values = scale * np.array(tree["leaf_values"]).reshape(n_leaves, -1)
    return Tree(
        by_node([each["flat_feature_index"] for each in of_split], np.int64),
        by_node([np.float32(split["border"]) for split in splits], np.float64),
        np.concatenate([2 * np.arange(n_splits) + 1, leaves]),
        np.concatenate([2 * np.arange(n_splits) + 2, leaves]),
        by_node([each["nan_value_treatment"] != "AsTrue" for each in of_split], np.bool_),
        np.concatenate([np.zeros((n_splits, values.shape[1])), values]),
    )


def converted_trees(model: Any, link: Link, *, rounded: bool = False, single: bool = False) -> TreeSum:
    """Read what a converter wrote: the trees of its operator TreeEnsembleClassifier, its base values first."""
    from onnx import helper, numpy_helper

    (node,) = [node for node in model.graph.node if node.op_type == "TreeEnsembleClassifier"]
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}

    def read(name: str, default: Any = ()) -> NDArray[Any]:
        if (tensor := given.get(f"{name}_as_tensor")) is not None:
            return np.asarray(numpy_helper.to_array(tensor))
        return np.asarray(given.get(name, default))

    ids, nodes = read("nodes_treeids"), read("nodes_nodeids")
    n_outputs = max(int(read("class_ids").max()) + 1, len(read("base_values")))
    place = {key: row for row, key in enumerate(zip(ids.tolist(), nodes.tolist(), strict=True))}
    values = np.zeros((len(ids), n_outputs))
    rows = [place[key] for key in zip(read("class_treeids").tolist(), read("class_nodeids").tolist(), strict=True)]
    values[rows, read("class_ids")] = read("class_weights")
    modes = read("nodes_modes").astype(str)
    thresholds = read("nodes_values").astype(np.float64)
    less = modes == "BRANCH_LT"
    # x < t is x ≤ the float32 number before t, for x in float32.
    before = np.nextafter(thresholds.astype(np.float32), np.float32(-np.inf))
    thresholds = np.where(less, before.astype(np.float64), thresholds)
    inner = modes != "LEAF"
    low, high = (np.where(inner, read(f"nodes_{side}nodeids"), -1) for side in ("true", "false"))
    missing = read("nodes_missing_value_tracks_true", np.zeros(len(ids))).astype(np.bool_)
    starts = [*np.flatnonzero(np.diff(ids, prepend=-1)), len(ids)]
    trees = []
    for start, end in pairwise(starts):
        own = slice(start, end)
        if not np.array_equal(nodes[own], np.arange(end - start)) or not set(modes[own]) <= KNOWN_MODES:
            raise InputError("the converter's trees are of a kind that has no exact graph")
        trees.append(
            Tree(read("nodes_featureids")[own], thresholds[own], low[own], high[own], missing[own], values[own])
        )
    base = np.zeros(n_outputs)
    base[:] = read("base_values", 0.0)
    turns = np.arange(len(trees)) % n_outputs
    if all(not np.delete(tree.values, turn, axis=1).any() for tree, turn in zip(trees, turns, strict=True)):
        trees = [replace(tree, values=tree.values[:, [turn]]) for tree, turn in zip(trees, turns, strict=True)]
        return TreeSum([*map(constant, base), *trees], n_outputs, link, rounded, single)
    return TreeSum([constant(base), *trees], n_outputs, link, rounded, single)


KNOWN_MODES = {"LEAF", "BRANCH_LEQ", "BRANCH_LT"}
